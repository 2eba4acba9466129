// Distances of pairs of points.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* distances(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* pair_distances(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
