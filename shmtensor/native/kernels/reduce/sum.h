// sum over dimensions, and the reduction of several arrays into one.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* sum(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* reduce_into(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
