// Products and logarithms of sums along a dimension, and products of matrices of one rank.
//
// Each answers None where the case is rare or wrong.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* logsumexp(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim, keepdim)
PyObject* dot(PyObject*, PyObject* const* args, Py_ssize_t n);        // (x, y): vectors
PyObject* bmm(PyObject*, PyObject* const* args, Py_ssize_t n);        // (x, y): batches of matrices

}  // namespace shmtensor
