// Reading, writing and adding at indices along one dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// None (False) where it is not the simple case, or an index is wrong: the caller does it in NumPy,
// and says what is wrong.
PyObject* gather(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* take(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* scatter(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* index_add(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* add_at(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
