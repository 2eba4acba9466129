// Copies that put elements in order in memory.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* packed(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* stack(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
