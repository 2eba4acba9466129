// Variance along dimensions: the mean first, then the squared distances from it.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it.
PyObject* var(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* norm(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
