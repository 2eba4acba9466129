// Pointwise losses, with their sum or mean in the same pass, and their gradients. Each function returns None unless x
// and y are floating-point arrays of one shape and dtype.
#pragma once
#include "python.h"

namespace shmtensor {

// pointwise_loss(x, y, name, reduction, a, b): the losses, their mean or their sum
PyObject* pointwise_loss(PyObject*, PyObject* const* args, Py_ssize_t n);
// pointwise_loss_backward(g, x, y, name, side, reduction, a, b): the gradient of x (side 0) or y (1)
PyObject* pointwise_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
