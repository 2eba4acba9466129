// Minimum and maximum along dimensions, and their indices.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for cases without a kernel (float16, complex, long rows): NumPy computes those.
PyObject* minmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* argminmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* minmax_dim(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
