// Copies to C-contiguous memory.
#pragma once

#include "kernels/arguments.h"

namespace shmtensor {

// contiguous() and contiguous_copy() are in arguments.h.

// Copies x to `to` in C order, on the thread pool; false for dtypes that cannot be copied as bytes.
bool copy_contiguous_into(PyArrayObject* x, void* to);

// to[o, i] = items[i][o]: interleaves `outer` runs of `width` bytes from each of `count` contiguous arrays.
void interleave(PyObject* const* items, int64_t count, int64_t outer, int64_t width, char* to);

PyObject* contiguous(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* stack(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
