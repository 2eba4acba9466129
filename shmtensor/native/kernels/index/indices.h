// Shared by all kernels that work at indices: the layout of an array around one dimension, the indices as int64, their
// range check.
//
// Note [Memory that others change]
// A tensor is in shared memory, and another process may write to it at any time, an index tensor, too. A kernel that
// checked an index and then read it again could use another value than the one it checked, and would read or write
// anywhere. So each kernel reads an index into a register (load_once), checks that value and uses that value; in the loop
// this costs a comparison and a branch that is never taken, and saves the pass that only checked. The same is true of
// every number that a kernel reads twice: a count of a first pass bounds the second (masks, nonzero, runs, radix sort),
// lengths and labels are copied first. Then a call whose index tensor changes meanwhile uses either value of an element,
// or finds a wrong index as if it had been there from the start; it never leaves its arrays.
//
// A kernel that writes in place first checks all indices, so that it leaves the tensor unchanged if one is wrong
// (all_in_range_parallel). That check is no reason to trust an index later.
//
// NumPy's own indexing checks first and reads again: private_index copies the indices for it.
#pragma once

#include <atomic>

#include "kernels/arguments.h"
#include "half/bfloat16.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {

constexpr int64_t kChunk = 2048;  // indices or offsets of a step, which fit in the first-level cache

// An array as (outer, m, inner), where m is the size of one dimension.
struct DimLayout {
  int64_t outer = 1, m = 1, inner = 1;
};

inline DimLayout layout_around(PyArrayObject* x, int dim) {
  DimLayout a;
  for (int i = 0; i < PyArray_NDIM(x); ++i) (i < dim ? a.outer : i > dim ? a.inner : a.m) *= PyArray_DIM(x, i);
  return a;
}

// An index array as contiguous int64; null without an exception for another dtype.
inline Ref int64_indices(PyObject* index) {
  if (!PyArray_CheckExact(index)) return Ref();
  const int type = PyArray_TYPE(as_array(index));
  if (type != NPY_LONG && type != NPY_LONGLONG && type != NPY_INT) return Ref();
  return contiguous_as(as_array(index), NPY_INT64);
}

// Is this an index of a dimension of that size?
inline bool in_range(int64_t index, int64_t size) { return static_cast<uint64_t>(index) < static_cast<uint64_t>(size); }

inline bool all_in_range(const int64_t* indices, int64_t n, int64_t size) {
  uint64_t signs = 0;  // unsigned: the difference may wrap around for an index that is out of range anyway
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  for (int64_t i = 0; i < n; ++i) signs |= static_cast<uint64_t>(indices[i]) | (last - static_cast<uint64_t>(indices[i]));
  return !(signs >> 63);
}

// The same on the thread pool.
inline bool all_in_range_parallel(const int64_t* indices, int64_t n, int64_t size) {
  constexpr int64_t kPart = 65536;
  std::atomic<bool> all{true};
  ranges(n, kPart, [&](int64_t i, int64_t stop) {
    if (!all_in_range(indices + i, stop - i, size)) all = false;
  });
  return all;
}

// use(position, index) for each of n indices, which are read once; false at the first one out of range [0, size). Those
// some cache lines ahead are prefetched: accesses at random addresses in between hide their order from the processor, and
// ten million took up to 1.4 times as long.
template <class F>
inline bool for_indices(const int64_t* indices, int64_t n, int64_t size, F use) {
  constexpr int64_t kLine = 8, kAhead = 512;
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(indices + i + kAhead);
#pragma GCC unroll 8
    for (int64_t k = i; k < i + kLine; ++k) {
      const int64_t index = load_once(indices + k);
      if (!in_range(index, size)) return false;
      use(k, index);
    }
  }
  for (; i < n; ++i) {
    const int64_t index = load_once(indices + i);
    if (!in_range(index, size)) return false;
    use(i, index);
  }
  return true;
}

// The index of NumPy's x[index] with copies of its arrays: of integers as they are, of bools with 1 for every byte that is
// not 0, since another process may have written any. Other indices unchanged. Null: an exception is set.
Ref private_index(PyObject* index);

// Prefetches a run of memory that the hardware does not predict.
template <class T>
void prefetch(const T* index, int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t c = 0; c < n; c += kLine) __builtin_prefetch(index + c);
}

// A dimension in [0, nd), or -1, without an exception.
inline int dim_or_none(PyObject* index, int nd) {
  const long dim = PyLong_CheckExact(index) ? PyLong_AsLong(index) : -nd - 1;
  PyErr_Clear();
  if (nd == 0 || dim < -nd || dim >= nd) return -1;
  return static_cast<int>(dim < 0 ? dim + nd : dim);
}

// Can elements be copied as bytes?
inline bool is_movable(PyArrayObject* x) {
  const int type = PyArray_TYPE(x);
  return type < NPY_OBJECT || type == NPY_HALF || type == bfloat16_num;
}

// Are the shapes equal in all dimensions but one?
inline bool same_shape_except(PyArrayObject* a, PyArrayObject* b, int dim) {
  if (PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    if (i != dim && PyArray_DIM(a, i) != PyArray_DIM(b, i)) return false;
  }
  return true;
}

}  // namespace shmtensor
