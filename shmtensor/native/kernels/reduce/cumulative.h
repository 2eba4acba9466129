// Running sums, products and extremes along a dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it.
PyObject* cumsum_cumprod(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* logcumsumexp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cummax_cummin(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
