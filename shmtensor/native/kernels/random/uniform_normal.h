// uniform_, normal_, randint and randperm: counter-based random numbers, the same for any number of threads and at any
// level.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* uniform_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* randint(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* randperm(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* normal_(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
