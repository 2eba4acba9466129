// Weighted sums of neighbours for grid_sample and interpolate, and their gradients: float32 and float64.
//
// Elements outside [0, M) are 0. Each function returns None for rare or wrong arguments: the composite op computes
// those, or raises.
#pragma once

#include "python.h"

namespace shmtensor {

// (x (N, C, M), weights (N, K, P), indices (N, K, P)) -> (N, C, P)
PyObject* weighted_gather(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g (N, C, P), weights (N, K, P), indices (N, K, P), size) -> (N, C, size): the transpose of weighted_gather
PyObject* weighted_scatter(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g (N, C, P), x (N, C, M), indices (N, K, P)) -> (N, K, P): the gradient of the weights
PyObject* weighted_gather_backward_weights(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x (N, D, P), sizes, kernel_size, padding_mode) -> (N, kernel_size ** D, P): flat indices of the pixels around x
PyObject* sample_indices(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
