// logsumexp along dimensions, and matrix products of operands of one rank.
//
// Each function returns None for rare or wrong arguments.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* logsumexp(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim, keepdim)
PyObject* dot(PyObject*, PyObject* const* args, Py_ssize_t n);        // (x, y): vectors
PyObject* bmm(PyObject*, PyObject* const* args, Py_ssize_t n);        // (x, y): batches of matrices

}  // namespace shmtensor
