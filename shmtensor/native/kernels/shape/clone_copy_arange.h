// Copies, fills and ranges of contiguous memory, on the thread pool.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* clone(PyObject*, PyObject* argument);
PyObject* copy_into(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* linspace(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* steps(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
