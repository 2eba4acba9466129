// Batch norm with its gradient, fused.
//
// Each returns None for rare or wrong arguments: the composite op computes those, or raises.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, weight, bias, eps) -> (out, mean, variance): over all but dimension 1
PyObject* batch_norm(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, x, weight, mean, variance, eps) -> (gx, gw, gb)
PyObject* batch_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
