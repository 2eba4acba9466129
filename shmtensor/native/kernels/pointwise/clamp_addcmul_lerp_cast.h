// Expressions of several operations in one pass, and casts, on the thread pool.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* clamp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* nan_to_num(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* add_alpha(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cube(PyObject*, PyObject* x);
PyObject* masked_scale(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* addcmul(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* addcdiv(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* lerp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* rsqrt(PyObject*, PyObject* argument);
PyObject* cast(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
