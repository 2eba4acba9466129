// Sums of weighted neighbours, which image warping reads and its gradients write: float32 and float64.
//
// Outside [0, M) there is 0. Each answers None where the case is rare or wrong: the plain form does it,
// or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

// (x (N, C, M), weights (N, K, P), places (N, K, P)) -> (N, C, P)
PyObject* weighted_gather(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g (N, C, P), weights (N, K, P), places (N, K, P), size) -> (N, C, size): the transpose of the same
PyObject* weighted_scatter(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g (N, C, P), x (N, C, M), places (N, K, P)) -> (N, K, P): what each weight counts for
PyObject* weighted_gather_backward_weights(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x (N, D, P), sizes, reach, frame) -> (N, reach ** D, P): the places around x in a flattened image
PyObject* sample_indices(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
