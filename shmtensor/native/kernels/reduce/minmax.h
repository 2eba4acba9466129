// The largest and smallest elements along dimensions, and where they are.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it: float16, complex, dimensions that are not neighbours.
PyObject* extreme(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* extreme_place(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* extreme_along(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
