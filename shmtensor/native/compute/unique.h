// The different values of a tensor, in order.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it: a dimension, NaN, float16, complex.
PyObject* distinct(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x)
PyObject* unique_values(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)

}  // namespace shmtensor
