// Sorting, the k largest, the k-th smallest: along one dimension, with the places of the elements.
#pragma once

#include "python.h"

namespace shmtensor {

// None where NumPy has to do it: float16, complex, 0-d, 2^32 elements in a row.
PyObject* sort(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* topk(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* kthvalue(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
