// Copies, fills and counts in memory that is in order, on the pool.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* clone(PyObject*, PyObject* argument);
PyObject* copy_into(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* linspace(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* steps(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
