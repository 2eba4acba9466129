// Convolution of images (N, C, *size), one to three dimensions, float32 and float64.
//
// Each answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include <cstdint>

#include "python.h"

namespace shmtensor {

// (x, weight, bias, stride, padding, dilation, groups)
PyObject* convolution(PyObject*, PyObject* const* args, Py_ssize_t n);
// (y, weight, size, stride, padding, dilation, groups): the gradient by the image
PyObject* conv_transpose(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, y, kernel, stride, padding, dilation, groups): the gradient by the filters
PyObject* convolution_backward_weight(PyObject*, PyObject* const* args, Py_ssize_t n);

// What one convolution is: sizes in three dimensions, the missing ones 1.
struct Convolution {
  int64_t n, c, k, groups;  // images, their channels, filters
  int64_t size[3], kernel[3], fit[3], stride[3], padding[3], dilation[3];
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  int64_t places() const { return fit[0] * fit[1] * fit[2]; }
};

// conv_winograd.cc: F(4 x 4, 3 x 3). Is it worth it for this one?
bool is_winograd(const Convolution&);
// x (n, c, size) by w (k, c, 3, 3) plus bias (k) or null. `turned`: w is (c, k, 3, 3), each filter
// turned by half a circle, as the gradient by the image wants it.
template <class T>
void winograd(const Convolution&, const T* x, const T* w, const T* bias, T* y, bool turned);
template <class T>
void winograd_filters(const Convolution&, const T* x, const T* y, T* w);

// conv_algorithm.cc: Winograd's, or channel by channel (3 x 3, steps of one).
bool is_direct(const Convolution&);
template <class T>
void direct(const Convolution&, const T* x, const T* w, const T* bias, T* y, bool turned);
template <class T>
void direct_filters(const Convolution&, const T* x, const T* y, T* w);

}  // namespace shmtensor
