// Indices drawn with weights.
#pragma once

#include "python.h"

namespace shmtensor {

// (weights (rows, n), u (rows, k)): a place for each uniform number, or None where weights are wrong.
PyObject* multinomial(PyObject*, PyObject* const* args, Py_ssize_t n);
// (weights (rows, n), u (rows, n), k): u becomes the times after which each is drawn; False where weights are wrong or
// fewer than k of a row are above 0.
PyObject* multinomial_without_replacement(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
