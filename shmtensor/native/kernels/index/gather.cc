// Reading at indices. Arrays are (outer, m, inner) around the dimension. An index is checked where it is used: Note [Memory
// that others change] in indices.h. A new result may stay incomplete if one is wrong.
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "kernels/index/indices.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kUnlock = 4096;
constexpr int64_t kPrefetch = 16384;  // bytes of a line that is prefetched while the previous one is read

// Separate functions, see docs/design/native.md, Loops in lambdas. False: an index is out of range [0, m).
template <class T>
bool gather_run(const T* from, int64_t m, const int64_t* indices, T* to, int64_t n) {
  return for_indices(indices, n, m, [=](int64_t i, int64_t index) { to[i] = from[index]; });
}

template <class T>
bool gather_columns(const T* from, int64_t m, const int64_t* indices, T* to, int64_t n) {
  return for_indices(indices, n, m, [=](int64_t c, int64_t index) { to[c] = from[index * n + c]; });
}

// Four lines, m elements apart, at the same indices, which are loaded once.
template <class T>
bool gather_four_rows(const T* from, int64_t m, const int64_t* indices, T* to, int64_t out, int64_t n) {
  return for_indices(indices, n, m, [=](int64_t i, int64_t index) {
    const T* s = from + index;
    to[i] = s[0];
    to[i + out] = s[m];
    to[i + 2 * out] = s[2 * m];
    to[i + 3 * out] = s[3 * m];
  });
}

// out[o, j] = x[o, at[j]] for lines of single elements.
template <class T>
bool take_elements(const T* x, const DimLayout& layout, const int64_t* indices, T* out, int64_t count) {
  std::atomic<bool> valid{true};
  const int64_t pieces = (count + kGrain - 1) / kGrain, grain = count < kGrain ? kGrain / count : 1;
  ranges(layout.outer * pieces, grain, [&](int64_t i, int64_t stop) {
    while (i < stop) {
      const int64_t start = i % pieces * kGrain, remaining = count - start, o = i / pieces;
      const int64_t n = remaining < kGrain ? remaining : kGrain;
      const T* from = x + o * layout.m;
      T* to = out + o * count + start;
      const bool four = pieces == 1 && stop - i >= 4;
      bool good;
      if (four) {
        if (o + 8 <= layout.outer && count >= layout.m && layout.m * 4 * sizeof(T) <= kPrefetch)
          prefetch(from + 4 * layout.m, 4 * layout.m);
        good = gather_four_rows(from, layout.m, indices + start, to, count, n);
      } else {
        good = gather_run(from, layout.m, indices + start, to, n);
      }
      if (!good) {
        valid = false;
        return;
      }
      i += four ? 4 : 1;
    }
  });
  return valid;
}

// The slices of `width` bytes; false if an index is out of range.
bool take_slices(const char* from, const DimLayout& layout, const int64_t* indices, char* to, int64_t count, int64_t width) {
  std::atomic<bool> valid{true};
  ranges(layout.outer * count, width >= 4 * kGrain ? 1 : 4 * kGrain / width, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t index = load_once(indices + i % count);
      if (!in_range(index, layout.m)) {
        valid = false;
        return;
      }
      copy_run(to + i * width, from + (i / count * layout.m + index) * width, static_cast<size_t>(width));
    }
  });
  return valid;
}

}  // namespace

// gather(x, index, dim)
PyObject* gather(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("gather", n, 3)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *index = as_array(args[1]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || !same_shape_except(x, index, dim) || PyArray_TYPE(x) == NPY_OBJECT) Py_RETURN_NONE;
  Ref indices(int64_indices(args[1]));
  if (!indices) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref from(contiguous(x));
  if (!from) return nullptr;
  const DimLayout layout = layout_around(x, dim);
  const int64_t count = PyArray_DIM(index, dim), total = PyArray_SIZE(index);
  const auto* index_data = data<int64_t>(indices);
  Ref out(new_array(PyArray_NDIM(index), PyArray_DIMS(index), PyArray_TYPE(x)));
  if (!out) return nullptr;
  bool has_kernel;
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(total > kUnlock);
    has_kernel = with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
      using T = decltype(zero);
      const T* source = data<T>(from);
      T* to = data<T>(out);
      if (total == 0) return;
      constexpr int64_t size = sizeof(T);
      const int64_t rows = layout.outer * count, rows_per_chunk = layout.inner >= kChunk ? 1 : kChunk / layout.inner;
      ranges(rows, rows_per_chunk * (kGrain / kChunk), [&](int64_t start, int64_t stop) {
        for (int64_t i = start, end; i < stop; i = end) {
          end = i + rows_per_chunk < stop ? i + rows_per_chunk : stop;
          if (layout.inner == 1 && end > (i / count + 1) * count) end = (i / count + 1) * count;
          bool good = true;
          if (layout.inner == 1) {
            const int64_t next = i / count + 1;  // the next line, which is read in random order
            if (i % count == 0 && next < layout.outer && count >= layout.m && layout.m * size <= kPrefetch)
              prefetch(source + next * layout.m, layout.m);
            good = gather_run(source + i / count * layout.m, layout.m, index_data + i, to + i, end - i);
          } else {
            for (int64_t r = i; good && r < end; ++r) {
              good = gather_columns(source + r / count * layout.m * layout.inner, layout.m, index_data + r * layout.inner,
                                    to + r * layout.inner, layout.inner);
            }
          }
          if (!good) {
            valid = false;
            return;
          }
        }
      });
    });
  }
  if (!has_kernel || !valid) Py_RETURN_NONE;
  return out.release();
}

// take(x, index, dim): the slices at a vector of indices
PyObject* take(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("take", n, 3)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || PyArray_NDIM(as_array(args[1])) != 1 || !is_movable(x)) Py_RETURN_NONE;
  Ref indices(int64_indices(args[1]));
  if (!indices) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  const DimLayout layout = layout_around(x, dim);
  const int64_t count = PyArray_SIZE(indices.array());
  const auto* index_data = data<int64_t>(indices);
  Ref from(contiguous(x));
  if (!from) return nullptr;
  npy_intp dims[NPY_MAXDIMS];
  memcpy(dims, PyArray_DIMS(x), sizeof(npy_intp) * static_cast<size_t>(PyArray_NDIM(x)));
  dims[dim] = count;
  Ref out(new_array(PyArray_NDIM(x), dims, PyArray_TYPE(x)));
  if (!out) return nullptr;
  const int64_t width = layout.inner * PyArray_ITEMSIZE(x), total = layout.outer * count * width;
  if (total == 0) {  // nothing is read at the indices
    if (!all_in_range_parallel(index_data, count, layout.m)) Py_RETURN_NONE;
    return out.release();
  }
  bool valid = true;
  {
    Unlocked unlocked(total > 4 * kUnlock);
    const bool is_element = width <= 8 && with_size(width, [&](auto zero) {
                              using T = decltype(zero);
                              valid = take_elements(data<T>(from), layout, index_data, data<T>(out), count);
                            });
    if (!is_element) valid = take_slices(data<char>(from), layout, index_data, data<char>(out), count, width);
  }
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
