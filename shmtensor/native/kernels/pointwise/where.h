// where: elements of one array or of another, by a condition.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* choose(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
