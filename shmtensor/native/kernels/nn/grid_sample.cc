// The neighbours of a block of points are read once, and used in all channels.
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "kernels/operand.h"
#include "threading/scratch.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 8192;
constexpr int64_t kBlock = 1024;  // points of a slice
constexpr int64_t kPiece = 16384;

// Sizes of contiguous images (N, C, m), weights and indices (N, K, P).
struct SampleSizes {
  int64_t images, channels, m, neighbours, points;
};

// body(image, first point, number of points) in slices.
template <class F>
void blocks(const SampleSizes& s, F body) {
  const int64_t rows = (s.points + kBlock - 1) / kBlock;
  const int64_t work_per_point = s.channels * s.neighbours;
  Unlocked unlocked(s.images * s.points * work_per_point > kUnlock);
  ranges(s.images * rows, 1 + kPiece / (kBlock * work_per_point + 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % rows * kBlock, remaining = s.points - start;
      body(i / rows, start, remaining < kBlock ? remaining : kBlock);
    }
  });
}

// The indices of kCount neighbours of n points, read once; -1 outside the image. Returns whether all are inside.
template <int kCount>
bool read_places(const SampleSizes& s, const int64_t* indices, int64_t n, int64_t* places) {
  bool all = true;
  for (int i = 0; i < kCount; ++i) {
    for (int64_t p = 0; p < n; ++p) {
      const int64_t at = load_once(indices + i * s.points + p);
      const bool inside = in_range(at, s.m);
      all &= inside;
      places[i * kBlock + p] = inside ? at : -1;
    }
  }
  return all;
}

// The element of an image at a place; 0 outside.
template <bool kInside, class T>
T element_at(const T* image, int64_t place) {
  return kInside || place >= 0 ? image[place] : 0;
}

// f(first neighbour, a constant number of neighbours) for all neighbours.
template <class F>
void for_groups_of_four(int64_t neighbours, F f) {
  int64_t k = 0;
  for (; k + 4 <= neighbours; k += 4) f(k, std::integral_constant<int, 4>());
  for (; k < neighbours; ++k) f(k, std::integral_constant<int, 1>());
}

template <class T, int kCount, bool kInside>
void add_weighted(const T* image, const int64_t* places, const T* w, int64_t stride, int64_t n, bool first, T* to) {
  for (int64_t p = 0; p < n; ++p) {
    T sum = first ? 0 : to[p];
    for (int i = 0; i < kCount; ++i) sum += element_at<kInside>(image, places[i * kBlock + p]) * w[p + i * stride];
    to[p] = sum;
  }
}

template <class T>
void gather_weighted(const SampleSizes& s, const T* x, const T* weights, const int64_t* indices, T* out) {
  blocks(s, [&](int64_t image, int64_t start, int64_t n) {
    const int64_t first = image * s.neighbours * s.points + start;
    T* to = out + image * s.channels * s.points + start;
    int64_t* places = scratch.get<int64_t>(4 * kBlock);
    for_groups_of_four(s.neighbours, [&](int64_t k, auto count) {
      const bool inside = read_places<count>(s, indices + first + k * s.points, n, places);
      const auto add = inside ? add_weighted<T, count, true> : add_weighted<T, count, false>;
      for (int64_t c = 0; c < s.channels; ++c)
        add(x + (image * s.channels + c) * s.m, places, weights + first + k * s.points, s.points, n, !k, to + c * s.points);
    });
    if (!s.neighbours) {
      for (int64_t c = 0; c < s.channels; ++c) memset(to + c * s.points, 0, sizeof(T) * static_cast<size_t>(n));
    }
  });
}

template <class T, int kCount, bool kInside>
void add_scattered(const T* g, const int64_t* places, const T* w, int64_t stride, int64_t n, T* to) {
  for (int64_t p = 0; p < n; ++p) {
    for (int i = 0; i < kCount; ++i) {
      const int64_t at = places[i * kBlock + p];
      if (kInside || at >= 0) to[at] += g[p] * w[p + i * stride];
    }
  }
}

// A few channels of an image at a time, so that the places are read for all of them.
template <class T>
void scatter_weighted(const SampleSizes& s, const T* g, const T* weights, const int64_t* indices, T* out) {
  constexpr int64_t kChannels = 8;
  const int64_t groups = (s.channels + kChannels - 1) / kChannels, work = s.neighbours * s.points + s.m;
  Unlocked unlocked(s.images * s.channels * work > kUnlock);
  ranges(s.images * groups, 1 + kPiece / (work * (s.channels < kChannels ? s.channels : kChannels)),
         [&](int64_t i, int64_t end) {
           int64_t* places = scratch.get<int64_t>(4 * kBlock);
           for (; i < end; ++i) {
             const int64_t image = i / groups, channel = i % groups * kChannels;
             const int64_t stop = channel + kChannels < s.channels ? channel + kChannels : s.channels;
             const T* from = g + image * s.channels * s.points;
             T* to = out + image * s.channels * s.m;
             memset(to + channel * s.m, 0, sizeof(T) * static_cast<size_t>((stop - channel) * s.m));
             for (int64_t start = 0; start < s.points; start += kBlock) {
               const int64_t n = s.points - start < kBlock ? s.points - start : kBlock;
               for_groups_of_four(s.neighbours, [&](int64_t k, auto count) {
                 const int64_t first = (image * s.neighbours + k) * s.points + start;
                 const bool inside = read_places<count>(s, indices + first, n, places);
                 const auto add = inside ? add_scattered<T, count, true> : add_scattered<T, count, false>;
                 for (int64_t c = channel; c < stop; ++c)
                   add(from + c * s.points + start, places, weights + first, s.points, n, to + c * s.m);
               });
             }
           }
         });
}

template <class T, int kCount, bool kInside>
void add_products(const T* g, const T* image, const int64_t* places, int64_t stride, int64_t n, bool first, T* to) {
  for (int i = 0; i < kCount; ++i, to += stride, places += kBlock) {
    for (int64_t p = 0; p < n; ++p) to[p] = (first ? 0 : to[p]) + g[p] * element_at<kInside>(image, places[p]);
  }
}

template <class T>
void backward_weights(const SampleSizes& s, const T* g, const T* x, const int64_t* indices, T* out) {
  blocks(s, [&](int64_t image, int64_t start, int64_t n) {
    const int64_t first = image * s.neighbours * s.points + start;
    const T* g_image = g + image * s.channels * s.points + start;
    int64_t* places = scratch.get<int64_t>(4 * kBlock);
    for_groups_of_four(s.neighbours, [&](int64_t k, auto count) {
      const bool inside = read_places<count>(s, indices + first + k * s.points, n, places);
      const auto add = inside ? add_products<T, count, true> : add_products<T, count, false>;
      for (int64_t c = 0; c < s.channels; ++c)
        add(g_image + c * s.points, x + (image * s.channels + c) * s.m, places, s.points, n, !c, out + first + k * s.points);
    });
  });
}

// A contiguous array of three dimensions and the given dtype, or null.
Ref read_3d(PyObject* p, int type) {
  if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != type || PyArray_NDIM(as_array(p)) != 3) return Ref();
  return contiguous(as_array(p));
}

// Three operands: images or point values, weights or images, and indices.
struct Operands {
  Ref a, b, indices;
  int type = 0;
  bool read(PyObject* const* args) {
    PyArrayObject* first = real_array(args[0]);
    if (!first) return false;
    type = PyArray_TYPE(first);
    a = read_3d(args[0], type);
    b = read_3d(args[1], type);
    indices = read_3d(args[2], NPY_INT64);
    return a && b && indices;
  }
  npy_intp dim(const Ref& x, int d) const { return PyArray_DIM(x.array(), d); }
};

// A new array (n, second, third), filled by f(pointer to its elements).
template <class F>
PyObject* with_new_array(int type, npy_intp n, npy_intp second, npy_intp third, F f) {
  const npy_intp dims[3] = {n, second, third};
  Ref out(new_array(3, dims, type));
  if (!out) return nullptr;
  type == NPY_FLOAT ? f(data<float>(out)) : f(data<double>(out));
  return out.release();
}

}  // namespace

PyObject* weighted_gather(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("weighted_gather", n, 3)) return nullptr;
  Operands o;
  if (!o.read(args)) return fall_back();
  const SampleSizes s = {o.dim(o.a, 0), o.dim(o.a, 1), o.dim(o.a, 2), o.dim(o.indices, 1), o.dim(o.indices, 2)};
  if (!PyArray_SAMESHAPE(o.b.array(), o.indices.array()) || o.dim(o.indices, 0) != s.images) Py_RETURN_NONE;
  return with_new_array(o.type, s.images, s.channels, s.points, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    gather_weighted(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.indices), out);
  });
}

PyObject* weighted_scatter(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("weighted_scatter", n, 4)) return nullptr;
  Operands o;
  long size;
  if (!parse_long(args[3], &size) || !o.read(args)) return fall_back();
  const SampleSizes s = {o.dim(o.a, 0), o.dim(o.a, 1), size, o.dim(o.indices, 1), o.dim(o.indices, 2)};
  if (!PyArray_SAMESHAPE(o.b.array(), o.indices.array()) || o.dim(o.indices, 0) != s.images || o.dim(o.a, 2) != s.points)
    Py_RETURN_NONE;
  return with_new_array(o.type, s.images, s.channels, s.m, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    scatter_weighted(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.indices), out);
  });
}

PyObject* weighted_gather_backward_weights(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("weighted_gather_backward_weights", n, 3)) return nullptr;
  Operands o;
  if (!o.read(args)) return fall_back();
  const SampleSizes s = {o.dim(o.b, 0), o.dim(o.b, 1), o.dim(o.b, 2), o.dim(o.indices, 1), o.dim(o.indices, 2)};
  if (o.dim(o.a, 0) != s.images || o.dim(o.a, 1) != s.channels || o.dim(o.a, 2) != s.points ||
      o.dim(o.indices, 0) != s.images)
    Py_RETURN_NONE;
  return with_new_array(o.type, s.images, s.neighbours, s.points, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    backward_weights(s, data<T>(o.a), data<T>(o.b), data<int64_t>(o.indices), out);
  });
}

namespace {

enum PaddingMode { kPadZeros, kPadBorder, kReflectEdges, kReflectCenters };

// Reflects or clamps an integer coordinate to [0, n); with zero padding it stays outside.
int64_t reflect_or_clamp(int64_t i, int64_t n, long padding_mode) {
  if (in_range(i, n) || padding_mode == kPadZeros) return i;
  if (padding_mode == kPadBorder || n == 1) return i < 0 ? 0 : n - 1;
  const int64_t m = i >= 0 ? i : padding_mode == kReflectEdges ? -i - 1 : -i;
  const int64_t span = padding_mode == kReflectEdges ? n : n - 1, remainder = m % span;
  return m / span % 2 ? n - 1 - remainder : remainder;
}

constexpr int64_t kLimit = 1000000000;  // beyond any image; stands for NaN, too

// floor, without a function call.
template <class T>
int64_t floor_to_int64(T x) {
  if (!(x > -kLimit)) return -kLimit;
  const int64_t truncated = static_cast<int64_t>(x < kLimit ? x : kLimit);
  return truncated - (static_cast<T>(truncated) > x);
}

struct Image {
  int nd;
  int64_t size[3];  // missing dimensions come first
  long kernel_size, padding_mode;
};

// Flat indices of the pixels around n points; x is (D, P), out is (kernel_size ** D, P), both offset to the first
// point.
template <class T, int kKernelSize>
void neighbour_indices(const Image& image, const T* x, int64_t* out, int64_t points, int64_t n) {
  constexpr int64_t kFirst = kKernelSize == 4 ? -1 : 0;
  const int64_t *size = image.size, missing_dims = 3 - image.nd;
  for (int64_t p = 0; p < n; ++p) {
    int64_t lows[3] = {};
    bool inside = true;
    for (int64_t d = 0; d < image.nd; ++d) {
      lows[d] = floor_to_int64(load_once(x + d * points + p)) + kFirst;
      inside &= lows[d] >= 0 && lows[d] + kKernelSize <= size[missing_dims + d];
    }
    int64_t* to = out + p;
    if (inside) {  // the common case
      int64_t first = 0;
      for (int64_t d = 0; d < image.nd; ++d) first = first * size[missing_dims + d] + lows[d];
      for (int i = 0; i < (missing_dims > 0 ? 1 : kKernelSize); ++i)
        for (int j = 0; j < (missing_dims > 1 ? 1 : kKernelSize); ++j)
          for (int k = 0; k < kKernelSize; ++k, to += points) *to = first + (i * size[1] + j) * size[2] + k;
      continue;
    }
    int64_t axis_indices[3][kKernelSize] = {};  // coordinates in each dimension, -1: outside
    for (int64_t d = 0; d < image.nd; ++d) {
      const int64_t low = lows[d], m = size[missing_dims + d];
      for (int k = 0; k < kKernelSize; ++k) {
        const int64_t i = reflect_or_clamp(low + k, m, image.padding_mode);
        axis_indices[missing_dims + d][k] = in_range(i, m) ? i : -1;
      }
    }
    for (int i = 0; i < (missing_dims > 0 ? 1 : kKernelSize); ++i) {
      for (int j = 0; j < (missing_dims > 1 ? 1 : kKernelSize); ++j) {
        const int64_t a = axis_indices[0][i], b = axis_indices[1][j], row = (a * size[1] + b) * size[2];
        for (int k = 0; k < kKernelSize; ++k, to += points)
          *to = (a | b | axis_indices[2][k]) < 0 ? -1 : row + axis_indices[2][k];
      }
    }
  }
}

template <class T>
void neighbour_indices(const Image& image, const T* x, int64_t* out, int64_t points, int64_t n) {
  const auto fill = image.kernel_size == 1   ? neighbour_indices<T, 1>
                    : image.kernel_size == 2 ? neighbour_indices<T, 2>
                                             : neighbour_indices<T, 4>;
  fill(image, x, out, points, n);
}

}  // namespace

PyObject* sample_indices(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sample_indices", n, 4)) return nullptr;
  PyArrayObject* points_array = real_array(args[0]);
  Image image;
  if (!points_array || PyArray_NDIM(points_array) != 3 || !PyTuple_Check(args[1])) Py_RETURN_NONE;
  image.nd = static_cast<int>(PyArray_DIM(points_array, 1));
  if (image.nd < 1 || image.nd > 3 || !parse_longs(args[1], image.nd, 1, 1, image.size) ||
      !parse_long(args[2], &image.kernel_size) || !parse_long(args[3], &image.padding_mode))
    Py_RETURN_NONE;
  if ((image.kernel_size != 1 && image.kernel_size != 2 && image.kernel_size != 4) || image.padding_mode > kReflectCenters)
    Py_RETURN_NONE;
  Ref x = contiguous(points_array);
  npy_intp dims[3] = {PyArray_DIM(points_array, 0), 1, PyArray_DIM(points_array, 2)};
  for (int d = 0; d < image.nd; ++d) dims[1] *= image.kernel_size;
  Ref out(x ? new_array(3, dims, NPY_INT64) : nullptr);
  if (!out) return nullptr;
  const SampleSizes s = {dims[0], 1, 1, dims[1], dims[2]};
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    blocks(s, [&](int64_t i, int64_t start, int64_t count) {
      neighbour_indices(image, data<T>(x) + i * image.nd * s.points + start,
                        data<int64_t>(out) + i * s.neighbours * s.points + start, s.points, count);
    });
  };
  PyArray_TYPE(points_array) == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

}  // namespace shmtensor
