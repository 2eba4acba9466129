// Batch norm: statistics of a channel in double. Threads work on channels, or on pieces of columns: a matrix (N, C), and
// images whose channels are last in memory, a matrix (pixels, C).
#include <cmath>
#include <vector>

#include "simd/kernel_table.h"
#include "kernels/nn/images.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kStrip = 256, kChain = 512;  // columns at a time, rows added in one accumulator
constexpr int64_t kTall = 1 << 17;             // elements of a matrix that is divided into rows, too
constexpr int64_t kRowPiece = 1 << 15;         // elements of a piece of rows, which stay in the second-level cache

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// (N, C, S): channel c is N runs of S elements; with S = 1 a column. Channels last: N pixels of all images, S = 1.
struct ChannelLayout {
  int64_t n = 1, c = 1, s = 1;
  bool channels_last = false;

  // The array in this order in memory, and the array of such memory.
  Ref memory_of(PyArrayObject* x) const {
    if (!channels_last) return contiguous(x);
    Ref view = move_channels(x, true);
    return view ? contiguous(view.array()) : Ref();
  }
  Ref new_memory(PyArrayObject* like) const {
    Ref view = channels_last ? move_channels(like, true) : Ref(Py_NewRef(like));
    return Ref(view ? new_array(PyArray_NDIM(like), PyArray_DIMS(view.array()), PyArray_TYPE(like)) : nullptr);
  }
  Ref array_of(Ref memory) const { return channels_last ? move_channels(memory.array(), false) : std::move(memory); }
};

bool read_layout(PyArrayObject* x, ChannelLayout* layout) {
  if (PyArray_NDIM(x) < 2) return false;
  layout->n = PyArray_DIM(x, 0);
  layout->c = PyArray_DIM(x, 1);
  for (int i = 2; i < PyArray_NDIM(x); ++i) layout->s *= PyArray_DIM(x, i);
  layout->channels_last = has_channels_last(x);
  if (layout->channels_last) layout->n *= layout->s, layout->s = 1;
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

// A matrix (n, c) in pieces: strips of columns and, if it is tall, pieces of rows.
struct ColumnPieces {
  int64_t n, c, width, rows, strips, pieces;
  explicit ColumnPieces(const ChannelLayout& layout) : n(layout.n), c(layout.c) {
    const bool is_tall = n * c >= kTall && n > c;
    width = min(kStrip, is_tall ? c : (c / 8 + 15) / 16 * 16 + 16);
    rows = is_tall ? 1 + kRowPiece / width : n;
    strips = (c + width - 1) / width, pieces = (n + rows - 1) / rows;
  }
  // body(piece, first row, number of rows, first column, number of columns)
  template <class F>
  void run(F body) const {
    ranges(strips * pieces, 1 + kPiece / (width * rows), [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const int64_t row = i / strips * rows, column = i % strips * width;
        body(i / strips, row, min(rows, n - row), column, min(width, c - column));
      }
    });
  }
};

template <class T>
void forward(const ChannelLayout& layout, const T* x, const T* w, const T* b, T* out, T* means, T* variances, double eps) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const double n = static_cast<double>(layout.n * layout.s);
  if (layout.s == 1) {
    // Of each piece the sum, its mean, and the sum of squared deviations from that.
    const ColumnPieces p(layout);
    const int64_t c = p.c, plane = p.pieces * c;
    std::vector<double> statistics(static_cast<size_t>(2 * plane));
    std::vector<T> piece_means(static_cast<size_t>(plane)), scale(static_cast<size_t>(2 * c));
    T* shift = scale.data() + c;
    p.run([&](int64_t piece, int64_t first, int64_t rows, int64_t column, int64_t width) {
      double* sums = statistics.data() + piece * c + column;
      T* mean = piece_means.data() + piece * c + column;
      const T* from = x + first * c + column;
      sum_down_columns<T>(rows, width, sums, [&](int64_t row, int64_t count, T* partial) {
        kernels<T>().sum_columns(from + row * c, partial, count, width, c);
      });
      for (int64_t j = 0; j < width; ++j) mean[j] = static_cast<T>(sums[j] / static_cast<double>(rows));
      sum_down_columns<T>(rows, width, sums + plane, [&](int64_t row, int64_t count, T* partial) {
        moment_kernels<T>().columns[1](from + row * c, mean, partial, count, width, c);
      });
    });
    for (int64_t j = 0; j < c; ++j) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < p.pieces; ++i) sum += statistics[static_cast<size_t>(i * c + j)];
      means[j] = static_cast<T>(sum / n);
      for (int64_t i = 0; i < p.pieces; ++i) {  // moved from the mean of a piece to that of all rows
        const size_t at = static_cast<size_t>(i * c + j);
        const double rows = static_cast<double>(min(p.rows, p.n - i * p.rows)), mean = static_cast<double>(piece_means[at]);
        const double d = mean - static_cast<double>(means[j]);
        squares += statistics[at + static_cast<size_t>(plane)] + d * (2 * (statistics[at] - rows * mean) + rows * d);
      }
      variances[j] = static_cast<T>(squares / n);
      const T rstd = static_cast<T>(1 / std::sqrt(squares / n + eps));
      scale[static_cast<size_t>(j)] = w ? rstd * w[j] : rstd;
      shift[j] = b ? b[j] : T(0);
    }
    p.run([&](int64_t, int64_t first, int64_t rows, int64_t column, int64_t width) {
      for (int64_t at = first * c + column; rows > 0; --rows, at += c)
        kernels_.affine_columns(x + at, means + column, scale.data() + column, shift + column, out + at, width);
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
    const ColumnPieces pieces(layout);
    const int64_t c = pieces.c, plane = pieces.pieces * c;
    std::vector<double> statistics(static_cast<size_t>(2 * plane));
    std::vector<T> factors(static_cast<size_t>(3 * c));
    T *p = factors.data(), *a = p + c, *q = a + c;
    pieces.run([&](int64_t piece, int64_t first, int64_t rows, int64_t column, int64_t width) {
      double *sums = statistics.data() + piece * c + column, *dots = sums + plane;
      T partial_dots[kStrip];
      for (int64_t j = 0; j < width; ++j) dots[j] = 0;
      sum_down_columns<T>(rows, width, sums, [&](int64_t row, int64_t count, T* partial) {
        for (int64_t j = 0; j < width; ++j) partial_dots[j] = 0;
        const int64_t at = (first + row) * c + column;
        kernels_.dots_columns(g + at, x + at, means + column, partial, partial_dots, count, width, c);
        for (int64_t j = 0; j < width; ++j) dots[j] += static_cast<double>(partial_dots[j]);
      });
    });
    for (int64_t j = 0; j < c; ++j) {
      double sum = 0, dots = 0;
      for (int64_t at = j; at < plane; at += c)
        sum += statistics[static_cast<size_t>(at)], dots += statistics[static_cast<size_t>(plane + at)];
      finish_channel(j, sum, dots, p + j, a + j, q + j);
    }
    if (!gx) return;
    pieces.run([&](int64_t, int64_t first, int64_t rows, int64_t column, int64_t width) {
      for (int64_t at = first * c + column; rows > 0; --rows, at += c)
        kernels_.norm_backward_columns(g + at, x + at, means + column, p + column, a + column, q + column, gx + at, width);
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
  LayerOperand w, b;
  if (!x || !read_layout(x, &layout)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[3]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  if (!read_optional(&w, args[1], type, layout.c) || !read_optional(&b, args[2], type, layout.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = layout.c;
  Ref in = layout.memory_of(x), out = layout.new_memory(x);
  Ref mean(new_array(1, &channels, type)), variance(new_array(1, &channels, type));
  if (!in || !out || !mean || !variance) return nullptr;
  {
    Unlocked unlocked(layout.n * layout.c * layout.s > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      forward(layout, data<T>(in), w.as<T>(), b.as<T>(), data<T>(out), data<T>(mean), data<T>(variance), eps);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  Ref result = layout.array_of(std::move(out));
  return result ? pack_tuple3(std::move(result), std::move(mean), std::move(variance)) : nullptr;
}

PyObject* batch_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("batch_norm_backward", n, 7)) return nullptr;
  PyArrayObject *x = real_array(args[1]), *gradient = real_array(args[0]);
  ChannelLayout layout;
  LayerOperand w, mean, variance;
  if (!x || !read_layout(x, &layout)) Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[5]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  if (!gradient || PyArray_TYPE(gradient) != type || !PyArray_SAMESHAPE(gradient, x) ||
      !read_optional(&w, args[2], type, layout.c) || !mean.read(args[3], type, layout.c) ||
      !variance.read(args[4], type, layout.c))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp channels = layout.c;
  const bool needs_x = args[6] == Py_True;
  Ref g = layout.memory_of(gradient), in = layout.memory_of(x), gx;
  if (needs_x) gx = layout.new_memory(x);
  Ref gw(new_array(1, &channels, type)), gb(new_array(1, &channels, type));
  if (!g || !in || (needs_x && !gx) || !gw || !gb) return nullptr;
  {
    Unlocked unlocked(layout.n * layout.c * layout.s > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      backward(layout, data<T>(g), data<T>(in), w.as<T>(), mean.as<T>(), variance.as<T>(), needs_x ? data<T>(gx) : nullptr,
               data<T>(gw), data<T>(gb), eps);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  gx = needs_x ? layout.array_of(std::move(gx)) : Ref(Py_NewRef(Py_None));
  return gx ? pack_tuple3(std::move(gx), std::move(gw), std::move(gb)) : nullptr;
}

}  // namespace shmtensor
