// Pooling of images (..., *size) in one to three dimensions, float32 and float64.
//
// Each function returns None for rare or wrong arguments: the composite op computes those, or raises.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, kernel, stride, padding, dilation, out_size) -> (values, indices into the flattened image)
PyObject* max_pool(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, kernel, stride, padding, out_size): the sum of each window, zeros outside
PyObject* sum_pool(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, size, kernel, stride, padding): each element of x is added to all pixels of its window
PyObject* sum_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, indices, shape, n): zeros of that shape with g added at flat indices of the last n dimensions
PyObject* value_selecting_reduction_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
