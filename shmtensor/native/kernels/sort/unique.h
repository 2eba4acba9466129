// The different values of a tensor, in order; the first ones of runs.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it: a dimension, NaN, float16, complex.
PyObject* unique(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x)
PyObject* unique2(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)
// The same of the runs of equal values; a NaN is a run of its own.
PyObject* unique_consecutive_values(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* unique_consecutive(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* longest_runs(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x): where the first one of a row ends

}  // namespace shmtensor
