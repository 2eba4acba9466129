// cat and stack_into.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* cat(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* stack_into(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
