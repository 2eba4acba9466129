// where: elements of one array or of another, by a condition.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* where(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
