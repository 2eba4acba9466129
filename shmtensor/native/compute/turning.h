// The same elements in another order, or some of them: flip, roll, triangles, what is not 0.
//
// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* flip(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, dims)
PyObject* roll(PyObject*, PyObject* const* args, Py_ssize_t n);      // (x, shift, dim)
PyObject* triangle(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, diagonal, upper)
PyObject* nonzero(PyObject*, PyObject* const* args, Py_ssize_t n);   // (x): a row of indices each
PyObject* distinct(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x): the values, in order

}  // namespace shmtensor
