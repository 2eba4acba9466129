// Max pooling: windows of one size, adaptive and fractional ones, by tables of their bounds in each dimension.
//
// Contiguous images: the rows of a row of windows are reduced to their largest elements (whole vectors), and then the
// columns of that row. Channels last: the elements of a window are vectors already.
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/index/indices.h"
#include "kernels/nn/images.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

// The elements from, from + step, ... before `to`, which are inside the image, of each window in one dimension.
struct Bounds {
  struct Range {
    int64_t from, to;
  };
  std::vector<Range> windows;
  int64_t step = 1, most = 0;  // the largest number of elements of a window

  int64_t out() const { return static_cast<int64_t>(windows.size()); }
  void add(int64_t from, int64_t to) {
    windows.push_back({from, to});
    const int64_t count = to > from ? (to - from + step - 1) / step : 0;
    most = count > most ? count : most;
  }
  void reset() { windows.clear(), most = 0; }
};

template <class T>
class MaxPool {
 public:
  Bounds bounds[3];

  // Rows [start, stop) of the windows of a plane. `size`: of the image; inner: the numbers of an element.
  void piece(const T* plane, const int64_t* size, int64_t inner, T* values, int64_t* indices, int64_t start,
             int64_t stop) const {
    const Bounds &z = bounds[0], &y = bounds[1], &x = bounds[2];
    const int64_t width = size[2] * inner, most = z.most * y.most * (inner > 1 ? x.most : 1);
    std::vector<const T*> rows(static_cast<size_t>(most));
    std::vector<int64_t> places(static_cast<size_t>(most));
    const int64_t line = inner > 1 ? inner : width;
    T* best = scratch.get<T>(2 * line);
    auto* number = reinterpret_cast<RowNumber<T>*>(best + line);
    for (int64_t r = start; r < stop; ++r) {
      const Bounds::Range a = z.windows[r / y.out()], b = y.windows[r % y.out()];
      T* to = values + r * x.out() * inner;
      int64_t* at = indices + r * x.out() * inner;
      if (inner > 1) {
        for (const Bounds::Range c : x.windows) {
          int64_t count = 0;
          for_rows_of(a, b, size[1], [&](int64_t row) {
            for (int64_t k = c.from; k < c.to; k += x.step) {
              places[count] = row * size[2] + k;
              rows[count] = plane + places[count] * inner;
              ++count;
            }
          });
          if (count) {
            kernels_.max_of_rows(rows.data(), count, to, number, inner);
            for (int64_t i = 0; i < inner; ++i) at[i] = places[number[i]];
          } else {
            for (int64_t i = 0; i < inner; ++i) set_empty(to + i, at + i);
          }
          to += inner, at += inner;
        }
      } else {
        int64_t count = 0;
        for_rows_of(a, b, size[1], [&](int64_t row) {
          places[count] = row * width;
          rows[count++] = plane + row * width;
        });
        if (!count) {
          for (int64_t i = 0; i < x.out(); ++i) set_empty(to + i, at + i);
        } else if (kernels_.max_of_rows(rows.data(), count, best, number, width)) {
          columns<true>(best, number, places.data(), to, at);
        } else {
          columns<false>(best, number, places.data(), to, at);
        }
      }
    }
  }

 private:
  // A window of which no element is inside the image, since its dilation is large.
  static void set_empty(T* value, int64_t* index) { *value = -std::numeric_limits<T>::infinity(), *index = -1; }

  // f(number of a row of the image) for the rows of a window.
  template <class F>
  void for_rows_of(Bounds::Range a, Bounds::Range b, int64_t height, F f) const {
    for (int64_t i = a.from; i < a.to; i += bounds[0].step)
      for (int64_t j = b.from; j < b.to; j += bounds[1].step) f(i * height + j);
  }

  // The largest elements of columns, which are the largest of rows: of equal ones that in the first row, then in the first
  // column; of NaNs the last one.
  template <bool kNan>
  void columns(const T* best, const RowNumber<T>* number, const int64_t* places, T* values, int64_t* indices) const {
    const int64_t step = bounds[2].step;
    for (const Bounds::Range c : bounds[2].windows) {
      if (c.from >= c.to) {
        set_empty(values++, indices++);
        continue;
      }
      T value = best[c.from];
      int64_t row = number[c.from], column = c.from;
      for (int64_t k = c.from + step; k < c.to; k += step) {
        const T v = best[k];
        const int64_t r = number[k];
        bool better = (v > value) | ((v == value) & (r < row));
        if (kNan) better = v != v ? value == value || r >= row : better;
        value = better ? v : value;
        row = better ? r : row;
        column = better ? k : column;
      }
      *values++ = value;
      *indices++ = places[row] + column;
    }
  }

  const NnKernels<T>& kernels_ = nn_kernels<T>();
};

// (values, indices) of windows; prepare(pool, plane) makes their bounds, for each plane if `varies`.
template <class F>
PyObject* max_pooled(PyArrayObject* x, int nd, bool varies, F prepare) {
  const Images images(x, nd);
  if (!images) return nullptr;
  Ref values, indices;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    MaxPool<T> pool;
    prepare(images.size, pool.bounds, 0);
    const Bounds* b = pool.bounds;
    const int64_t size[3] = {b[0].out(), b[1].out(), b[2].out()};
    values = images.new_memory(size, images.type);
    indices = values ? images.new_memory(size, NPY_INT64) : Ref();
    if (!indices || !PyArray_SIZE(values.array())) return;
    const int64_t rows = size[0] * size[1], outputs = rows * size[2] * images.inner;
    const int64_t work = (images.size[2] * b[0].most * b[1].most + 2 * size[2] * b[2].most) * images.inner;
    for_rows(images.planes, rows, work, [&](int64_t plane, int64_t start, int64_t stop) {
      const auto run = [&](const MaxPool<T>& p) {
        p.piece(images.as<T>() + plane * images.elements(), images.size, images.inner, data<T>(values) + plane * outputs,
                data<int64_t>(indices) + plane * outputs, start, stop);
      };
      if (!varies) return run(pool);
      MaxPool<T> own;
      prepare(images.size, own.bounds, plane);
      run(own);
    });
  };
  images.type == NPY_FLOAT ? compute(float()) : compute(double());
  Ref first = images.from_memory(std::move(values)), second = images.from_memory(std::move(indices));
  return first && second ? PyTuple_Pack(2, first.get(), second.get()) : nullptr;
}

// The number of sizes in a tuple, if x has at least so many dimensions; else 0.
int spatial_ndim(PyArrayObject* x, PyObject* sizes) {
  if (!x || !PyTuple_Check(sizes)) return 0;
  const Py_ssize_t nd = PyTuple_GET_SIZE(sizes);
  return nd <= 3 && PyArray_NDIM(x) >= nd ? static_cast<int>(nd) : 0;
}

}  // namespace

PyObject* max_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("max_pool", n, 6)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = spatial_ndim(x, args[1]);
  int64_t kernel[3], stride[3], padding[3], dilation[3], out[3];
  if (!nd || !parse_longs(args[1], nd, 1, 1, kernel) || !parse_longs(args[2], nd, 1, 1, stride) ||
      !parse_longs(args[3], nd, 0, 0, padding) || !parse_longs(args[4], nd, 1, 1, dilation) ||
      !parse_longs(args[5], nd, 1, 1, out))
    Py_RETURN_NONE;
  return max_pooled(x, nd, false, [&](const int64_t* size, Bounds* bounds, int64_t) {
    for (int d = 0; d < 3; ++d) {
      const int64_t step = dilation[d], length = (kernel[d] - 1) * step + 1;
      bounds[d].step = step;
      for (int64_t i = 0; i < out[d]; ++i) {
        const int64_t start = i * stride[d] - padding[d], end = start + length;
        bounds[d].add(start < 0 ? start + (-start + step - 1) / step * step : start, end < size[d] ? end : size[d]);
      }
    }
  });
}

// adaptive_max_pool(x, size): `size` windows that cover the image.
PyObject* adaptive_max_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("adaptive_max_pool", n, 2)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = spatial_ndim(x, args[1]);
  int64_t out[3];
  if (!nd || !parse_longs(args[1], nd, 1, 1, out)) Py_RETURN_NONE;
  return max_pooled(x, nd, false, [&](const int64_t* size, Bounds* bounds, int64_t) {
    for (int d = 0; d < 3; ++d)
      for (int64_t i = 0; i < out[d]; ++i) bounds[d].add(i * size[d] / out[d], ((i + 1) * size[d] + out[d] - 1) / out[d]);
  });
}

// fractional_max_pool(x (N, C, *size), samples (N or more, C, n), kernel, size): windows at random distances, which a number
// of [0, 1) for each plane and dimension gives. Of images the first is for the width.
PyObject* fractional_max_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("fractional_max_pool", n, 4)) return nullptr;
  PyArrayObject *x = real_array(args[0]), *samples = real_array(args[1]);
  const int nd = spatial_ndim(x, args[2]);
  int64_t kernel[3], out[3];
  if (!nd || !samples || PyArray_NDIM(x) != nd + 2 || PyArray_TYPE(x) != PyArray_TYPE(samples) ||
      !parse_longs(args[2], nd, 1, 1, kernel) || !parse_longs(args[3], nd, 1, 1, out))
    Py_RETURN_NONE;
  const int64_t planes = PyArray_DIM(x, 0) * PyArray_DIM(x, 1);
  Ref image = contiguous(x), numbers = contiguous(samples);
  if (!image || !numbers) return nullptr;
  if (PyArray_SIZE(samples) < planes * nd) Py_RETURN_NONE;
  const auto bounds_by = [&](auto zero) {
    using T = decltype(zero);
    return max_pooled(image.array(), nd, true, [&](const int64_t* size, Bounds* bounds, int64_t plane) {
      for (int d = 0; d < 3; ++d) {
        bounds[d].reset();
        if (d < 3 - nd) {
          bounds[d].add(0, 1);
          continue;
        }
        const int64_t room = size[d] - kernel[d], i = d - (3 - nd);
        const T u = load_once(data<T>(numbers) + plane * nd + (nd == 2 ? 1 - i : i));
        const T step = out[d] > 1 ? static_cast<T>(room) / static_cast<T>(out[d] - 1) : 0;
        for (int64_t k = 0; k < out[d]; ++k) {
          const auto offset = static_cast<int64_t>((static_cast<T>(k) + u) * step) - static_cast<int64_t>(u * step);
          const int64_t start = k == out[d] - 1 || offset > room ? room : offset < 0 ? 0 : offset;
          bounds[d].add(start, start + kernel[d]);
        }
      }
    });
  };
  return PyArray_TYPE(x) == NPY_FLOAT ? bounds_by(float()) : bounds_by(double());
}

namespace {

// Adds m elements of `inner` numbers to a plane of `pixels` at the numbers' indices; false if one is out of range.
template <class T>
bool add_at_pixels(const T* from, const int64_t* indices, int64_t m, int64_t inner, T* to, int64_t pixels) {
  memset(to, 0, sizeof(T) * static_cast<size_t>(pixels * inner));
  if (inner == 1) return for_indices(indices, m, pixels, [=](int64_t k, int64_t index) { to[index] += from[k]; });
  for (int64_t k = 0; k < m; ++k, from += inner, indices += inner) {
    for (int64_t c = 0; c < inner; ++c) {
      const int64_t index = load_once(indices + c);
      if (!in_range(index, pixels)) return false;
      to[index * inner + c] += from[c];
    }
  }
  return true;
}

}  // namespace

PyObject* value_selecting_reduction_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("value_selecting_reduction_backward", n, 4)) return nullptr;
  PyArrayObject* g = real_array(args[0]);
  long spatial;
  if (!g || !parse_long(args[3], &spatial) || spatial < 1 || spatial > 3 || PyArray_NDIM(g) < spatial) Py_RETURN_NONE;
  const int rank = PyArray_NDIM(g), nd = static_cast<int>(spatial);
  int64_t size[3];
  if (!PyArray_CheckExact(args[1]) || PyArray_TYPE(as_array(args[1])) != NPY_INT64 ||
      !PyArray_SAMESHAPE(g, as_array(args[1])) || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[2]) != rank)
    Py_RETURN_NONE;
  Ref sizes(PyTuple_GetSlice(args[2], rank - nd, rank));
  if (!sizes) return nullptr;
  if (!parse_longs(sizes.get(), nd, 1, 1, size)) Py_RETURN_NONE;
  Images from(g, nd), places(as_array(args[1]), nd);
  if (from.channels_last != places.channels_last) from = Images(g, nd, false), places = Images(as_array(args[1]), nd, false);
  if (!from || !places) return nullptr;
  Ref out = from.new_memory(size, from.type);
  if (!out) return nullptr;
  const int64_t pixels = size[0] * size[1] * size[2], m = from.elements() / from.inner;
  std::atomic<bool> valid{true};
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    for_rows(from.planes, 1, (pixels + m) * from.inner, [&](int64_t plane, int64_t, int64_t) {
      const int64_t offset = plane * from.elements();
      if (!add_at_pixels(from.as<T>() + offset, places.as<int64_t>() + offset, m, from.inner,
                         data<T>(out) + plane * pixels * from.inner, pixels))
        valid = false;
    });
  };
  from.type == NPY_FLOAT ? compute(float()) : compute(double());
  if (!valid) Py_RETURN_NONE;
  return from.from_memory(std::move(out)).release();
}

}  // namespace shmtensor
