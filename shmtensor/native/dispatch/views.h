// Views and new tensors made without NumPy's Python layer, and the choice between a kernel and its
// plain form.
#pragma once
#include "python.h"

namespace shmtensor {

// A view of x's memory, as writable as x. Strides null: in C order.
PyObject* view(PyArrayObject* x, int nd, const npy_intp* dims, const npy_intp* strides, char* at);

// x[index] by numbers, slices, None and `...` alone, also as a 0-d view. Null without an exception: another kind of
// index, or a wrong one, which NumPy explains.
PyObject* selected(PyArrayObject* x, PyObject* index);

// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
PyObject* basic(PyObject*, PyObject* const* args, Py_ssize_t n);      // (index, ...): a tuple for `_index_select`
PyObject* assign(PyObject*, PyObject* const* args, Py_ssize_t n);      // x[index] = values, of arrays
PyObject* reshape_view(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, shape)
PyObject* flatten(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, start_dim, end_dim)
PyObject* squeeze(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dim)
PyObject* unsqueeze(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)
PyObject* diagonal(PyObject*, PyObject* const* args, Py_ssize_t n);   // (x, offset, dim1, dim2)
PyObject* unbind(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, dim) -> list
PyObject* as_strided(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, shape, strides, offset): a view
PyObject* flip_view(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dims): a view

PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t n);    // (sizes, dtype, kind) -> Tensor
PyObject* arange(PyObject*, PyObject* const* args, Py_ssize_t n);  // (start, end, step, dtype)

int add_either(PyObject* module);

}  // namespace shmtensor
