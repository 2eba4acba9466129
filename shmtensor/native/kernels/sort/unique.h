// unique and unique_consecutive.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for cases without a kernel (a dimension, NaN, float16, complex): NumPy computes those.
PyObject* unique(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x)
PyObject* unique2(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)
// The same for runs of equal values; each NaN is a separate run.
PyObject* unique_consecutive_values(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* unique_consecutive(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x): the end of the first longest run of each row
PyObject* longest_runs(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
