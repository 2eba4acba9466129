// Reading and writing at several index arrays or at a mask, and the indices of nonzero elements.
#pragma once

#include "kernels/arguments.h"
#include "python.h"

namespace shmtensor {

// x[i, j, ...] with index arrays of one shape for the first dimensions, x[mask] with a mask of x's shape.
// Null without an exception for other or wrong indices: NumPy computes those.
Ref advanced_getitem(PyArrayObject* x, PyObject* index);

// x[i, j, ...] = values of x's dtype, for index arrays of one shape for the first dimensions; x[mask] = number. False: not
// computed, NumPy does it or raises.
bool advanced_setitem(PyArrayObject* x, PyObject* index, PyArrayObject* values);

// (x, index): the flat indices of the slices x[i, j, ...] over the first dimensions of x, or None.
PyObject* take_rows(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* private_index(PyObject*, PyObject* index);  // indices.h
PyObject* nonzero(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x): the indices of each nonzero element, a row

}  // namespace shmtensor
