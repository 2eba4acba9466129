// The two 16-bit floats: NumPy has float16 and no bfloat16. Both are stored in 16 bits and computed
// with in float32 (docs/design/bfloat16.md).
//
//   bfloat16_dtype.cc    bfloat16 as a dtype of NumPy's: storage, casts, scalars; no arithmetic
//   cast.cc  arrays of either to float32 and back
//   half_kernels.cc   ufuncs and sums that take them tile by tile
//   compute_in_float32.cc     a kernel's call with 16-bit arrays, carried out in float32
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

// A float32 copy with the axes in the same order.
PyObject* widened(PyArrayObject* x);
// A copy of a float32 array as `type`, rounded to nearest, ties to even.
PyObject* narrowed(PyArrayObject* x, int type);
// The same into an array of 16-bit floats of that shape; 0, or -1 with an exception set.
int narrow_into(PyArrayObject* x, PyArrayObject* out);

// Note [Computing in float32]
// The kernel of a row whose column `halves` is empty never sees a 16-bit array: each is widened, float32
// results are rounded once. Other kernels (views, copies, indexing) get the 16-bit elements as they are.
struct Widening {
  Py_ssize_t outputs;  // results that are rounded: what is kept for pullbacks besides stays wide
  PyObject* first;     // asked first, with the 16-bit arrays; or null
};
bool holds_halves(PyObject* const* args, Py_ssize_t n);  // a few comparisons where no array is 16 bits wide
// The call tile by tile, without copies in float32; nullptr without an exception: not one for that.
PyObject* run_direct(PyObject* kernel, PyObject* const* args, Py_ssize_t n);
// The call. args[-1] may be overwritten.
PyObject* run_wide(const Widening& widening, PyObject* kernel, PyObject* const* args, Py_ssize_t n);

int add_in_float32(PyObject* module);  // InFloat32(kernel): the kernel as one that is called so

}  // namespace shmtensor
