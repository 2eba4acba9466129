// Running sums, products and extremes along a dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it.
PyObject* running(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* running_log_sum(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* running_extreme(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
