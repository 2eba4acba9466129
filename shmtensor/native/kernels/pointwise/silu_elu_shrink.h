// Activations: fn(x, parameters...) in one pass. Each function returns None unless x is a real floating-point array and
// the parameters are valid: the caller computes the others without a kernel.
#pragma once
#include "python.h"

namespace shmtensor {

PyObject* silu(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* softplus(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* logsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* mish(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* leaky_relu(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* elu(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* hardtanh(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* hardsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* hardswish(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* hardshrink(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* softshrink(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* threshold(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* numbers(PyObject*, PyObject* const* args, Py_ssize_t n);
// glu(x, dim): the first half along dim times the sigmoid of the second
PyObject* glu(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* glu_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
// activation_backward(g, x, name, a, b, c): the gradient of x; x and g have one shape and dtype
PyObject* activation_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
