// Functions that bind.cc gives to Python.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* widens(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
