// The largest and smallest elements along dimensions, and where they are.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it: float16, complex, dimensions that are not neighbours.
PyObject* minmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* argminmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* minmax_dim(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
