// Weighted sampling of indices.
#pragma once

#include "python.h"

namespace shmtensor {

// (weights (rows, n), u (rows, k)): an index for each uniform number, or None if weights are invalid.
PyObject* multinomial(PyObject*, PyObject* const* args, Py_ssize_t n);
// (weights (rows, n), u (rows, n), k): u becomes the time at which each element is drawn; False if weights are invalid
// or a row has fewer than k positive ones.
PyObject* multinomial_without_replacement(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
