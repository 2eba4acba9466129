// Convolution as products of matrices: columns of a few rows of results at a time, in cache, on one
// thread's BLAS; pieces depend on the shapes alone. conv_algorithm.cc has other ways.
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

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Windows without overlap, gaps or frame, of one element: the image is its own columns.
bool is_pointwise(const Convolution& v) {
  for (int i = 0; i < 3; ++i) {
    if (v.kernel[i] != 1 || v.stride[i] != 1 || v.padding[i]) return false;
  }
  return true;
}

// Where a tap's windows [0, fit) meet the image: windows [from, to).
struct Span {
  int64_t from, to, at;  // at: the pixel of window 0
};

Span span(const Convolution& v, int d, int64_t tap) {
  const int64_t s = v.stride[d], at = tap * v.dilation[d] - v.padding[d];
  int64_t from = at < 0 ? (-at + s - 1) / s : 0;
  int64_t to = v.size[d] > at ? (v.size[d] - at + s - 1) / s : 0;
  to = least(to, v.fit[d]);
  from = least(from, to);
  return {from, to, at};
}

// One channel's columns for rows of results [first, last) (rows of all depths): taps x windows.
// kBack: the columns are added to the image instead.
template <class T, bool kBack>
void unroll(const Convolution& v, T* image, int64_t first, int64_t last, T* columns) {
  const int64_t width = v.fit[2], n = (last - first) * width;
  for (int64_t a = 0; a < v.kernel[0]; ++a) {
    const Span depth = span(v, 0, a);
    for (int64_t b = 0; b < v.kernel[1]; ++b) {
      const Span down = span(v, 1, b);
      for (int64_t c = 0; c < v.kernel[2]; ++c, columns += n) {
        const Span across = span(v, 2, c);
        T* to = columns;
        for (int64_t row = first; row < last; ++row, to += width) {
          const int64_t z = row / v.fit[1], y = row % v.fit[1];
          if (z < depth.from || z >= depth.to || y < down.from || y >= down.to) {
            if (!kBack) memset(to, 0, sizeof(T) * static_cast<size_t>(width));
            continue;
          }
          T* pixel = image + ((z * v.stride[0] + depth.at) * v.size[1] + y * v.stride[1] + down.at) *
                                 v.size[2] + across.at;
          const int64_t s = v.stride[2];
          if (kBack) {
            if (s == 1) {
              for (int64_t x = across.from; x < across.to; ++x) pixel[x] += to[x];
            } else {
              for (int64_t x = across.from; x < across.to; ++x) pixel[x * s] += to[x];
            }
            continue;
          }
          for (int64_t x = 0; x < across.from; ++x) to[x] = 0;
          for (int64_t x = across.to; x < width; ++x) to[x] = 0;
          if (s == 1) {
            memcpy(to + across.from, pixel + across.from,
                   sizeof(T) * static_cast<size_t>(across.to - across.from));
          } else if (s == 2) {
            layers<T>().pick(pixel + 2 * across.from, to + across.from, across.to - across.from);
          } else {
            for (int64_t x = across.from; x < across.to; ++x) to[x] = pixel[x * s];
          }
        }
      }
    }
  }
}

// Rows of results in a piece, so that the columns of `channels` channels stay in cache.
int64_t piece_rows(const Convolution& v, int64_t channels) {
  const int64_t rows = v.fit[0] * v.fit[1], one = channels * v.taps() * v.fit[2];
  int64_t n = kColumns / (one ? one : 1);
  n = n < 1 ? 1 : least(n, rows);
  const int64_t pieces = (rows + n - 1) / n;
  return (rows + pieces - 1) / pieces;
}

template <class T>
Gemm<T> product(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, int64_t lda,
                int64_t ldb, int64_t ldc, T beta) {
  Gemm<T> g;
  g.a = a;
  g.b = b;
  g.c = c;
  g.m = m;
  g.n = n;
  g.k = k;
  g.lda = lda;
  g.ldb = ldb;
  g.ldc = ldc;
  g.a_transposed = g.b_transposed = false;
  g.beta = beta;
  return g;
}

template <class T>
void forward(const Convolution& v, const T* x, const T* w, const T* bias, T* y) {
  if (is_direct(v)) return direct(v, x, w, bias, y, false);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, depth = c * v.taps();
  const int64_t rows = v.fit[0] * v.fit[1], part = piece_rows(v, c);
  const int64_t pieces = (rows + part - 1) / part, places = v.places();
  const bool plain = is_pointwise(v);
  const int64_t work = k * depth * part * v.fit[2];
  ranges(v.n * v.groups * pieces, 1 + 65536 / (work ? work : 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const int64_t first = i % pieces * part, last = least(rows, first + part);
      const int64_t g = i / pieces % v.groups, image = i / pieces / v.groups;
      const int64_t n = (last - first) * v.fit[2];
      const T* pixels = x + (image * v.c + g * c) * v.pixels();
      T* out = y + (image * v.k + g * k) * places + first * v.fit[2];
      const T* columns = pixels + first * v.fit[2];
      int64_t ldb = places;
      if (!plain) {
        T* made = scratch.take<T>(depth * n);
        for (int64_t j = 0; j < c; ++j)
          unroll<T, false>(v, const_cast<T*>(pixels) + j * v.pixels(), first, last,
                           made + j * v.taps() * n);
        columns = made;
        ldb = n;
      }
      if (bias) {
        for (int64_t j = 0; j < k; ++j) {
          for (int64_t p = 0; p < n; ++p) out[j * places + p] = bias[g * k + j];
        }
      }
      blas_gemm(product(w + g * k * depth, columns, out, k, n, depth, depth, ldb, places,
                        bias ? T(1) : T(0)));
    }
  });
}

// The roles: y (n, k, fit) is given, the image (n, c, size) is made.
template <class T>
void image_slope(const Convolution& v, const T* y, const T* w, T* x) {
  Convolution turned = v;  // stride 1: a convolution with turned filters in a frame of 2 - padding
  turned.c = v.k;
  turned.k = v.c;
  for (int i = 0; i < 3; ++i) {
    turned.size[i] = v.fit[i];
    turned.fit[i] = v.size[i];
    turned.padding[i] = v.kernel[i] - 1 - v.padding[i];
  }
  const bool whole = v.fit[1] == v.size[1] + 2 * v.padding[1] - 2 &&
                     v.fit[2] == v.size[2] + 2 * v.padding[2] - 2;
  if (whole && turned.padding[1] >= 0 && turned.padding[2] >= 0 && is_direct(turned))
    return direct<T>(turned, y, w, nullptr, x, true);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, taps = v.taps();
  const int64_t rows = v.fit[0] * v.fit[1], places = v.places();
  const bool plain = is_pointwise(v);
  // Channels are shared out where there are few images.
  int64_t blocks = v.n * v.groups >= 8 ? 1 : (8 + v.n * v.groups - 1) / (v.n * v.groups);
  const int64_t block = (c + blocks - 1) / blocks;
  blocks = (c + block - 1) / block;
  const int64_t part = plain ? rows : piece_rows(v, block);
  const int64_t work = k * block * taps * places;
  ranges(v.n * v.groups * blocks, 1 + 65536 / (work ? work : 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c0 = i % blocks * block, m = least(block, c - c0);
      const int64_t g = i / blocks % v.groups, image = i / blocks / v.groups;
      const T* from = y + (image * v.k + g * k) * places;
      T* pixels = x + (image * v.c + g * c + c0) * v.pixels();
      const T* filters = w + (g * k * c + c0) * taps;
      if (!plain) memset(pixels, 0, sizeof(T) * static_cast<size_t>(m * v.pixels()));
      for (int64_t first = 0; first < rows; first += part) {
        const int64_t last = least(rows, first + part), n = (last - first) * v.fit[2];
        T* to = plain ? pixels : scratch.take<T>(m * taps * n);
        Gemm<T> p = product(filters, from + first * v.fit[2], to, m * taps, n, k, c * taps, places,
                            plain ? places : n, T(0));
        p.a_transposed = true;
        blas_gemm(p);
        for (int64_t j = 0; j < m && !plain; ++j)
          unroll<T, true>(v, pixels + j * v.pixels(), first, last, to + j * taps * n);
      }
    }
  });
}

template <class T>
void filter_slope(const Convolution& v, const T* x, const T* y, T* w) {
  if (is_direct(v)) return direct_filters(v, x, y, w);
  const int64_t c = v.c / v.groups, k = v.k / v.groups, depth = c * v.taps();
  const int64_t rows = v.fit[0] * v.fit[1], part = piece_rows(v, c), places = v.places();
  const int64_t pieces = (rows + part - 1) / part, units = v.n * pieces;
  const bool plain = is_pointwise(v);
  // A fixed number of sums, each over a run of images and pieces, added up in their order.
  int64_t sums = least(8, units);
  while (sums > 1 && (v.groups >= 8 || sums * k * depth > (1 << 22))) sums /= 2;
  sums = sums < 1 ? 1 : sums;
  const int64_t run = (units + sums - 1) / sums, size = k * depth;
  std::vector<T> parts(static_cast<size_t>((sums - 1) * v.groups * size));
  slices(v.groups * sums, [&](int64_t i) {
    const int64_t g = i / sums, s = i % sums;
    T* to = s ? parts.data() + ((s - 1) * v.groups + g) * size : w + g * size;
    const int64_t stop = least(units, (s + 1) * run);
    if (s * run >= stop) memset(to, 0, sizeof(T) * static_cast<size_t>(size));
    for (int64_t u = s * run; u < stop; ++u) {
      const int64_t image = u / pieces, first = u % pieces * part, last = least(rows, first + part);
      const int64_t n = (last - first) * v.fit[2];
      const T* pixels = x + (image * v.c + g * c) * v.pixels();
      const T* columns = pixels + first * v.fit[2];
      int64_t ldb = places;
      if (!plain) {
        T* made = scratch.take<T>(depth * n);
        for (int64_t j = 0; j < c; ++j)
          unroll<T, false>(v, const_cast<T*>(pixels) + j * v.pixels(), first, last,
                           made + j * v.taps() * n);
        columns = made;
        ldb = n;
      }
      Gemm<T> p = product(y + (image * v.k + g * k) * places + first * v.fit[2], columns, to, k,
                          depth, n, places, ldb, depth, u == s * run ? T(0) : T(1));
      p.b_transposed = true;
      blas_gemm(p);
    }
  });
  const int64_t all = v.groups * size;
  for (int64_t s = 1; s < sums; ++s) {
    const T* part_sum = parts.data() + (s - 1) * all;
    for (int64_t i = 0; i < all; ++i) w[i] += part_sum[i];
  }
}

void sizes(PyArrayObject* x, int64_t* out) {
  const int nd = PyArray_NDIM(x) - 2;
  for (int i = 0; i < 3; ++i) out[i] = i < 3 - nd ? 1 : PyArray_DIM(x, i + nd - 1);
}

// stride, padding, dilation, groups from args; true if they make sense.
bool steps(PyObject* const* args, int nd, Convolution* v) {
  if (!numbers(args[0], nd, 1, 0, v->stride) || !numbers(args[1], nd, 0, 0, v->padding) ||
      !numbers(args[2], nd, 1, 0, v->dilation))
    return false;
  long groups;
  if (!number(args[3], &groups) || groups < 1) return false;
  v->groups = groups;
  for (int i = 0; i < 3; ++i) {
    if (v->stride[i] < 1 || v->dilation[i] < 1) return false;
  }
  return true;
}

// Do all windows begin inside the framed image?
bool fits(const Convolution& v) {
  for (int i = 0; i < 3; ++i) {
    const int64_t room = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    if (v.fit[i] < 1 || v.size[i] < 1 || v.kernel[i] < 1 || room < 0 ||
        (v.fit[i] - 1) * v.stride[i] > room)
      return false;
  }
  return v.c % v.groups == 0 && v.k % v.groups == 0 && v.n > 0 && v.c > 0 && v.k > 0;
}

bool alike(PyArrayObject* a, PyArrayObject* b) {
  const int nd = PyArray_NDIM(a);
  return nd >= 3 && nd <= 5 && PyArray_NDIM(b) == nd && PyArray_TYPE(a) == PyArray_TYPE(b);
}

// Runs f(float()) or f(double()) without the GIL; false with MemoryError.
template <class F>
bool computed(int type, int64_t work, F f) {
  bool enough = true;
  {
    Unlocked unlocked(work > kUnlock);
    try {
      type == NPY_FLOAT ? f(float()) : f(double());
    } catch (const std::bad_alloc&) {
      enough = false;
    }
  }
  if (!enough) PyErr_NoMemory();
  return enough;
}

}  // namespace

PyObject* convolution(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("conv", n, 7, 7) < 0) return nullptr;
  PyArrayObject *x = real(args[0]), *w = real(args[1]);
  Convolution v;
  if (!x || !w || !alike(x, w) || !steps(args + 3, PyArray_NDIM(x) - 2, &v)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(w, 0);
  sizes(x, v.size);
  sizes(w, v.kernel);
  if (PyArray_DIM(w, 1) * v.groups != v.c) Py_RETURN_NONE;
  npy_intp dims[5] = {v.n, v.k, 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const int64_t room = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    v.fit[i] = room < 0 ? 0 : room / v.stride[i] + 1;
    if (i >= 5 - nd) dims[i + nd - 3] = v.fit[i];
  }
  LayerOperand a, b, bias;
  if (!fits(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(x)) || !b.read(args[1], type, PyArray_SIZE(w)) ||
      !optional(&bias, args[2], type, v.k))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  Ref out(fresh(nd, dims, type));
  if (!out) return nullptr;
  const bool done = computed(type, v.n * v.k * v.places() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    forward(v, a.as<T>(), b.as<T>(), bias.as<T>(), data<T>(out));
  });
  return done ? out.release() : nullptr;
}

PyObject* conv_transpose(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("conv_transpose", n, 7, 7) < 0) return nullptr;
  PyArrayObject *y = real(args[0]), *w = real(args[1]);
  Convolution v;
  if (!y || !w || !alike(y, w)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(y), type = PyArray_TYPE(y);
  if (!numbers(args[2], nd - 2, 1, 0, v.size) || !steps(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(y, 0);
  v.k = PyArray_DIM(y, 1);
  v.c = PyArray_DIM(w, 1) * v.groups;
  sizes(y, v.fit);
  sizes(w, v.kernel);
  LayerOperand a, b;
  if (PyArray_DIM(w, 0) != v.k || !fits(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(y)) || !b.read(args[1], type, PyArray_SIZE(w)))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  npy_intp dims[5] = {v.n, v.c, 0, 0, 0};
  for (int i = 5 - nd; i < 3; ++i) dims[i + nd - 3] = v.size[i];
  Ref out(fresh(nd, dims, type));
  if (!out) return nullptr;
  const bool done = computed(type, v.n * v.k * v.places() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    image_slope(v, a.as<T>(), b.as<T>(), data<T>(out));
  });
  return done ? out.release() : nullptr;
}

PyObject* convolution_backward_weight(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("conv_filters", n, 7, 7) < 0) return nullptr;
  PyArrayObject *x = real(args[0]), *y = real(args[1]);
  Convolution v;
  if (!x || !y || !alike(x, y)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (!numbers(args[2], nd - 2, 1, 0, v.kernel) || !steps(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(y, 1);
  sizes(x, v.size);
  sizes(y, v.fit);
  LayerOperand a, b;
  if (PyArray_DIM(y, 0) != v.n || !fits(v)) Py_RETURN_NONE;
  if (!a.read(args[0], type, PyArray_SIZE(x)) || !b.read(args[1], type, PyArray_SIZE(y)))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  npy_intp dims[5] = {v.k, v.c / v.groups, 0, 0, 0};
  for (int i = 5 - nd; i < 3; ++i) dims[i + nd - 3] = v.kernel[i];
  Ref out(fresh(nd, dims, type));
  if (!out) return nullptr;
  const bool done = computed(type, v.n * v.k * v.places() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    filter_slope(v, a.as<T>(), b.as<T>(), data<T>(out));
  });
  return done ? out.release() : nullptr;
}

}  // namespace shmtensor
