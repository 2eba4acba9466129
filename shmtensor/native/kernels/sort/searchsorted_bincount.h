// searchsorted, bincount and histogram.
#pragma once

#include "python.h"

namespace shmtensor {

// Each function returns None for rare or wrong arguments.
PyObject* searchsorted(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* histogram(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* bincount(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
