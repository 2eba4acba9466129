// Cumulative sums, products, maxima and minima along a dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for dtypes without a kernel: NumPy computes those.
PyObject* cumsum_cumprod(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* logcumsumexp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cummax_cummin(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
