// Where numbers belong in sorted rows, and how often whole numbers occur.
#pragma once

#include "python.h"

namespace shmtensor {

// None where it is not the simple case, or a wrong one.
PyObject* searchsorted(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* histogram(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* bincount(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
