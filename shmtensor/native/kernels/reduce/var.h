// Variance and norm along dimensions.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for dtypes without a kernel: NumPy computes those.
PyObject* var(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* norm(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
