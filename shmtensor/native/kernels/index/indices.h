// What everything that works at indices shares: an array around one dimension, the indices as int64,
// whether they are inside.
#pragma once

#include <atomic>

#include "kernels/arguments.h"
#include "half/bfloat16.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {

constexpr int64_t kChunk = 2048;  // indices looked at, and then used while they are in the cache

// (outer, m, inner) around a dimension.
struct Around {
  int64_t outer = 1, m = 1, inner = 1;
};

inline Around around(PyArrayObject* x, int dim) {
  Around a;
  for (int i = 0; i < PyArray_NDIM(x); ++i)
    (i < dim ? a.outer : i > dim ? a.inner : a.m) *= PyArray_DIM(x, i);
  return a;
}

// An index array as int64 in order; nullptr without an exception: another dtype.
inline Ref indices(PyObject* p) {
  if (!PyArray_CheckExact(p)) return Ref();
  const int type = PyArray_TYPE(as_array(p));
  if (type != NPY_LONG && type != NPY_LONGLONG && type != NPY_INT) return Ref();
  return contiguous_as(as_array(p), NPY_INT64);
}

inline bool all_inside(const int64_t* at, int64_t n, int64_t size) {
  uint64_t signs = 0;  // unsigned: a difference may wrap round, for an index that is outside anyway
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  for (int64_t i = 0; i < n; ++i)
    signs |= static_cast<uint64_t>(at[i]) | (last - static_cast<uint64_t>(at[i]));
  return !(signs >> 63);
}

// The same, by all threads.
inline bool inside(const int64_t* at, int64_t n, int64_t size) {
  constexpr int64_t kPart = 65536;
  std::atomic<bool> all{true};
  ranges(n, kPart, [&](int64_t i, int64_t stop) {
    if (!all_inside(at + i, stop - i, size)) all = false;
  });
  return all;
}

// Asks for a run of memory that the hardware does not foresee.
template <class T>
void foresee(const T* p, int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t c = 0; c < n; c += kLine) __builtin_prefetch(p + c);
}

// -1: not there; no exception is left.
inline int dim_or_none(PyObject* p, int nd) {
  const long d = PyLong_CheckExact(p) ? PyLong_AsLong(p) : -nd - 1;
  PyErr_Clear();
  if (nd == 0 || d < -nd || d >= nd) return -1;
  return static_cast<int>(d < 0 ? d + nd : d);
}

// May elements be moved as bytes?
inline bool is_movable(PyArrayObject* x) {
  const int type = PyArray_TYPE(x);
  return type < NPY_OBJECT || type == NPY_HALF || type == bfloat16_num;
}

// Are the shapes the same, but for one dimension?
inline bool same_but(PyArrayObject* a, PyArrayObject* b, int dim) {
  if (PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    if (i != dim && PyArray_DIM(a, i) != PyArray_DIM(b, i)) return false;
  }
  return true;
}

}  // namespace shmtensor
