// Writing and adding at indices along one dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// Each returns False for rare dtypes or layouts and for a wrong index: the caller computes it with NumPy, or raises.
PyObject* scatter(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* index_add(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* add_at(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
