// A place's neighbours are found once and read in all channels.
#include "kernels/nn/grid_sample.h"

#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 8192;
constexpr int64_t kBlock = 1024;  // places of a slice
constexpr int64_t kPiece = 16384;

// Images (N, C, m) beside weights and places (N, K, P), contiguous.
struct Sizes {
  int64_t images, channels, m, taps, places;
};

bool is_inside(int64_t place, int64_t m) {
  return static_cast<uint64_t>(place) < static_cast<uint64_t>(m);
}

// body(image, first place, places) in slices; `each` is the work of one place.
template <class F>
void blocks(const Sizes& s, F body) {
  const int64_t rows = (s.places + kBlock - 1) / kBlock;
  const int64_t each = s.channels * s.taps;
  Unlocked unlocked(s.images * s.places * each > kUnlock);
  ranges(s.images * rows, 1 + kPiece / (kBlock * each + 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % rows * kBlock, left = s.places - start;
      body(i / rows, start, left < kBlock ? left : kBlock);
    }
  });
}

// Up to four taps of one place. f(channel, its elements) for all channels; what is outside is 0.
template <class T, int kTaps, class F>
void each_channel(const Sizes& s, const T* x, const int64_t* places, F f) {
  int64_t at[kTaps];
  bool inside = true;
  for (int k = 0; k < kTaps; ++k) {
    at[k] = places[k * s.places];
    inside = inside && is_inside(at[k], s.m);
  }
  T elements[kTaps];
  for (int64_t c = 0; c < s.channels; ++c, x += s.m) {
    if (inside) {  // most are
      for (int k = 0; k < kTaps; ++k) elements[k] = x[at[k]];
    } else {
      for (int k = 0; k < kTaps; ++k) elements[k] = is_inside(at[k], s.m) ? x[at[k]] : 0;
    }
    f(c, elements);
  }
}

// f(first tap, a constant number of taps) for all.
template <class F>
void by_fours(int64_t taps, F f) {
  int64_t k = 0;
  for (; k + 4 <= taps; k += 4) f(k, std::integral_constant<int, 4>());
  for (; k < taps; ++k) f(k, std::integral_constant<int, 1>());
}

template <class T>
void gather(const Sizes& s, const T* x, const T* weights, const int64_t* places, T* out) {
  blocks(s, [&](int64_t image, int64_t start, int64_t n) {
    const int64_t first = image * s.taps * s.places + start;
    T* to = out + image * s.channels * s.places + start;
    by_fours(s.taps, [&](int64_t k, auto count) {
      const int64_t* at = places + first + k * s.places;
      const T* w = weights + first + k * s.places;
      for (int64_t p = 0; p < n; ++p) {
        T share[count];
        for (int i = 0; i < count; ++i) share[i] = w[p + i * s.places];
        each_channel<T, count>(s, x + image * s.channels * s.m, at + p, [&](int64_t c, const T* v) {
          T sum = k ? to[c * s.places + p] : 0;
          for (int i = 0; i < count; ++i) sum += v[i] * share[i];
          to[c * s.places + p] = sum;
        });
      }
    });
    if (!s.taps) {
      for (int64_t c = 0; c < s.channels; ++c)
        memset(to + c * s.places, 0, sizeof(T) * static_cast<size_t>(n));
    }
  });
}

template <class T>
void deal(const Sizes& s, const T* g, const T* weights, const int64_t* places, T* out) {
  Unlocked unlocked(s.images * s.channels * (s.taps * s.places + s.m) > kUnlock);
  ranges(s.images * s.channels, 1 + kPiece / (s.taps * s.places + 1), [&](int64_t c, int64_t stop) {
    for (; c < stop; ++c) {
      const int64_t of_image = c / s.channels * s.taps * s.places;
      const T *w = weights + of_image, *from = g + c * s.places;
      const int64_t* at = places + of_image;
      T* to = out + c * s.m;
      memset(to, 0, sizeof(T) * static_cast<size_t>(s.m));
      for (int64_t k = 0; k < s.taps; ++k, w += s.places, at += s.places) {
        for (int64_t p = 0; p < s.places; ++p) {
          if (is_inside(at[p], s.m)) to[at[p]] += from[p] * w[p];
        }
      }
    }
  });
}

template <class T>
void match(const Sizes& s, const T* g, const T* x, const int64_t* places, T* out) {
  blocks(s, [&](int64_t image, int64_t start, int64_t n) {
    const int64_t first = image * s.taps * s.places + start;
    const T* slope = g + image * s.channels * s.places + start;
    by_fours(s.taps, [&](int64_t k, auto count) {
      const int64_t* at = places + first + k * s.places;
      T* to = out + first + k * s.places;
      for (int64_t p = 0; p < n; ++p) {
        T sum[count] = {};
        each_channel<T, count>(s, x + image * s.channels * s.m, at + p, [&](int64_t c, const T* v) {
          for (int i = 0; i < count; ++i) sum[i] += slope[c * s.places + p] * v[i];
        });
        for (int i = 0; i < count; ++i) to[p + i * s.places] = sum[i];
      }
    });
  });
}

// An exact array of three dimensions and a type, contiguous.
Ref block_of(PyObject* p, int type) {
  if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != type || PyArray_NDIM(as_array(p)) != 3)
    return Ref();
  return contiguous(as_array(p));
}

// Three operands: images, what belongs to places or to images, and the places.
struct Operands {
  Ref a, b, places;
  int type = 0;
  bool read(PyObject* const* args) {
    PyArrayObject* first = real(args[0]);
    if (!first) return false;
    type = PyArray_TYPE(first);
    a = block_of(args[0], type);
    b = block_of(args[1], type);
    places = block_of(args[2], NPY_INT64);
    return a && b && places;
  }
  npy_intp dim(const Ref& x, int d) const { return PyArray_DIM(x.array(), d); }
};

// A fresh array (n, second, third) that f, which gets its elements, filled.
template <class F>
PyObject* filled(int type, npy_intp n, npy_intp second, npy_intp third, F f) {
  const npy_intp dims[3] = {n, second, third};
  Ref out(fresh(3, dims, type));
  if (!out) return nullptr;
  type == NPY_FLOAT ? f(data<float>(out)) : f(data<double>(out));
  return out.release();
}

}  // namespace

PyObject* weighted_gather(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("weighted_gather", n, 3, 3) < 0) return nullptr;
  Operands o;
  if (!o.read(args)) return left_to_caller();
  const Sizes s = {o.dim(o.a, 0), o.dim(o.a, 1), o.dim(o.a, 2), o.dim(o.places, 1),
                   o.dim(o.places, 2)};
  if (!PyArray_SAMESHAPE(o.b.array(), o.places.array()) || o.dim(o.places, 0) != s.images)
    Py_RETURN_NONE;
  return filled(o.type, s.images, s.channels, s.places, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    gather(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.places), out);
  });
}

PyObject* weighted_scatter(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("weighted_scatter", n, 4, 4) < 0) return nullptr;
  Operands o;
  long size;
  if (!number(args[3], &size) || !o.read(args)) return left_to_caller();
  const Sizes s = {o.dim(o.a, 0), o.dim(o.a, 1), size, o.dim(o.places, 1), o.dim(o.places, 2)};
  if (!PyArray_SAMESHAPE(o.b.array(), o.places.array()) || o.dim(o.places, 0) != s.images ||
      o.dim(o.a, 2) != s.places)
    Py_RETURN_NONE;
  return filled(o.type, s.images, s.channels, s.m, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    deal(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.places), out);
  });
}

PyObject* weighted_gather_backward_weights(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("weighted_gather_backward_weights", n, 3, 3) < 0) return nullptr;
  Operands o;
  if (!o.read(args)) return left_to_caller();
  const Sizes s = {o.dim(o.b, 0), o.dim(o.b, 1), o.dim(o.b, 2), o.dim(o.places, 1),
                   o.dim(o.places, 2)};
  if (o.dim(o.a, 0) != s.images || o.dim(o.a, 1) != s.channels || o.dim(o.a, 2) != s.places ||
      o.dim(o.places, 0) != s.images)
    Py_RETURN_NONE;
  return filled(o.type, s.images, s.taps, s.places, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    match(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.places), out);
  });
}

namespace {

enum Frame { kZeros, kBorder, kEdges, kCentres };

// A whole place brought into [0, n) as the frame says; with zeros it stays outside.
int64_t brought(int64_t i, int64_t n, long frame) {
  if (is_inside(i, n) || frame == kZeros) return i;
  if (frame == kBorder || n == 1) return i < 0 ? 0 : n - 1;
  const int64_t m = i >= 0 ? i : frame == kEdges ? -i - 1 : -i;
  const int64_t span = frame == kEdges ? n : n - 1, rest = m % span;
  return m / span % 2 ? n - 1 - rest : rest;
}

constexpr int64_t kFar = 1000000000;  // beyond any image; what is no number lies there, too

// The whole number below, without a call.
template <class T>
int64_t below(T x) {
  if (!(x > -kFar)) return -kFar;
  const int64_t cut = static_cast<int64_t>(x < kFar ? x : kFar);
  return cut - (static_cast<T>(cut) > x);
}

struct Image {
  int nd;
  int64_t size[3];  // the missing ones in front
  long reach, frame;
};

// The places around n ones: x is (D, P), out (reach ** D, P), of both a block of P.
template <class T, int kReach>
void around(const Image& image, const T* x, int64_t* out, int64_t places, int64_t n) {
  constexpr int64_t kBefore = kReach == 4 ? -1 : 0;
  const int64_t *size = image.size, lead = 3 - image.nd;
  for (int64_t p = 0; p < n; ++p) {
    int64_t near[3][kReach] = {};  // how far into the image in each dimension, -1: outside
    for (int64_t d = 0; d < image.nd; ++d) {
      const int64_t low = below(x[d * places + p]) + kBefore, m = size[lead + d];
      for (int k = 0; k < kReach; ++k) {
        const int64_t i = brought(low + k, m, image.frame);
        near[lead + d][k] = is_inside(i, m) ? i : -1;
      }
    }
    int64_t* to = out + p;
    for (int i = 0; i < (lead > 0 ? 1 : kReach); ++i) {
      for (int j = 0; j < (lead > 1 ? 1 : kReach); ++j) {
        const int64_t a = near[0][i], b = near[1][j], row = (a * size[1] + b) * size[2];
        for (int k = 0; k < kReach; ++k, to += places)
          *to = (a | b | near[2][k]) < 0 ? -1 : row + near[2][k];
      }
    }
  }
}

template <class T>
void around(const Image& image, const T* x, int64_t* out, int64_t places, int64_t n) {
  const auto make = image.reach == 1   ? around<T, 1>
                    : image.reach == 2 ? around<T, 2>
                                       : around<T, 4>;
  make(image, x, out, places, n);
}

}  // namespace

PyObject* sample_indices(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("sample_indices", n, 4, 4) < 0) return nullptr;
  PyArrayObject* given = real(args[0]);
  Image image;
  if (!given || PyArray_NDIM(given) != 3 || !PyTuple_Check(args[1])) Py_RETURN_NONE;
  image.nd = static_cast<int>(PyArray_DIM(given, 1));
  if (image.nd < 1 || image.nd > 3 || !numbers(args[1], image.nd, 1, 1, image.size) ||
      !number(args[2], &image.reach) || !number(args[3], &image.frame))
    Py_RETURN_NONE;
  if ((image.reach != 1 && image.reach != 2 && image.reach != 4) || image.frame > kCentres)
    Py_RETURN_NONE;
  Ref x = contiguous(given);
  npy_intp dims[3] = {PyArray_DIM(given, 0), 1, PyArray_DIM(given, 2)};
  for (int d = 0; d < image.nd; ++d) dims[1] *= image.reach;
  Ref out(x ? fresh(3, dims, NPY_INT64) : nullptr);
  if (!out) return nullptr;
  const Sizes s = {dims[0], 1, 1, dims[1], dims[2]};
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    blocks(s, [&](int64_t i, int64_t start, int64_t count) {
      around(image, data<T>(x) + i * image.nd * s.places + start,
             data<int64_t>(out) + i * s.taps * s.places + start, s.places, count);
    });
  };
  PyArray_TYPE(given) == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

}  // namespace shmtensor
