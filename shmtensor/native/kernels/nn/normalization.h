// Layer, group, root-mean-square and batch norm with their gradients, fused.
//
// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, weight, bias, n, groups, eps, centred) -> (out, mean, rstd): over the last n dimensions, or over
// each of `groups` groups of channels; mean and rstd one a row.
PyObject* layer_norm(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, x, weight, mean, rstd, n, groups, centred) -> (gx, gw, gb), as many numbers as the weight has
PyObject* layer_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

// (x, weight, bias, eps) -> (out, mean, variance): over all but dimension 1
PyObject* batch_norm(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, x, weight, mean, variance, eps) -> (gx, gw, gb)
PyObject* batch_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
