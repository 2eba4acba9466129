// Batch norm: statistics of a channel in double. Channels are shared out, or strips of columns.
#include <cmath>

#include "simd/kernel_table.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 256, kChain = 512;  // columns at a time, rows of one chain

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// (N, C, S): channel c is N runs of S elements; with S = 1 a column.
struct Channels {
  int64_t n = 1, c = 1, s = 1;
};

bool channels_of(PyArrayObject* x, Channels* k) {
  if (PyArray_NDIM(x) < 2) return false;
  k->n = PyArray_DIM(x, 0);
  k->c = PyArray_DIM(x, 1);
  for (int i = 2; i < PyArray_NDIM(x); ++i) k->s *= PyArray_DIM(x, i);
  return true;
}

// Sums down columns: chains of rows, then double. add(first row, rows, into).
template <class T, class F>
void down(int64_t rows, int64_t width, double* totals, F add) {
  T part[kStrip];
  for (int64_t k = 0; k < width; ++k) totals[k] = 0;
  for (int64_t row = 0; row < rows; row += kChain) {
    for (int64_t k = 0; k < width; ++k) part[k] = 0;
    add(row, least(kChain, rows - row), part);
    for (int64_t k = 0; k < width; ++k) totals[k] += static_cast<double>(part[k]);
  }
}

template <class F>
void strips(const Channels& k, F body) {
  const int64_t width = least(kStrip, (k.c / 8 + 15) / 16 * 16 + 16);
  ranges((k.c + width - 1) / width, 1 + kPiece / (width * k.n), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) body(i * width, least(width, k.c - i * width));
  });
}

template <class T>
void batch(const Channels& k, const T* x, const T* w, const T* b, T* out, T* means, T* spreads,
           double eps) {
  const Layers<T>& f = layers<T>();
  const double n = static_cast<double>(k.n * k.s);
  if (k.s == 1) {
    strips(k, [&](int64_t c, int64_t width) {
      double totals[kStrip];
      T scale[kStrip], shift[kStrip];
      down<T>(k.n, width, totals, [&](int64_t row, int64_t rows, T* part) {
        kernels<T>().sum_columns(x + row * k.c + c, part, rows, width, k.c);
      });
      for (int64_t j = 0; j < width; ++j) means[c + j] = static_cast<T>(totals[j] / n);
      down<T>(k.n, width, totals, [&](int64_t row, int64_t rows, T* part) {
        moments<T>().columns[1](x + row * k.c + c, means + c, part, rows, width, k.c);
      });
      for (int64_t j = 0; j < width; ++j) {
        spreads[c + j] = static_cast<T>(totals[j] / n);
        const T rstd = static_cast<T>(1 / std::sqrt(totals[j] / n + eps));
        scale[j] = w ? rstd * w[c + j] : rstd;
        shift[j] = b ? b[c + j] : T(0);
      }
      for (int64_t i = 0; i < k.n; ++i)
        f.affine_columns(x + i * k.c + c, means + c, scale, shift, out + i * k.c + c, width);
    });
    return;
  }
  ranges(k.c, 1 + kPiece / (k.n * k.s), [&](int64_t start, int64_t stop) {
    for (int64_t c = start; c < stop; ++c) {
      double total = 0;
      for (int64_t i = 0; i < k.n; ++i) total += f.total(x + (i * k.c + c) * k.s, k.s);
      const T mean = static_cast<T>(total / n);
      total = 0;
      for (int64_t i = 0; i < k.n; ++i)
        total += f.squared(x + (i * k.c + c) * k.s, k.s, mean);
      means[c] = mean;
      spreads[c] = static_cast<T>(total / n);
      const T rstd = static_cast<T>(1 / std::sqrt(total / n + eps));
      for (int64_t i = 0; i < k.n; ++i) {
        const int64_t at = (i * k.c + c) * k.s;
        f.affine(x + at, out + at, k.s, mean, w ? rstd * w[c] : rstd, b ? b[c] : T(0));
      }
    }
  });
}

template <class T>
void batch_slope(const Channels& k, const T* g, const T* x, const T* w, const T* means,
                 const T* spreads, T* gx, T* gw, T* gb, double eps) {
  const Layers<T>& f = layers<T>();
  const double n = static_cast<double>(k.n * k.s);
  // From the two sums of a channel: its weights' gradients, and gx = g p - (a + (x - mean) q).
  const auto settle = [&](int64_t c, double total, double dots, T* p, T* a, T* q) {
    const double rstd = 1 / std::sqrt(static_cast<double>(spreads[c]) + eps);
    const double scale = w ? rstd * static_cast<double>(w[c]) : rstd;
    gw[c] = static_cast<T>(dots * rstd);
    gb[c] = static_cast<T>(total);
    *p = static_cast<T>(scale);
    *a = static_cast<T>(scale * total / n);
    *q = static_cast<T>(scale * rstd * rstd * dots / n);
  };
  if (k.s == 1) {
    strips(k, [&](int64_t c, int64_t width) {
      double totals[kStrip], dots[kStrip];
      T p[kStrip], a[kStrip], q[kStrip], other[kStrip];
      for (int64_t j = 0; j < width; ++j) dots[j] = 0;
      down<T>(k.n, width, totals, [&](int64_t row, int64_t rows, T* part) {
        for (int64_t j = 0; j < width; ++j) other[j] = 0;
        const int64_t at = row * k.c + c;
        f.dots_columns(g + at, x + at, means + c, part, other, rows, width, k.c);
        for (int64_t j = 0; j < width; ++j) dots[j] += static_cast<double>(other[j]);
      });
      for (int64_t j = 0; j < width; ++j) settle(c + j, totals[j], dots[j], p + j, a + j, q + j);
      for (int64_t i = 0; i < k.n; ++i) {
        const int64_t at = i * k.c + c;
        f.slope_columns(g + at, x + at, means + c, p, a, q, gx + at, width);
      }
    });
    return;
  }
  ranges(k.c, 1 + kPiece / (k.n * k.s), [&](int64_t start, int64_t stop) {
    for (int64_t c = start; c < stop; ++c) {
      double total = 0, dots = 0;
      for (int64_t i = 0; i < k.n; ++i) {
        const int64_t at = (i * k.c + c) * k.s;
        double part[2];
        f.dots(g + at, x + at, nullptr, k.s, means[c], part);
        total += part[0];
        dots += part[1];
      }
      T p, a, q;
      settle(c, total, dots, &p, &a, &q);
      for (int64_t i = 0; i < k.n; ++i) {
        const int64_t at = (i * k.c + c) * k.s;
        f.norm_slope(g + at, x + at, nullptr, gx + at, k.s, means[c], p, a, q);
      }
    }
  });
}

}  // namespace

PyObject* batch_norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("batch_norm", n, 4, 4) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  Channels k;
  LayerOperand in, w, b;
  if (!x || !channels_of(x, &k)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[3]);
  if (eps == -1 && PyErr_Occurred()) return left_to_caller();
  if (!in.read(args[0], type, PyArray_SIZE(x)) || !optional(&w, args[1], type, k.c) ||
      !optional(&b, args[2], type, k.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = k.c;
  Ref out(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref mean(fresh(1, &channels, type)), spread(fresh(1, &channels, type));
  if (!out || !mean || !spread) return nullptr;
  {
    Unlocked unlocked(k.n * k.c * k.s > kUnlock);
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      batch(k, in.as<T>(), w.as<T>(), b.as<T>(), data<T>(out), data<T>(mean), data<T>(spread), eps);
    };
    type == NPY_FLOAT ? go(float()) : go(double());
  }
  return three(std::move(out), std::move(mean), std::move(spread));
}

PyObject* batch_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("batch_norm_slope", n, 6, 6) < 0) return nullptr;
  PyArrayObject* x = real(args[1]);
  Channels k;
  LayerOperand g, in, w, mean, spread;
  if (!x || !channels_of(x, &k)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[5]);
  if (eps == -1 && PyErr_Occurred()) return left_to_caller();
  if (!g.read(args[0], type, PyArray_SIZE(x)) || !in.read(args[1], type, PyArray_SIZE(x)) ||
      !optional(&w, args[2], type, k.c) || !mean.read(args[3], type, k.c) ||
      !spread.read(args[4], type, k.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = k.c;
  Ref gx(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref gw(fresh(1, &channels, type)), gb(fresh(1, &channels, type));
  if (!gx || !gw || !gb) return nullptr;
  {
    Unlocked unlocked(k.n * k.c * k.s > kUnlock);
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      batch_slope(k, g.as<T>(), in.as<T>(), w.as<T>(), mean.as<T>(), spread.as<T>(), data<T>(gx),
                  data<T>(gw), data<T>(gb), eps);
    };
    type == NPY_FLOAT ? go(float()) : go(double());
  }
  return three(std::move(gx), std::move(gw), std::move(gb));
}

}  // namespace shmtensor
