// Copies, fills and counts in memory that is in order, on the pool.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* store(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* line(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* steps(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
