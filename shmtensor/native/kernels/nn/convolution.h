// Convolution of images (N, C, *size), one to three dimensions, float32 and float64.
//
// Each function returns None for rare or wrong arguments: the composite op computes those, or raises.
#pragma once

#include <cstdint>

#include "python.h"

namespace shmtensor {

// (x, weight, bias, stride, padding, dilation, groups)
PyObject* convolution(PyObject*, PyObject* const* args, Py_ssize_t n);
// (y, weight, size, stride, padding, dilation, groups): the gradient of the input
PyObject* conv_transpose(PyObject*, PyObject* const* args, Py_ssize_t n);
// (x, y, kernel, stride, padding, dilation, groups): the gradient of the weight
PyObject* convolution_backward_weight(PyObject*, PyObject* const* args, Py_ssize_t n);

// The sizes of a convolution in three dimensions; missing dimensions have size 1.
struct Convolution {
  int64_t n, c, k, groups;  // images, their channels, filters
  int64_t size[3], kernel[3], out_size[3], stride[3], padding[3], dilation[3];
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
  int64_t outputs() const { return out_size[0] * out_size[1] * out_size[2]; }
};

// conv_winograd.cc: F(4 x 4, 3 x 3). Is it supported and faster than im2col here?
bool is_winograd(const Convolution&);
// x (n, c, size) convolved with w (k, c, 3, 3), plus bias (k) or null. `rotated`: w is (c, k, 3, 3) and each filter is
// rotated by 180 degrees, as the gradient of the input needs it.
template <class T>
void winograd(const Convolution&, const T* x, const T* w, const T* bias, T* y, bool rotated);
template <class T>
void winograd_backward_weight(const Convolution&, const T* x, const T* y, T* w);

// conv_algorithm.cc: chooses Winograd or depthwise (3 x 3, stride 1).
bool has_specialized_conv(const Convolution&);
template <class T>
void specialized_conv(const Convolution&, const T* x, const T* w, const T* bias, T* y, bool rotated);
template <class T>
void specialized_conv_backward_weight(const Convolution&, const T* x, const T* y, T* w);

}  // namespace shmtensor
