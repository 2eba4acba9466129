// Small things done to arrays on the way, where NumPy's own Python layer costs more than the work.
#pragma once
#include "python.h"

namespace shmtensor {

PyObject* item(PyObject*, PyObject* const* args, Py_ssize_t n);    // item(x, index): x[index], never a scalar
PyObject* expand(PyObject*, PyObject* const* args, Py_ssize_t n);  // expand(x, shape): read-only stretched view
PyObject* sum_to_size(PyObject*, PyObject* const* args, Py_ssize_t n);     // sum_to_size(g, edge): g if it belongs there, else None
PyObject* is_only_owner(PyObject*, PyObject* tensor);  // does nothing else in this process see a tensor's memory?

}  // namespace shmtensor
