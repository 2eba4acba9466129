// The two 16-bit floats: NumPy has float16 but no bfloat16. Both are stored in 16 bits and computed in float32
// (docs/design/bfloat16.md).
//
//   bfloat16_dtype.cc      bfloat16 as a NumPy dtype: storage, casts, scalars; no arithmetic
//   cast.cc                casts arrays of both to float32 and back
//   half_kernels.cc        ufuncs and sums that process them tile by tile
//   compute_in_float32.cc  calls a kernel with float32 copies of 16-bit arrays
#pragma once

#include "half/bfloat16.h"
#include "python.h"

namespace shmtensor {

inline bool is_half(int type) { return type == NPY_HALF || type == bfloat16_num; }

// An array of 16-bit floats. NPY_HALF is the last number of NumPy's numeric dtypes.
inline bool is_half_array(PyObject* p) {
  if (!PyArray_CheckExact(p)) return false;
  const int type = PyArray_DESCR(reinterpret_cast<PyArrayObject*>(p))->type_num;
  return __builtin_expect(type >= NPY_HALF, 0) && is_half(type);
}

int add_bfloat16(PyObject* module);  // registers the dtype; 0, or -1 with an exception set

// A float32 copy with the same order of axes in memory.
PyObject* widen_array(PyArrayObject* x);
// A copy of a float32 array as `type`, rounded to nearest, ties to even.
PyObject* narrow_array(PyArrayObject* x, int type);
// Casts x into an array of the same shape, of 16-bit floats or float32. False: an exception is set.
bool narrow_into(PyArrayObject* x, PyArrayObject* out);
bool widen_into(PyArrayObject* x, PyArrayObject* out);

// Note [Computing in float32]
// The kernel of an op whose column `halves` is empty never gets a 16-bit array: each is cast to float32, and float32
// results are rounded once. Other kernels (views, copies, indexing) get the 16-bit arrays unchanged.
struct Widening {
  Py_ssize_t outputs;  // results that are rounded; further results, saved for backward, stay float32
  PyObject* first;     // a kernel that is tried first, with the 16-bit arrays; or null
};
bool holds_halves(PyObject* const* args, Py_ssize_t n);  // a few comparisons if there is no 16-bit array
// Computes a call tile by tile, without float32 copies; nullptr without an exception if there is no kernel for it.
PyObject* run_half_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n);
// Calls the kernel in float32. args[-1] may be overwritten.
PyObject* run_wide(const Widening& widening, PyObject* kernel, PyObject* const* args, Py_ssize_t n);

int add_in_float32(PyObject* module);  // InFloat32(kernel, outputs): a callable that runs the kernel by run_wide

}  // namespace shmtensor
