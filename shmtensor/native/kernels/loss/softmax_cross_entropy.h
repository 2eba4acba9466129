// softmax, log_softmax, cross_entropy and their backwards.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* softmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* log_softmax(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* softmax_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* log_softmax_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cross_entropy(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cross_entropy_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
