// where(condition, x, y).
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* where(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
