// The same elements in another order, or some of them: flip, roll, triangles.
//
// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* flip(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, dims)
PyObject* roll(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, shift, dim)
PyObject* tril_triu(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, diagonal, upper)

}  // namespace shmtensor
