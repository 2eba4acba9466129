// Layer, group and root-mean-square norm with their gradients, fused.
//
// Each returns None for rare or wrong arguments: the composite op computes those, or raises.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, weight, bias, n, groups, eps, centred) -> (out, mean, rstd): over the last n dimensions, or over
// each of `groups` groups of channels; mean and rstd have one element a row.
PyObject* layer_norm(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, x, weight, mean, rstd, n, groups, centred) -> (gx, gw, gb); gw and gb have the weight's size
PyObject* layer_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
