// Convolution of images (N, C, *size), one to three dimensions, float32 and float64.
//
// Each function returns None for rare or wrong arguments: the composite op computes those, or raises.
#pragma once

#include <cstdint>
#include <vector>

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

// A pixel of an image and its place in a copy.
struct ConvMove {
  int64_t from, to;
};

// Copies pixels of some images, `distance` elements apart, whose copies are `step` elements apart.
template <class T>
void move_pixels(const std::vector<ConvMove>& moves, const T* x, int64_t distance, int64_t images, T* out, int64_t step) {
  for (int64_t i = 0; i < images; ++i, x += distance, out += step) {
    for (const ConvMove& m : moves) out[m.to] = x[m.from];
  }
}

// conv_winograd.cc: F(4 x 4, 3 x 3). Is it supported and faster than direct sums here?
bool is_winograd(const Convolution&);
// x (n, c, size) convolved with w (k, c, 3, 3), plus bias (k) or null. `rotated`: w is (c, k, 3, 3) and each filter is
// rotated by 180 degrees, as the gradient of the input needs it.
template <class T>
void winograd(const Convolution&, const T* x, const T* w, const T* bias, T* y, bool rotated);
template <class T>
void winograd_backward_weight(const Convolution&, const T* x, const T* y, T* w);

// conv_direct.cc: any convolution, and the gradients of its input (is_gradient) and its weight.
template <class T>
void direct_conv(const Convolution&, const T* source, const T* w, const T* bias, T* result, bool is_gradient);
template <class T>
void direct_conv_backward_weight(const Convolution&, const T* x, const T* y, T* w);

// conv_algorithm.cc: chooses the algorithm.
template <class T>
void conv_forward(const Convolution&, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_backward_input(const Convolution&, const T* y, const T* w, T* x);
template <class T>
void conv_backward_weight(const Convolution&, const T* x, const T* y, T* w);

// Filters of one pixel, without padding: on images whose channels are last in memory, (N, *size, C), products of matrices.
bool is_pointwise(const Convolution&);
template <class T>
void pointwise_forward(const Convolution&, const T* x, const T* w, const T* bias, T* y);
template <class T>
void pointwise_backward_input(const Convolution&, const T* y, const T* w, T* x);
template <class T>
void pointwise_backward_weight(const Convolution&, const T* x, const T* y, T* w);

}  // namespace shmtensor
