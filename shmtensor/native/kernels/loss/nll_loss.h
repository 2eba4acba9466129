// The negative log likelihood loss and its gradient. Each function returns None unless x is float32 or float64, the
// targets are integers, and all classes exist.
#pragma once
#include "python.h"

namespace shmtensor {

// nll_loss(x, target, weight, ignore_index, reduction): -weight[c] x[c], their mean or their sum
PyObject* nll_loss(PyObject*, PyObject* const* args, Py_ssize_t n);
// nll_loss_backward(g, target, weight, shape, ignore_index, reduction)
PyObject* nll_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
