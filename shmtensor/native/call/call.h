// Calling a kernel: the heap is open while it runs, and NumPy's scalars come back as 0-d arrays.
#pragma once
#include "python.h"

namespace shmtensor {

PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n);  // args[-1] may be overwritten

PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n);     // call(kernel, *arguments) -> arrays
PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n);  // the same, as Tensors without history
PyObject* compute_view(PyObject*, PyObject* const* args, Py_ssize_t n);  // (parent, row, attributes, kernel, *args)
PyObject* write(PyObject*, PyObject* const* args, Py_ssize_t n);  // write(tensor, kernel, *arguments with out)

}  // namespace shmtensor
