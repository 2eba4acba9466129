// Views and new tensors without NumPy's Python layer, and KernelOrFallback.
#pragma once
#include "python.h"

namespace shmtensor {

// A view of x's memory, as writable as x. Strides null: in C order.
PyObject* view(PyArrayObject* x, int nd, const npy_intp* dims, const npy_intp* strides, char* at);

// x[index] by numbers, slices, None and `...` alone, also as a 0-d view. Null without an exception: another kind of
// index, or one that NumPy refuses with its own message.
PyObject* index_view(PyArrayObject* x, PyObject* index);

// Each returns None in rare or wrong cases, which the fallback handles or refuses.
PyObject* basic(PyObject*, PyObject* const* args, Py_ssize_t n);      // (index, ...): the index, or None
PyObject* assign(PyObject*, PyObject* const* args, Py_ssize_t n);      // x[index] = values, of arrays
PyObject* reshape_view(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, shape): a view
PyObject* reshape(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, shape): a view, else a copy
PyObject* flatten(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, start_dim, end_dim)
PyObject* squeeze(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dim)
PyObject* unsqueeze(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, dim)
PyObject* diagonal(PyObject*, PyObject* const* args, Py_ssize_t n);   // (x, offset, dim1, dim2)
PyObject* unbind(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, dim) -> list
PyObject* as_strided(PyObject*, PyObject* const* args, Py_ssize_t n);     // (x, shape, strides, offset): a view
PyObject* flip_view(PyObject*, PyObject* const* args, Py_ssize_t n);    // (x, dims): a view

PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t n);    // (sizes, dtype, kind) -> Tensor
PyObject* arange(PyObject*, PyObject* const* args, Py_ssize_t n);  // (start, end, step, dtype)
PyObject* let_python_choose_device(PyObject*, PyObject* on);

int add_kernel_or_fallback(PyObject* module);

}  // namespace shmtensor
