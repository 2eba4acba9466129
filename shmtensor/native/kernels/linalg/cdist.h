// Distances of pairs of points.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* cdist(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* pdist(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
