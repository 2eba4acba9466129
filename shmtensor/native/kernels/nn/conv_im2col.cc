// Convolution as matrix products: each thread unrolls the columns of a few rows of results into its cache and
// multiplies them by BLAS. Pieces depend on the shapes alone. conv_algorithm.cc has specialised algorithms.
#include "kernels/nn/convolution.h"

#include <cstring>
#include <new>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 4096, kColumns = 1 << 17;  // elements of a piece's columns

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// Windows of one element with stride 1 and no padding: the image is its own column matrix.
bool is_pointwise(const Convolution& v) {
  for (int i = 0; i < 3; ++i) {
    if (v.kernel[i] != 1 || v.stride[i] != 1 || v.padding[i]) return false;
  }
  return true;
}

// The windows [begin, end) of [0, out_size) for which a filter tap is inside the image.
struct WindowRange {
  int64_t begin, end, at;  // at: the pixel of window 0
};

WindowRange window_range(const Convolution& v, int d, int64_t tap) {
  const int64_t s = v.stride[d], at = tap * v.dilation[d] - v.padding[d];
  int64_t begin = at < 0 ? (-at + s - 1) / s : 0;
  int64_t end = v.size[d] > at ? (v.size[d] - at + s - 1) / s : 0;
  end = min(end, v.out_size[d]);
  begin = min(begin, end);
  return {begin, end, at};
}

// One channel's columns (taps x windows) for the rows of results [first, last), counted over all depths.
// kAdjoint: the columns are added to the image instead.
template <class T, bool kAdjoint>
void im2col(const Convolution& v, T* image, int64_t first, int64_t last, T* columns) {
  const int64_t width = v.out_size[2], n = (last - first) * width;
  for (int64_t a = 0; a < v.kernel[0]; ++a) {
    const WindowRange z_range = window_range(v, 0, a);
    for (int64_t b = 0; b < v.kernel[1]; ++b) {
      const WindowRange y_range = window_range(v, 1, b);
      for (int64_t c = 0; c < v.kernel[2]; ++c, columns += n) {
        const WindowRange x_range = window_range(v, 2, c);
        T* out = columns;
        for (int64_t row = first; row < last; ++row, out += width) {
          const int64_t z = row / v.out_size[1], y = row % v.out_size[1];
          if (z < z_range.begin || z >= z_range.end || y < y_range.begin || y >= y_range.end) {
            if (!kAdjoint) memset(out, 0, sizeof(T) * static_cast<size_t>(width));
            continue;
          }
          T* pixel =
              image + ((z * v.stride[0] + z_range.at) * v.size[1] + y * v.stride[1] + y_range.at) * v.size[2] + x_range.at;
          const int64_t s = v.stride[2];
          if (kAdjoint) {
            if (s == 1) {
              for (int64_t x = x_range.begin; x < x_range.end; ++x) pixel[x] += out[x];
            } else {
              for (int64_t x = x_range.begin; x < x_range.end; ++x) pixel[x * s] += out[x];
            }
            continue;
          }
          for (int64_t x = 0; x < x_range.begin; ++x) out[x] = 0;
          for (int64_t x = x_range.end; x < width; ++x) out[x] = 0;
          if (s == 1) {
            memcpy(out + x_range.begin, pixel + x_range.begin, sizeof(T) * static_cast<size_t>(x_range.end - x_range.begin));
          } else if (s == 2) {
            nn_kernels<T>().take_even(pixel + 2 * x_range.begin, out + x_range.begin, x_range.end - x_range.begin);
          } else {
            for (int64_t x = x_range.begin; x < x_range.end; ++x) out[x] = pixel[x * s];
          }
        }
      }
    }
  }
}

// Rows of results in a piece: the columns of `channels` channels fit in the cache.
int64_t rows_per_piece(const Convolution& v, int64_t channels) {
  const int64_t rows = v.out_size[0] * v.out_size[1], one = channels * v.taps() * v.out_size[2];
  int64_t n = kColumns / (one ? one : 1);
  n = n < 1 ? 1 : min(n, rows);
  const int64_t pieces = (rows + n - 1) / n;
  return (rows + pieces - 1) / pieces;
}

template <class T>
Gemm<T> make_gemm(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                  T beta) {
  Gemm<T> gemm;
  gemm.a = a;
  gemm.b = b;
  gemm.c = c;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.lda = lda;
  gemm.ldb = ldb;
  gemm.ldc = ldc;
  gemm.a_transposed = gemm.b_transposed = false;
  gemm.beta = beta;
  return gemm;
}

template <class T>
void forward(const Convolution& v, const T* x, const T* w, const T* bias, T* y) {
  if (has_specialized_conv(v)) return specialized_conv(v, x, w, bias, y, false);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, depth = c * v.taps();
  const int64_t rows = v.out_size[0] * v.out_size[1], piece = rows_per_piece(v, c);
  const int64_t pieces = (rows + piece - 1) / piece, out_pixels = v.outputs();
  const bool pointwise = is_pointwise(v);
  const int64_t work = k * depth * piece * v.out_size[2];
  ranges(v.n * v.groups * pieces, 1 + 65536 / (work ? work : 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const int64_t first = i % pieces * piece, last = min(rows, first + piece);
      const int64_t g = i / pieces % v.groups, image = i / pieces / v.groups;
      const int64_t n = (last - first) * v.out_size[2];
      const T* pixels = x + (image * v.c + g * c) * v.pixels();
      T* out = y + (image * v.k + g * k) * out_pixels + first * v.out_size[2];
      const T* columns = pixels + first * v.out_size[2];
      int64_t ldb = out_pixels;
      if (!pointwise) {
        T* buffer = scratch.get<T>(depth * n);
        for (int64_t j = 0; j < c; ++j)
          im2col<T, false>(v, const_cast<T*>(pixels) + j * v.pixels(), first, last, buffer + j * v.taps() * n);
        columns = buffer;
        ldb = n;
      }
      if (bias) {
        for (int64_t j = 0; j < k; ++j) {
          for (int64_t p = 0; p < n; ++p) out[j * out_pixels + p] = bias[g * k + j];
        }
      }
      blas_gemm(make_gemm(w + g * k * depth, columns, out, k, n, depth, depth, ldb, out_pixels, bias ? T(1) : T(0)));
    }
  });
}

// The input's gradient x (n, c, size) from the output's gradient y (n, k, out_size).
template <class T>
void backward_input(const Convolution& v, const T* y, const T* w, T* x) {
  Convolution rotated = v;  // stride 1: a convolution with rotated filters and padding 2 - padding
  rotated.c = v.k;
  rotated.k = v.c;
  for (int i = 0; i < 3; ++i) {
    rotated.size[i] = v.out_size[i];
    rotated.out_size[i] = v.size[i];
    rotated.padding[i] = v.kernel[i] - 1 - v.padding[i];
  }
  const bool covers_all =
      v.out_size[1] == v.size[1] + 2 * v.padding[1] - 2 && v.out_size[2] == v.size[2] + 2 * v.padding[2] - 2;
  if (covers_all && rotated.padding[1] >= 0 && rotated.padding[2] >= 0 && has_specialized_conv(rotated))
    return specialized_conv<T>(rotated, y, w, nullptr, x, true);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, taps = v.taps();
  const int64_t rows = v.out_size[0] * v.out_size[1], out_pixels = v.outputs();
  const bool pointwise = is_pointwise(v);
  // Channels are divided among threads, too, if there are few images.
  int64_t channel_blocks = v.n * v.groups >= 8 ? 1 : (8 + v.n * v.groups - 1) / (v.n * v.groups);
  const int64_t channel_block = (c + channel_blocks - 1) / channel_blocks;
  channel_blocks = (c + channel_block - 1) / channel_block;
  const int64_t piece = pointwise ? rows : rows_per_piece(v, channel_block);
  const int64_t work = k * channel_block * taps * out_pixels;
  ranges(v.n * v.groups * channel_blocks, 1 + 65536 / (work ? work : 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c0 = i % channel_blocks * channel_block, m = min(channel_block, c - c0);
      const int64_t g = i / channel_blocks % v.groups, image = i / channel_blocks / v.groups;
      const T* from = y + (image * v.k + g * k) * out_pixels;
      T* pixels = x + (image * v.c + g * c + c0) * v.pixels();
      const T* filters = w + (g * k * c + c0) * taps;
      if (!pointwise) memset(pixels, 0, sizeof(T) * static_cast<size_t>(m * v.pixels()));
      for (int64_t first = 0; first < rows; first += piece) {
        const int64_t last = min(rows, first + piece), n = (last - first) * v.out_size[2];
        T* columns = pointwise ? pixels : scratch.get<T>(m * taps * n);
        Gemm<T> p = make_gemm(filters, from + first * v.out_size[2], columns, m * taps, n, k, c * taps, out_pixels,
                              pointwise ? out_pixels : n, T(0));
        p.a_transposed = true;
        blas_gemm(p);
        for (int64_t j = 0; j < m && !pointwise; ++j)
          im2col<T, true>(v, pixels + j * v.pixels(), first, last, columns + j * taps * n);
      }
    }
  });
}

template <class T>
void backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  if (has_specialized_conv(v)) return specialized_conv_backward_weight(v, x, y, w);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, depth = c * v.taps();
  const int64_t rows = v.out_size[0] * v.out_size[1], piece = rows_per_piece(v, c), out_pixels = v.outputs();
  const int64_t pieces = (rows + piece - 1) / piece, units = v.n * pieces;
  const bool pointwise = is_pointwise(v);
  // A fixed number of partial sums, each over a run of images and pieces, added in order.
  int64_t partial_sums = min(8, units);
  while (partial_sums > 1 && (v.groups >= 8 || partial_sums * k * depth > (1 << 22))) partial_sums /= 2;
  partial_sums = partial_sums < 1 ? 1 : partial_sums;
  const int64_t units_per_sum = (units + partial_sums - 1) / partial_sums, size = k * depth;
  std::vector<T> partials(static_cast<size_t>((partial_sums - 1) * v.groups * size));
  slices(v.groups * partial_sums, [&](int64_t i) {
    const int64_t g = i / partial_sums, s = i % partial_sums;
    T* to = s ? partials.data() + ((s - 1) * v.groups + g) * size : w + g * size;
    const int64_t stop = min(units, (s + 1) * units_per_sum);
    if (s * units_per_sum >= stop) memset(to, 0, sizeof(T) * static_cast<size_t>(size));
    for (int64_t u = s * units_per_sum; u < stop; ++u) {
      const int64_t image = u / pieces, first = u % pieces * piece, last = min(rows, first + piece);
      const int64_t n = (last - first) * v.out_size[2];
      const T* pixels = x + (image * v.c + g * c) * v.pixels();
      const T* columns = pixels + first * v.out_size[2];
      int64_t ldb = out_pixels;
      if (!pointwise) {
        T* buffer = scratch.get<T>(depth * n);
        for (int64_t j = 0; j < c; ++j)
          im2col<T, false>(v, const_cast<T*>(pixels) + j * v.pixels(), first, last, buffer + j * v.taps() * n);
        columns = buffer;
        ldb = n;
      }
      Gemm<T> p = make_gemm(y + (image * v.k + g * k) * out_pixels + first * v.out_size[2], columns, to, k, depth, n,
                            out_pixels, ldb, depth, u == s * units_per_sum ? T(0) : T(1));
      p.b_transposed = true;
      blas_gemm(p);
    }
  });
  const int64_t total = v.groups * size;
  for (int64_t s = 1; s < partial_sums; ++s) {
    const T* partial = partials.data() + (s - 1) * total;
    for (int64_t i = 0; i < total; ++i) w[i] += partial[i];
  }
}

void spatial_sizes(PyArrayObject* x, int64_t* out) {
  const int nd = PyArray_NDIM(x) - 2;
  for (int i = 0; i < 3; ++i) out[i] = i < 3 - nd ? 1 : PyArray_DIM(x, i + nd - 1);
}

// Parses stride, padding, dilation and groups; false if they are invalid.
bool parse_parameters(PyObject* const* args, int nd, Convolution* v) {
  if (!parse_longs(args[0], nd, 1, 0, v->stride) || !parse_longs(args[1], nd, 0, 0, v->padding) ||
      !parse_longs(args[2], nd, 1, 0, v->dilation))
    return false;
  long groups;
  if (!parse_long(args[3], &groups) || groups < 1) return false;
  v->groups = groups;
  for (int i = 0; i < 3; ++i) {
    if (v->stride[i] < 1 || v->dilation[i] < 1) return false;
  }
  return true;
}

// Do all windows fit in the padded image?
bool is_valid(const Convolution& v) {
  for (int i = 0; i < 3; ++i) {
    const int64_t span = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    if (v.out_size[i] < 1 || v.size[i] < 1 || v.kernel[i] < 1 || span < 0 || (v.out_size[i] - 1) * v.stride[i] > span)
      return false;
  }
  return v.c % v.groups == 0 && v.k % v.groups == 0 && v.n > 0 && v.c > 0 && v.k > 0;
}

bool same_rank_and_dtype(PyArrayObject* a, PyArrayObject* b) {
  const int nd = PyArray_NDIM(a);
  return nd >= 3 && nd <= 5 && PyArray_NDIM(b) == nd && PyArray_TYPE(a) == PyArray_TYPE(b);
}

// Runs f(float()) or f(double()) without the GIL; false with MemoryError.
template <class F>
bool run_unlocked(int type, int64_t work, F f) {
  bool has_memory = true;
  {
    Unlocked unlocked(work > kUnlock);
    try {
      type == NPY_FLOAT ? f(float()) : f(double());
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
  }
  if (!has_memory) PyErr_NoMemory();
  return has_memory;
}

}  // namespace

PyObject* convolution(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("convolution", n, 7)) return nullptr;
  PyArrayObject *x = real_array(args[0]), *w = real_array(args[1]);
  Convolution v;
  if (!x || !w || !same_rank_and_dtype(x, w) || !parse_parameters(args + 3, PyArray_NDIM(x) - 2, &v)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(w, 0);
  spatial_sizes(x, v.size);
  spatial_sizes(w, v.kernel);
  if (PyArray_DIM(w, 1) * v.groups != v.c) Py_RETURN_NONE;
  npy_intp dims[5] = {v.n, v.k, 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const int64_t span = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    v.out_size[i] = span < 0 ? 0 : span / v.stride[i] + 1;
    if (i >= 5 - nd) dims[i + nd - 3] = v.out_size[i];
  }
  LayerOperand a, b, bias;
  if (!is_valid(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(x)) || !b.read(args[1], type, PyArray_SIZE(w)) ||
      !read_optional(&bias, args[2], type, v.k))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    forward(v, a.as<T>(), b.as<T>(), bias.as<T>(), data<T>(out));
  });
  return ok ? out.release() : nullptr;
}

PyObject* conv_transpose(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("conv_transpose", n, 7)) return nullptr;
  PyArrayObject *y = real_array(args[0]), *w = real_array(args[1]);
  Convolution v;
  if (!y || !w || !same_rank_and_dtype(y, w)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(y), type = PyArray_TYPE(y);
  if (!parse_longs(args[2], nd - 2, 1, 0, v.size) || !parse_parameters(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(y, 0);
  v.k = PyArray_DIM(y, 1);
  v.c = PyArray_DIM(w, 1) * v.groups;
  spatial_sizes(y, v.out_size);
  spatial_sizes(w, v.kernel);
  LayerOperand a, b;
  if (PyArray_DIM(w, 0) != v.k || !is_valid(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(y)) || !b.read(args[1], type, PyArray_SIZE(w)))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  npy_intp dims[5] = {v.n, v.c, 0, 0, 0};
  for (int i = 5 - nd; i < 3; ++i) dims[i + nd - 3] = v.size[i];
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    backward_input(v, a.as<T>(), b.as<T>(), data<T>(out));
  });
  return ok ? out.release() : nullptr;
}

PyObject* convolution_backward_weight(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("convolution_backward_weight", n, 7)) return nullptr;
  PyArrayObject *x = real_array(args[0]), *y = real_array(args[1]);
  Convolution v;
  if (!x || !y || !same_rank_and_dtype(x, y)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (!parse_longs(args[2], nd - 2, 1, 0, v.kernel) || !parse_parameters(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(y, 1);
  spatial_sizes(x, v.size);
  spatial_sizes(y, v.out_size);
  LayerOperand a, b;
  if (PyArray_DIM(y, 0) != v.n || !is_valid(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(x)) || !b.read(args[1], type, PyArray_SIZE(y)))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  npy_intp dims[5] = {v.k, v.c / v.groups, 0, 0, 0};
  for (int i = 5 - nd; i < 3; ++i) dims[i + nd - 3] = v.kernel[i];
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    backward_weight(v, a.as<T>(), b.as<T>(), data<T>(out));
  });
  return ok ? out.release() : nullptr;
}

}  // namespace shmtensor
