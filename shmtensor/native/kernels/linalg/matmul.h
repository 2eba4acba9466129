// matmul(x, y[, out]) and linear(x, w, b): products of arrays of any rank, on the private OpenBLAS.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* matmul(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* linear(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
