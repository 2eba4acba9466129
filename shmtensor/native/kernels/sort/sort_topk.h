// sort, topk and kthvalue along one dimension, with indices.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for cases without a kernel (float16, complex, 0-d, 2^32 elements a row): NumPy computes
// those.
PyObject* sort(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* topk(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* kthvalue(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
