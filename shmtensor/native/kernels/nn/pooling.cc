// An image at a time: windows that lie inside it need no test.
#include "kernels/nn/pooling.h"

#include <cstring>
#include <limits>

#include "kernels/arguments.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 8192;
constexpr int64_t kPiece = 16384;  // elements of a slice

// Sizes in three dimensions, the missing ones in front.
struct Windows {
  int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], fit[3];
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  int64_t places() const { return fit[0] * fit[1] * fit[2]; }
};

// The taps [from, to) of a window that lie in the image; at: the pixel of tap 0.
struct Taps {
  int64_t from, to, at;
};

Taps taps(const Windows& w, int d, int64_t window) {
  const int64_t at = window * w.stride[d] - w.padding[d], step = w.dilation[d];
  const int64_t from = at < 0 ? (-at + step - 1) / step : 0;
  int64_t to = w.size[d] > at ? w.size[d] - at : 0;
  if (step > 1) to = (to + step - 1) / step;  // a division costs as much as a window
  to = to < w.kernel[d] ? to : w.kernel[d];
  return {from, to < from ? from : to, at};
}

// body(window, taps of each dimension) for all windows of an image, in order.
template <class F>
void each_window(const Windows& w, F body) {
  int64_t place = 0;
  for (int64_t a = 0; a < w.fit[0]; ++a) {
    const Taps z = taps(w, 0, a);
    for (int64_t b = 0; b < w.fit[1]; ++b) {
      const Taps y = taps(w, 1, b);
      for (int64_t c = 0; c < w.fit[2]; ++c) body(place++, z, y, taps(w, 2, c));
    }
  }
}

// Two by two, two apart: rows of pairs.
template <class T>
void halves(const Windows& w, const T* x, T* best, int64_t* at) {
  const int64_t width = w.size[2];
  for (int64_t y = 0; y < w.fit[1]; ++y) {
    const T *up = x + 2 * y * width, *low = up + width;
    for (int64_t c = 0; c < w.fit[2]; ++c) {
      const T v[4] = {up[2 * c], up[2 * c + 1], low[2 * c], low[2 * c + 1]};
      const int64_t first = 2 * y * width + 2 * c;
      const int64_t places[4] = {first, first + 1, first + width, first + width + 1};
      T top = v[0];
      int64_t place = places[0];
      for (int i = 1; i < 4; ++i) {
        const bool better = !(v[i] <= top);  // so that a NaN counts, the last one
        const bool lasting = top != top && v[i] == v[i];
        place = better && !lasting ? places[i] : place;
        top = better && !lasting ? v[i] : top;
      }
      *best++ = top;
      *at++ = place;
    }
  }
}

template <class T>
void largest(const Windows& w, const T* x, T* best, int64_t* at) {
  const bool even = w.kernel[0] == 1 && w.kernel[1] == 2 && w.kernel[2] == 2 && w.stride[1] == 2 &&
                    w.stride[2] == 2 && !w.padding[1] && !w.padding[2] && w.dilation[1] == 1 &&
                    w.dilation[2] == 1 && w.size[0] == 1 && !w.padding[0] && w.fit[0] == 1 &&
                    2 * w.fit[1] <= w.size[1] && 2 * w.fit[2] <= w.size[2];
  if (even) return halves(w, x, best, at);
  each_window(w, [&](int64_t place, Taps z, Taps y, Taps c) {
    T top = -std::numeric_limits<T>::infinity();
    int64_t found = -1;
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        const int64_t row = ((z.at + i * w.dilation[0]) * w.size[1] + y.at + j * w.dilation[1]) *
                                w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) {
          const T v = x[row + k * w.dilation[2]];
          if (v > top || v != v || found < 0) {
            top = v;
            found = row + k * w.dilation[2];
          }
        }
      }
    }
    best[place] = top;
    at[place] = found;
  });
}

template <class T>
void sums(const Windows& w, const T* x, T* out) {
  each_window(w, [&](int64_t place, Taps z, Taps y, Taps c) {
    T total = 0;
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        const T* row = x + ((z.at + i) * w.size[1] + y.at + j) * w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) total += row[k];
      }
    }
    out[place] = total;
  });
}

template <class T>
void spread(const Windows& w, const T* g, T* out) {
  memset(out, 0, sizeof(T) * static_cast<size_t>(w.pixels()));
  each_window(w, [&](int64_t place, Taps z, Taps y, Taps c) {
    const T v = g[place];
    for (int64_t i = z.from; i < z.to; ++i) {
      for (int64_t j = y.from; j < y.to; ++j) {
        T* row = out + ((z.at + i) * w.size[1] + y.at + j) * w.size[2] + c.at;
        for (int64_t k = c.from; k < c.to; ++k) row[k] += v;
      }
    }
  });
}

// The last nd sizes of an array, and how many images stand before.
int64_t images(PyArrayObject* x, int nd, int64_t* sizes) {
  const int lead = PyArray_NDIM(x) - nd;
  int64_t n = 1;
  for (int i = 0; i < lead; ++i) n *= PyArray_DIM(x, i);
  for (int i = 0; i < 3; ++i) sizes[i] = i < 3 - nd ? 1 : PyArray_DIM(x, lead + i - 3 + nd);
  return n;
}

int rank_of(PyArrayObject* x, PyObject* kernel) {
  if (!x || !PyTuple_Check(kernel)) return 0;
  const Py_ssize_t nd = PyTuple_GET_SIZE(kernel);
  return nd <= 3 && PyArray_NDIM(x) >= nd ? static_cast<int>(nd) : 0;
}

// A fresh array with x's leading sizes and these last ones.
Ref shaped(PyArrayObject* x, int nd, const int64_t* last, int type) {
  npy_intp dims[NPY_MAXDIMS];
  const int rank = PyArray_NDIM(x);
  for (int i = 0; i < rank; ++i)
    dims[i] = i < rank - nd ? PyArray_DIM(x, i) : last[3 - nd + i - (rank - nd)];
  return Ref(fresh(rank, dims, type));
}

// body(image) for each, in slices of about kPiece of `each` elements' work.
template <class F>
void over(int64_t n, int64_t each, F body) {
  Unlocked unlocked(n * each > kUnlock);
  ranges(n, 1 + kPiece / (each + 1), [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) body(i);
  });
}

int64_t volume(const int64_t* sizes) { return sizes[0] * sizes[1] * sizes[2]; }

}  // namespace

PyObject* max_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("max_pool", n, 6, 6) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  const int nd = rank_of(x, args[1]);
  Windows w;
  if (!nd || !numbers(args[1], nd, 1, 1, w.kernel) || !numbers(args[2], nd, 1, 1, w.stride) ||
      !numbers(args[3], nd, 0, 0, w.padding) || !numbers(args[4], nd, 1, 1, w.dilation) ||
      !numbers(args[5], nd, 1, 1, w.fit))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const int64_t count = images(x, nd, w.size);
  Ref in = contiguous(x), best = shaped(x, nd, w.fit, type), at = shaped(x, nd, w.fit, NPY_INT64);
  if (!in || !best || !at) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    over(count, w.places() * volume(w.kernel), [&](int64_t i) {
      largest(w, data<T>(in) + i * w.pixels(), data<T>(best) + i * w.places(),
              data<int64_t>(at) + i * w.places());
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return PyTuple_Pack(2, best.get(), at.get());
}

PyObject* sum_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("sum_pool", n, 5, 5) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  const int nd = rank_of(x, args[1]);
  Windows w;
  if (!nd || !numbers(args[1], nd, 1, 1, w.kernel) || !numbers(args[2], nd, 1, 1, w.stride) ||
      !numbers(args[3], nd, 0, 0, w.padding) || !numbers(args[4], nd, 1, 1, w.fit))
    Py_RETURN_NONE;
  for (int64_t& d : w.dilation) d = 1;
  const int type = PyArray_TYPE(x);
  const int64_t count = images(x, nd, w.size);
  Ref in = contiguous(x), out = shaped(x, nd, w.fit, type);
  if (!in || !out) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    over(count, w.places() * volume(w.kernel), [&](int64_t i) {
      sums(w, data<T>(in) + i * w.pixels(), data<T>(out) + i * w.places());
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

PyObject* sum_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("sum_pool_backward", n, 5, 5) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  const int nd = rank_of(x, args[2]);
  Windows w;
  if (!nd || !numbers(args[1], nd, 1, 1, w.size) || !numbers(args[2], nd, 1, 1, w.kernel) ||
      !numbers(args[3], nd, 1, 1, w.stride) || !numbers(args[4], nd, 0, 0, w.padding))
    Py_RETURN_NONE;
  for (int64_t& d : w.dilation) d = 1;
  const int type = PyArray_TYPE(x);
  const int64_t count = images(x, nd, w.fit);
  Ref in = contiguous(x), out = shaped(x, nd, w.size, type);
  if (!in || !out) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    over(count, w.places() * volume(w.kernel), [&](int64_t i) {
      spread(w, data<T>(in) + i * w.places(), data<T>(out) + i * w.pixels());
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

PyObject* value_selecting_reduction_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("value_selecting_reduction_backward", n, 4, 4) < 0) return nullptr;
  PyArrayObject* g = real(args[0]);
  long nd;
  if (!g || !number(args[3], &nd) || nd < 1 || nd > 3 || PyArray_NDIM(g) < nd) Py_RETURN_NONE;
  const int rank = PyArray_NDIM(g), lead = rank - static_cast<int>(nd), type = PyArray_TYPE(g);
  int64_t size[3], fit[3];
  if (!PyArray_CheckExact(args[1]) || PyArray_TYPE(as_array(args[1])) != NPY_INT64 ||
      !PyArray_SAMESHAPE(g, as_array(args[1])) || !PyTuple_Check(args[2]) ||
      PyTuple_GET_SIZE(args[2]) != rank)
    Py_RETURN_NONE;
  Ref last(PyTuple_GetSlice(args[2], lead, rank));
  if (!last) return nullptr;
  if (!numbers(last.get(), static_cast<int>(nd), 1, 1, size)) Py_RETURN_NONE;
  const int64_t count = images(g, static_cast<int>(nd), fit);
  Ref from = contiguous(g), places = contiguous(as_array(args[1]));
  Ref out = shaped(g, static_cast<int>(nd), size, type);
  if (!from || !places || !out) return nullptr;
  const int64_t pixels = volume(size), m = volume(fit);
  const int64_t* index = data<int64_t>(places);
  for (int64_t i = 0; i < count * m; ++i) {
    if (index[i] < 0 || index[i] >= pixels) Py_RETURN_NONE;
  }
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    over(count, pixels, [&](int64_t i) {
      T* to = data<T>(out) + i * pixels;
      memset(to, 0, sizeof(T) * static_cast<size_t>(pixels));
      for (int64_t k = 0; k < m; ++k) to[index[i * m + k]] += data<T>(from)[i * m + k];
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

}  // namespace shmtensor
