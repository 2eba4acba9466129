// The elements of classes, as the loss of log-probabilities, and back. Each answers None where the
// arrays are not float32 or float64 and int64, or a class does not exist.
#pragma once
#include "python.h"

namespace shmtensor {

// nll_loss(x, target, weight, ignore_index, reduction): -weight[c] x[c], their mean or their sum
PyObject* nll_loss(PyObject*, PyObject* const* args, Py_ssize_t n);
// nll_loss_backward(g, target, weight, shape, ignore_index, reduction)
PyObject* nll_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
