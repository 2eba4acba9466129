// Windows of images (..., *size), one to three dimensions, float32 and float64.
//
// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, kernel, stride, padding, dilation, fit) -> (values, indices of the flattened image)
PyObject* max_pool(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, kernel, stride, padding, fit): the sum of each window, zeros outside
PyObject* sum_pool(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, size, kernel, stride, padding): each number added to all elements of its window
PyObject* sum_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, indices, shape, n): g added at indices of the last n dimensions of zeros
PyObject* value_selecting_reduction_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
