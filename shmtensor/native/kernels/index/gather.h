// Reading at indices along one dimension.
#pragma once

#include "python.h"

namespace shmtensor {

// Each returns None for rare dtypes or layouts and for a wrong index: the caller computes it with NumPy, or raises.
PyObject* gather(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* take(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
