// Where numbers belong in sorted rows, and how often whole numbers occur.
#pragma once

#include "python.h"

namespace shmtensor {

// None where it is not the simple case, or a wrong one.
PyObject* sought(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* bars(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* occurrences(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
