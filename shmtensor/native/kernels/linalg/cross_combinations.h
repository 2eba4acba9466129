// Cross products, and combinations of indices.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* cross(PyObject*, PyObject* const* args, Py_ssize_t n);         // (x, y, dim), or None
PyObject* combinations(PyObject*, PyObject* const* args, Py_ssize_t n);  // (n, r, with_replacement), or None

}  // namespace shmtensor
