// Elements picked out by several indices, by a mask, by not being 0.
#pragma once

#include "kernels/arguments.h"
#include "python.h"

namespace shmtensor {

// x[i, j, ...] by index arrays of one shape for the first dimensions, x[mask] by a mask of x's shape.
// Null without an exception where it is another case, a small one or a wrong one: NumPy does it.
Ref picked(PyArrayObject* x, PyObject* index);

// (x, index): the numbers of the slices x[i, j, ...] in what the first dimensions of x span, or None.
PyObject* take_rows(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* nonzero(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x): a row of indices each

}  // namespace shmtensor
