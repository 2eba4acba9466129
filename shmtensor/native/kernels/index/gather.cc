// Reading at indices. Arrays are (outer, m, inner) around the dimension; indices are looked at in
// chunks just before they are used, so that they come from memory once.
#include "kernels/index/gather.h"

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
constexpr int64_t kNext = 16384;  // bytes of a line that is asked for while the one before is read

// In functions of their own: docs/design/native.md, Loops in lambdas.
template <class T>
void pick(const T* from, const int64_t* at, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[at[i]];
}

template <class T>
void pick_columns(const T* from, const int64_t* at, T* to, int64_t n) {
  for (int64_t c = 0; c < n; ++c) to[c] = from[at[c] * n + c];
}

// Four lines by the same indices, which are loaded once.
template <class T>
void pick_four(const T* from, int64_t line, const int64_t* at, T* to, int64_t out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T* s = from + at[i];
    to[i] = s[0];
    to[i + out] = s[line];
    to[i + 2 * out] = s[2 * line];
    to[i + 3 * out] = s[3 * line];
  }
}

// out[o, j] = x[o, at[j]] for lines of single elements.
template <class T>
void pick_lines(const T* x, const Around& a, const int64_t* at, T* out, int64_t count) {
  const int64_t pieces = (count + kGrain - 1) / kGrain, grain = count < kGrain ? kGrain / count : 1;
  ranges(a.outer * pieces, grain, [&](int64_t i, int64_t stop) {
    while (i < stop) {
      const int64_t start = i % pieces * kGrain, left = count - start, o = i / pieces;
      const int64_t n = left < kGrain ? left : kGrain;
      const T* from = x + o * a.m;
      T* to = out + o * count + start;
      const bool four = pieces == 1 && stop - i >= 4;
      if (four) {
        if (o + 8 <= a.outer && count >= a.m && a.m * 4 * sizeof(T) <= kNext)
          foresee(from + 4 * a.m, 4 * a.m);
        pick_four(from, a.m, at + start, to, count, n);
      } else {
        pick(from, at + start, to, n);
      }
      i += four ? 4 : 1;
    }
  });
}

}  // namespace

// gather(x, index, dim)
PyObject* gather(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("gather", n, 3, 3) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *index = as_array(args[1]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || !same_but(x, index, dim) || PyArray_TYPE(x) == NPY_OBJECT) Py_RETURN_NONE;
  Ref at(indices(args[1]));
  if (!at) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref from(in_order(x));
  if (!from) return nullptr;
  const Around a = around(x, dim);
  const int64_t count = PyArray_DIM(index, dim), total = PyArray_SIZE(index);
  const auto* places = data<int64_t>(at);
  Ref out(fresh(PyArray_NDIM(index), PyArray_DIMS(index), PyArray_TYPE(x)));
  if (!out) return nullptr;
  bool done;
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(total > kUnlock);
    done = with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
      using T = decltype(zero);
      const T* source = data<T>(from);
      T* to = data<T>(out);
      if (total == 0) return;
      constexpr int64_t size = sizeof(T);
      const int64_t rows = a.outer * count, some = a.inner >= kChunk ? 1 : kChunk / a.inner;
      ranges(rows, some * (kGrain / kChunk), [&](int64_t start, int64_t stop) {
        for (int64_t i = start, end; i < stop; i = end) {
          end = i + some < stop ? i + some : stop;
          if (a.inner == 1 && end > (i / count + 1) * count) end = (i / count + 1) * count;
          if (!all_inside(places + i * a.inner, (end - i) * a.inner, a.m)) {
            valid = false;
            return;
          }
          if (a.inner == 1) {
            const int64_t next = i / count + 1;  // which is read in no order
            if (i % count == 0 && next < a.outer && count >= a.m && a.m * size <= kNext)
              foresee(source + next * a.m, a.m);
            pick(source + i / count * a.m, places + i, to + i, end - i);
            continue;
          }
          for (int64_t r = i; r < end; ++r) {
            pick_columns(source + r / count * a.m * a.inner, places + r * a.inner,
                         to + r * a.inner, a.inner);
          }
        }
      });
    });
  }
  if (!done || !valid) Py_RETURN_NONE;
  return out.release();
}

// take(x, index, dim): the slices at a vector of indices
PyObject* take(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("take", n, 3, 3) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || PyArray_NDIM(as_array(args[1])) != 1 || !is_movable(x)) Py_RETURN_NONE;
  Ref at(indices(args[1]));
  if (!at) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  const Around a = around(x, dim);
  const int64_t count = PyArray_SIZE(at.array());
  const auto* places = data<int64_t>(at);
  if (!inside(places, count, a.m)) Py_RETURN_NONE;
  Ref from(in_order(x));
  if (!from) return nullptr;
  npy_intp dims[NPY_MAXDIMS];
  memcpy(dims, PyArray_DIMS(x), sizeof(npy_intp) * static_cast<size_t>(PyArray_NDIM(x)));
  dims[dim] = count;
  Ref out(fresh(PyArray_NDIM(x), dims, PyArray_TYPE(x)));
  if (!out) return nullptr;
  const int64_t width = a.inner * PyArray_ITEMSIZE(x), total = a.outer * count * width;
  if (total == 0) return out.release();
  const char* source = data<char>(from);
  char* to = data<char>(out);
  Unlocked unlocked(total > 4 * kUnlock);
  if (width <= 8 && with_size(width, [&](auto zero) {
        using T = decltype(zero);
        pick_lines(data<T>(from), a, places, data<T>(out), count);
      })) {
    return out.release();
  }
  ranges(a.outer * count, width >= 4 * kGrain ? 1 : 4 * kGrain / width,
         [&](int64_t i, int64_t stop) {
           for (; i < stop; ++i) {
             copy_run(to + i * width, source + (i / count * a.m + places[i % count]) * width,
                      static_cast<size_t>(width));
           }
         });
  return out.release();
}

}  // namespace shmtensor
