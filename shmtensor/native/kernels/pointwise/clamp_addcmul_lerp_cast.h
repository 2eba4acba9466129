// Expressions of several operations in one pass, and casts, on the pool.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* clamp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* finite(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* add_scaled(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* cube(PyObject*, PyObject* x);
PyObject* keep(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* addcmul(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* addcdiv(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* lerp(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* rsqrt(PyObject*, PyObject* argument);
PyObject* cast(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
