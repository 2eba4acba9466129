// uniform_, normal_, randint, randperm and splitmix64: counter-based random numbers, the same for any number of threads and at any
// level.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* uniform_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* randint(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* randperm(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* splitmix64(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* normal_(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
