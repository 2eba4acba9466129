// Fused elementwise functions and their backwards: relu, sigmoid, tanh_backward, gelu, dropout.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* relu(PyObject*, PyObject* x);
PyObject* sigmoid(PyObject*, PyObject* x);
PyObject* gelu(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* relu_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* sigmoid_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* tanh_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* gelu_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* dropout(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
