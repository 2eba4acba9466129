// One image at a time: windows that are inside the image need no bounds checks.
#include <cstring>
#include <limits>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 8192;
constexpr int64_t kPiece = 16384;  // elements of a slice

// Sizes in three dimensions; missing dimensions come first.
struct Windows {
  int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  int64_t outputs() const { return out_size[0] * out_size[1] * out_size[2]; }
};

// The elements [from, to) of a window that are inside the image; at: the pixel of element 0.
struct WindowRange {
  int64_t from, to, at;
};

WindowRange window_range(const Windows& w, int d, int64_t window) {
  const int64_t at = window * w.stride[d] - w.padding[d], step = w.dilation[d];
  const int64_t from = at < 0 ? (-at + step - 1) / step : 0;
  int64_t to = w.size[d] > at ? w.size[d] - at : 0;
  if (step > 1) to = (to + step - 1) / step;  // a division costs as much as a window
  to = to < w.kernel[d] ? to : w.kernel[d];
  return {from, to < from ? from : to, at};
}

// body(window, range in each dimension) for all windows of an image, in order.
template <class F>
void for_windows(const Windows& w, F body) {
  int64_t index = 0;
  for (int64_t a = 0; a < w.out_size[0]; ++a) {
    const WindowRange z = window_range(w, 0, a);
    for (int64_t b = 0; b < w.out_size[1]; ++b) {
      const WindowRange y = window_range(w, 1, b);
      for (int64_t c = 0; c < w.out_size[2]; ++c) body(index++, z, y, window_range(w, 2, c));
    }
  }
}

// Windows of 2 x 2 with stride 2.
template <class T>
void max_pool_2x2(const Windows& w, const T* x, T* max_values, int64_t* at) {
  const int64_t width = w.size[2];
  for (int64_t y = 0; y < w.out_size[1]; ++y) {
    const T *upper = x + 2 * y * width, *lower = upper + width;
    for (int64_t c = 0; c < w.out_size[2]; ++c) {
      const T v[4] = {upper[2 * c], upper[2 * c + 1], lower[2 * c], lower[2 * c + 1]};
      const int64_t first = 2 * y * width + 2 * c;
      const int64_t places[4] = {first, first + 1, first + width, first + width + 1};
      T max_value = v[0];
      int64_t index = places[0];
      for (int i = 1; i < 4; ++i) {
        const bool exceeds = !(v[i] <= max_value);  // a NaN counts as larger; the last NaN wins
        const bool keeps_nan = max_value != max_value && v[i] == v[i];
        index = exceeds && !keeps_nan ? places[i] : index;
        max_value = exceeds && !keeps_nan ? v[i] : max_value;
      }
      *max_values++ = max_value;
      *at++ = index;
    }
  }
}

template <class T>
void max_pool_image(const Windows& w, const T* x, T* max_values, int64_t* at) {
  const bool is_2x2 = w.kernel[0] == 1 && w.kernel[1] == 2 && w.kernel[2] == 2 && w.stride[1] == 2 && w.stride[2] == 2 &&
                      !w.padding[1] && !w.padding[2] && w.dilation[1] == 1 && w.dilation[2] == 1 && w.size[0] == 1 &&
                      !w.padding[0] && w.out_size[0] == 1 && 2 * w.out_size[1] <= w.size[1] &&
                      2 * w.out_size[2] <= w.size[2];
  if (is_2x2) return max_pool_2x2(w, x, max_values, at);
  for_windows(w, [&](int64_t index, WindowRange z, WindowRange y, WindowRange c) {
    T max_value = -std::numeric_limits<T>::infinity();
    int64_t max_index = -1;
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        const int64_t row = ((z.at + i * w.dilation[0]) * w.size[1] + y.at + j * w.dilation[1]) * w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) {
          const T v = x[row + k * w.dilation[2]];
          if (v > max_value || v != v || max_index < 0) {
            max_value = v;
            max_index = row + k * w.dilation[2];
          }
        }
      }
    }
    max_values[index] = max_value;
    at[index] = max_index;
  });
}

template <class T>
void sum_pool_image(const Windows& w, const T* x, T* out) {
  for_windows(w, [&](int64_t index, WindowRange z, WindowRange y, WindowRange c) {
    T total = 0;
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        const T* row = x + ((z.at + i) * w.size[1] + y.at + j) * w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) total += row[k];
      }
    }
    out[index] = total;
  });
}

template <class T>
void sum_pool_image_backward(const Windows& w, const T* g, T* out) {
  memset(out, 0, sizeof(T) * static_cast<size_t>(w.pixels()));
  for_windows(w, [&](int64_t index, WindowRange z, WindowRange y, WindowRange c) {
    const T v = g[index];
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        T* row = out + ((z.at + i) * w.size[1] + y.at + j) * w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) row[k] += v;
      }
    }
  });
}

// Writes the last nd sizes of an array; returns the number of images, the product of the leading sizes.
int64_t split_batch(PyArrayObject* x, int nd, int64_t* sizes) {
  const int leading_dims = PyArray_NDIM(x) - nd;
  int64_t n = 1;
  for (int i = 0; i < leading_dims; ++i) n *= PyArray_DIM(x, i);
  for (int i = 0; i < 3; ++i) sizes[i] = i < 3 - nd ? 1 : PyArray_DIM(x, leading_dims + i - 3 + nd);
  return n;
}

int spatial_ndim(PyArrayObject* x, PyObject* kernel) {
  if (!x || !PyTuple_Check(kernel)) return 0;
  const Py_ssize_t nd = PyTuple_GET_SIZE(kernel);
  return nd <= 3 && PyArray_NDIM(x) >= nd ? static_cast<int>(nd) : 0;
}

// A new array with x's leading sizes and the given last sizes.
Ref new_array_like(PyArrayObject* x, int nd, const int64_t* spatial, int type) {
  npy_intp dims[NPY_MAXDIMS];
  const int rank = PyArray_NDIM(x);
  for (int i = 0; i < rank; ++i) dims[i] = i < rank - nd ? PyArray_DIM(x, i) : spatial[3 - nd + i - (rank - nd)];
  return Ref(new_array(rank, dims, type));
}

// body(image) for each image, in slices of about kPiece elements; an image has `work` elements.
template <class F>
void for_images(int64_t n, int64_t work, F body) {
  Unlocked unlocked(n * work > kUnlock);
  ranges(n, 1 + kPiece / (work + 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) body(i);
  });
}

int64_t numel(const int64_t* sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Adds m numbers to an image at their indices; false if one is out of range.
template <class T>
bool add_at_pixels(const T* from, const int64_t* indices, int64_t m, T* to, int64_t pixels) {
  return for_indices(indices, m, pixels, [=](int64_t k, int64_t index) { to[index] += from[k]; });
}

}  // namespace

PyObject* max_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("max_pool", n, 6)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = spatial_ndim(x, args[1]);
  Windows w;
  if (!nd || !parse_longs(args[1], nd, 1, 1, w.kernel) || !parse_longs(args[2], nd, 1, 1, w.stride) ||
      !parse_longs(args[3], nd, 0, 0, w.padding) || !parse_longs(args[4], nd, 1, 1, w.dilation) ||
      !parse_longs(args[5], nd, 1, 1, w.out_size))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const int64_t count = split_batch(x, nd, w.size);
  Ref in = contiguous(x), max_values = new_array_like(x, nd, w.out_size, type);
  Ref at = new_array_like(x, nd, w.out_size, NPY_INT64);
  if (!in || !max_values || !at) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    for_images(count, w.outputs() * numel(w.kernel), [&](int64_t i) {
      max_pool_image(w, data<T>(in) + i * w.pixels(), data<T>(max_values) + i * w.outputs(),
                     data<int64_t>(at) + i * w.outputs());
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(2, max_values.get(), at.get());
}

PyObject* sum_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sum_pool", n, 5)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = spatial_ndim(x, args[1]);
  Windows w;
  if (!nd || !parse_longs(args[1], nd, 1, 1, w.kernel) || !parse_longs(args[2], nd, 1, 1, w.stride) ||
      !parse_longs(args[3], nd, 0, 0, w.padding) || !parse_longs(args[4], nd, 1, 1, w.out_size))
    Py_RETURN_NONE;
  for (int64_t& d : w.dilation) d = 1;
  const int type = PyArray_TYPE(x);
  const int64_t count = split_batch(x, nd, w.size);
  Ref in = contiguous(x), out = new_array_like(x, nd, w.out_size, type);
  if (!in || !out) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    for_images(count, w.outputs() * numel(w.kernel),
               [&](int64_t i) { sum_pool_image(w, data<T>(in) + i * w.pixels(), data<T>(out) + i * w.outputs()); });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

PyObject* sum_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sum_pool_backward", n, 5)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = spatial_ndim(x, args[2]);
  Windows w;
  if (!nd || !parse_longs(args[1], nd, 1, 1, w.size) || !parse_longs(args[2], nd, 1, 1, w.kernel) ||
      !parse_longs(args[3], nd, 1, 1, w.stride) || !parse_longs(args[4], nd, 0, 0, w.padding))
    Py_RETURN_NONE;
  for (int64_t& d : w.dilation) d = 1;
  const int type = PyArray_TYPE(x);
  const int64_t count = split_batch(x, nd, w.out_size);
  Ref in = contiguous(x), out = new_array_like(x, nd, w.size, type);
  if (!in || !out) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    for_images(count, w.outputs() * numel(w.kernel),
               [&](int64_t i) { sum_pool_image_backward(w, data<T>(in) + i * w.outputs(), data<T>(out) + i * w.pixels()); });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

PyObject* value_selecting_reduction_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("value_selecting_reduction_backward", n, 4)) return nullptr;
  PyArrayObject* g = real_array(args[0]);
  long nd;
  if (!g || !parse_long(args[3], &nd) || nd < 1 || nd > 3 || PyArray_NDIM(g) < nd) Py_RETURN_NONE;
  const int rank = PyArray_NDIM(g), leading_dims = rank - static_cast<int>(nd), type = PyArray_TYPE(g);
  int64_t size[3], out_size[3];
  if (!PyArray_CheckExact(args[1]) || PyArray_TYPE(as_array(args[1])) != NPY_INT64 ||
      !PyArray_SAMESHAPE(g, as_array(args[1])) || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) != rank)
    Py_RETURN_NONE;
  Ref spatial(PyTuple_GetSlice(args[2], leading_dims, rank));
  if (!spatial) return nullptr;
  if (!parse_longs(spatial.get(), static_cast<int>(nd), 1, 1, size)) Py_RETURN_NONE;
  const int64_t count = split_batch(g, static_cast<int>(nd), out_size);
  Ref from = contiguous(g), places = contiguous(as_array(args[1]));
  Ref out = new_array_like(g, static_cast<int>(nd), size, type);
  if (!from || !places || !out) return nullptr;
  const int64_t pixels = numel(size), m = numel(out_size);
  const int64_t* index = data<int64_t>(places);
  std::atomic<bool> valid{true};
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    for_images(count, pixels, [&](int64_t i) {
      T* to = data<T>(out) + i * pixels;
      memset(to, 0, sizeof(T) * static_cast<size_t>(pixels));
      if (!add_at_pixels(data<T>(from) + i * m, index + i * m, m, to, pixels)) valid = false;
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
