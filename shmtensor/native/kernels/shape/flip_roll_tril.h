// flip, roll, tril and triu.
//
// Each function returns None for rare or wrong arguments: the caller computes those without a kernel, or raises.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* flip(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, dims)
PyObject* roll(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, shift, dim)
PyObject* tril_triu(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, diagonal, upper)

}  // namespace shmtensor
