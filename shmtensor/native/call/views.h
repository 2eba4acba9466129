// Views and new tensors made without NumPy's Python layer, and the choice between a kernel and its
// plain form.
#pragma once
#include "python.h"

namespace shmtensor {

// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
PyObject* viewed(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, shape)
PyObject* flatten(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, start_dim, end_dim)
PyObject* squeeze(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dim)
PyObject* unsqueeze(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)
PyObject* diagonal(PyObject*, PyObject* const* args, Py_ssize_t n);   // (x, offset, dim1, dim2)
PyObject* unbind(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, dim) -> list
PyObject* flipped(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dims): a view

PyObject* blank(PyObject*, PyObject* const* args, Py_ssize_t n);    // (sizes, dtype, kind) -> Tensor
PyObject* counted(PyObject*, PyObject* const* args, Py_ssize_t n);  // (start, end, step, dtype)

int add_either(PyObject* module);

}  // namespace shmtensor
