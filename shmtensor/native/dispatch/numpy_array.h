// Small functions on arrays, where NumPy's Python layer costs more than the work.
#pragma once
#include "python.h"

namespace shmtensor {

PyObject* item(PyObject*, PyObject* const* args, Py_ssize_t n);    // item(x, index): x[index], never a scalar
PyObject* expand(PyObject*, PyObject* const* args, Py_ssize_t n);  // expand(x, shape): a read-only view
// sum_to_size(g, edge): g if it has the edge's dtype and shape, else None
PyObject* sum_to_size(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* is_only_owner(PyObject*, PyObject* tensor);  // does nothing else in this process refer to a tensor's memory?
PyObject* move_tensors(PyObject*, PyObject* const* args, Py_ssize_t n);  // move_tensors.cc

}  // namespace shmtensor
