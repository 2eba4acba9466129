// Copies that put elements in order in memory.
#pragma once

#include "kernels/arguments.h"

namespace shmtensor {

// The array itself if it is in C order, aligned and in native byte order, else such a copy.
Ref in_order(PyArrayObject* x);

// to[...] = x, in C order of x's dimensions, on the pool; false for dtypes that are not simple.
bool pack_into(PyArrayObject* x, void* to);

// to[o, i] = items[i][o]: `outer` runs of `width` bytes of each of `count` contiguous arrays in turn.
void interleave(PyObject* const* items, int64_t count, int64_t outer, int64_t width, char* to);

PyObject* contiguous(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* stack(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
