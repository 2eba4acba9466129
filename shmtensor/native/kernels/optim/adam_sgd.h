// adam_, sgd_ and the other elementwise optimizers: a step over flat arrays.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* adam_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* sgd_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* adadelta_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* adagrad_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* adamax_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* asgd_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* nadam_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* radam_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* rmsprop_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* rprop_(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
