// Batch norm: statistics of a channel in double. Threads work on channels, or on strips of columns.
#include <cmath>

#include "simd/kernel_table.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 256, kChain = 512;  // columns at a time, rows added in one accumulator

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// (N, C, S): channel c is N runs of S elements; with S = 1 a column.
struct ChannelLayout {
  int64_t n = 1, c = 1, s = 1;
};

bool read_layout(PyArrayObject* x, ChannelLayout* layout) {
  if (PyArray_NDIM(x) < 2) return false;
  layout->n = PyArray_DIM(x, 0);
  layout->c = PyArray_DIM(x, 1);
  for (int i = 2; i < PyArray_NDIM(x); ++i) layout->s *= PyArray_DIM(x, i);
  return true;
}

// Column sums: up to kChain rows in T, then double. add(first row, rows, sums) adds some rows.
template <class T, class F>
void sum_down_columns(int64_t rows, int64_t width, double* sums, F add) {
  T partial[kStrip];
  for (int64_t layout = 0; layout < width; ++layout) sums[layout] = 0;
  for (int64_t row = 0; row < rows; row += kChain) {
    for (int64_t layout = 0; layout < width; ++layout) partial[layout] = 0;
    add(row, min(kChain, rows - row), partial);
    for (int64_t layout = 0; layout < width; ++layout) sums[layout] += static_cast<double>(partial[layout]);
  }
}

template <class F>
void for_column_strips(const ChannelLayout& layout, F body) {
  const int64_t width = min(kStrip, (layout.c / 8 + 15) / 16 * 16 + 16);
  ranges((layout.c + width - 1) / width, 1 + kPiece / (width * layout.n), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) body(i * width, min(width, layout.c - i * width));
  });
}

template <class T>
void forward(const ChannelLayout& layout, const T* x, const T* w, const T* b, T* out, T* means, T* variances, double eps) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const double n = static_cast<double>(layout.n * layout.s);
  if (layout.s == 1) {
    for_column_strips(layout, [&](int64_t c, int64_t width) {
      double sums[kStrip];
      T scale[kStrip], shift[kStrip];
      sum_down_columns<T>(layout.n, width, sums, [&](int64_t row, int64_t rows, T* partial) {
        kernels<T>().sum_columns(x + row * layout.c + c, partial, rows, width, layout.c);
      });
      for (int64_t j = 0; j < width; ++j) means[c + j] = static_cast<T>(sums[j] / n);
      sum_down_columns<T>(layout.n, width, sums, [&](int64_t row, int64_t rows, T* partial) {
        moment_kernels<T>().columns[1](x + row * layout.c + c, means + c, partial, rows, width, layout.c);
      });
      for (int64_t j = 0; j < width; ++j) {
        variances[c + j] = static_cast<T>(sums[j] / n);
        const T rstd = static_cast<T>(1 / std::sqrt(sums[j] / n + eps));
        scale[j] = w ? rstd * w[c + j] : rstd;
        shift[j] = b ? b[c + j] : T(0);
      }
      for (int64_t i = 0; i < layout.n; ++i)
        kernels_.affine_columns(x + i * layout.c + c, means + c, scale, shift, out + i * layout.c + c, width);
    });
    return;
  }
  ranges(layout.c, 1 + kPiece / (layout.n * layout.s), [&](int64_t start, int64_t stop) {
    for (int64_t c = start; c < stop; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < layout.n; ++i) sum += kernels_.sum(x + (i * layout.c + c) * layout.s, layout.s);
      const T mean = static_cast<T>(sum / n);
      sum = 0;
      for (int64_t i = 0; i < layout.n; ++i)
        sum += kernels_.sum_of_squared_deviations(x + (i * layout.c + c) * layout.s, layout.s, mean);
      means[c] = mean;
      variances[c] = static_cast<T>(sum / n);
      const T rstd = static_cast<T>(1 / std::sqrt(sum / n + eps));
      for (int64_t i = 0; i < layout.n; ++i) {
        const int64_t at = (i * layout.c + c) * layout.s;
        kernels_.affine(x + at, out + at, layout.s, mean, w ? rstd * w[c] : rstd, b ? b[c] : T(0));
      }
    }
  });
}

// Without gx where it is null.
template <class T>
void backward(const ChannelLayout& layout, const T* g, const T* x, const T* w, const T* means, const T* variances, T* gx,
              T* gw, T* gb, double eps) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const double n = static_cast<double>(layout.n * layout.s);
  // From the two sums of a channel: its weights' gradients and p, a, q of gx = g p - (a + (x - mean) q).
  const auto finish_channel = [&](int64_t c, double sum, double dots, T* p, T* a, T* q) {
    const double rstd = 1 / std::sqrt(static_cast<double>(variances[c]) + eps);
    const double scale = w ? rstd * static_cast<double>(w[c]) : rstd;
    gw[c] = static_cast<T>(dots * rstd);
    gb[c] = static_cast<T>(sum);
    *p = static_cast<T>(scale);
    *a = static_cast<T>(scale * sum / n);
    *q = static_cast<T>(scale * rstd * rstd * dots / n);
  };
  if (layout.s == 1) {
    for_column_strips(layout, [&](int64_t c, int64_t width) {
      double sums[kStrip], dots[kStrip];
      T p[kStrip], a[kStrip], q[kStrip], partial_dots[kStrip];
      for (int64_t j = 0; j < width; ++j) dots[j] = 0;
      sum_down_columns<T>(layout.n, width, sums, [&](int64_t row, int64_t rows, T* partial) {
        for (int64_t j = 0; j < width; ++j) partial_dots[j] = 0;
        const int64_t at = row * layout.c + c;
        kernels_.dots_columns(g + at, x + at, means + c, partial, partial_dots, rows, width, layout.c);
        for (int64_t j = 0; j < width; ++j) dots[j] += static_cast<double>(partial_dots[j]);
      });
      for (int64_t j = 0; j < width; ++j) finish_channel(c + j, sums[j], dots[j], p + j, a + j, q + j);
      for (int64_t i = 0; gx && i < layout.n; ++i) {
        const int64_t at = i * layout.c + c;
        kernels_.norm_backward_columns(g + at, x + at, means + c, p, a, q, gx + at, width);
      }
    });
    return;
  }
  ranges(layout.c, 1 + kPiece / (layout.n * layout.s), [&](int64_t start, int64_t stop) {
    for (int64_t c = start; c < stop; ++c) {
      double sum = 0, dots = 0;
      for (int64_t i = 0; i < layout.n; ++i) {
        const int64_t at = (i * layout.c + c) * layout.s;
        double partial[2];
        kernels_.dots(g + at, x + at, nullptr, layout.s, means[c], partial);
        sum += partial[0];
        dots += partial[1];
      }
      T p, a, q;
      finish_channel(c, sum, dots, &p, &a, &q);
      for (int64_t i = 0; gx && i < layout.n; ++i) {
        const int64_t at = (i * layout.c + c) * layout.s;
        kernels_.norm_backward(g + at, x + at, nullptr, gx + at, layout.s, means[c], p, a, q);
      }
    }
  });
}

}  // namespace

PyObject* batch_norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("batch_norm", n, 4)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  ChannelLayout layout;
  LayerOperand in, w, b;
  if (!x || !read_layout(x, &layout)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[3]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  if (!in.read(args[0], type, PyArray_SIZE(x)) || !read_optional(&w, args[1], type, layout.c) ||
      !read_optional(&b, args[2], type, layout.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = layout.c;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref mean(new_array(1, &channels, type)), variance(new_array(1, &channels, type));
  if (!out || !mean || !variance) return nullptr;
  {
    Unlocked unlocked(layout.n * layout.c * layout.s > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      forward(layout, in.as<T>(), w.as<T>(), b.as<T>(), data<T>(out), data<T>(mean), data<T>(variance), eps);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  return pack_tuple3(std::move(out), std::move(mean), std::move(variance));
}

PyObject* batch_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("batch_norm_backward", n, 7)) return nullptr;
  PyArrayObject* x = real_array(args[1]);
  ChannelLayout layout;
  LayerOperand g, in, w, mean, variance;
  if (!x || !read_layout(x, &layout)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[5]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  if (!g.read(args[0], type, PyArray_SIZE(x)) || !in.read(args[1], type, PyArray_SIZE(x)) ||
      !read_optional(&w, args[2], type, layout.c) || !mean.read(args[3], type, layout.c) ||
      !variance.read(args[4], type, layout.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = layout.c;
  const bool needs_x = args[6] == Py_True;
  Ref gx(needs_x ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type) : Py_NewRef(Py_None));
  Ref gw(new_array(1, &channels, type)), gb(new_array(1, &channels, type));
  if (!gx || !gw || !gb) return nullptr;
  {
    Unlocked unlocked(layout.n * layout.c * layout.s > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      backward(layout, g.as<T>(), in.as<T>(), w.as<T>(), mean.as<T>(), variance.as<T>(), needs_x ? data<T>(gx) : nullptr,
               data<T>(gw), data<T>(gb), eps);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  return pack_tuple3(std::move(gx), std::move(gw), std::move(gb));
}

}  // namespace shmtensor
