// Sums of integers, products, and counts of nonzero elements.
#pragma once

#include "kernels/arguments.h"
#include "simd/kernel_table.h"

namespace shmtensor {

// Reduces the marked dimensions, in any layout: int64 for integers and counts, else x's dtype.
// Overwrites is_reduced. None for dtypes without a kernel.
PyObject* reduce_over(PyArrayObject* x, bool* is_reduced, bool keepdim, ReduceOp op);

PyObject* prod(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* count(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
