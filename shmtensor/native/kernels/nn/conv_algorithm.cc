// Convolutions with specialised algorithms: Winograd and depthwise.
#include <cstring>

#include "kernels/nn/convolution.h"
#include "kernels/nn/nn_kernel_table.h"
#include "threading/thread_pool.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 8192;  // elements of a slice
constexpr int64_t kSlack = 16;    // elements read beyond a row

bool is_depthwise(const Convolution& v) {
  bool fits = v.groups == v.c && v.k == v.c && v.groups > 1 && v.size[0] == 1 && v.kernel[0] == 1 && v.padding[0] == 0;
  for (int i = 1; i < 3; ++i) fits = fits && v.kernel[i] == 3 && v.stride[i] == 1 && v.dilation[i] == 1 && v.padding[i] < 8;
  return fits;
}

// Elements of a row of the zero-padded plane, and of the padded plane.
int64_t padded_row_size(const Convolution& v) { return v.out_size[2] + 2 + kSlack; }
int64_t padded_plane_size(const Convolution& v) { return (v.out_size[1] + 2) * padded_row_size(v) + kSlack; }

template <class T>
void pad_plane(const Convolution& v, const T* x, T* padded) {
  const int64_t row_size = padded_row_size(v), width = v.size[2], offset = v.padding[2];
  const int64_t copied = width < row_size - offset ? width : row_size - offset;
  memset(padded, 0, sizeof(T) * static_cast<size_t>(padded_plane_size(v)));
  for (int64_t r = 0; r < v.out_size[1] + 2; ++r) {
    const int64_t y = r - v.padding[1];
    if (y < 0 || y >= v.size[1]) continue;
    memcpy(padded + r * row_size + offset, x + y * width, sizeof(T) * static_cast<size_t>(copied));
  }
}

template <class T>
void depthwise(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool rotated) {
  ranges(v.n * v.c, 1 + kPiece / v.pixels(), [&](int64_t start, int64_t stop) {
    T* plane = scratch.get<T>(padded_plane_size(v));
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c = i % v.c;
      T taps[9];
      for (int t = 0; t < 9; ++t) taps[t] = w[c * 9 + (rotated ? 8 - t : t)];
      pad_plane(v, x + i * v.pixels(), plane);
      nn_kernels<T>().depthwise_3x3(plane, taps, bias ? bias[c] : T(0), y + i * v.outputs(), v.out_size[1], v.out_size[2],
                                    padded_row_size(v));
    }
  });
}

template <class T>
void depthwise_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  ranges(v.c, 1 + kPiece / (v.n * v.pixels()), [&](int64_t start, int64_t stop) {
    T* plane = scratch.get<T>(padded_plane_size(v));
    for (int64_t c = start; c < stop; ++c) {
      T* taps = w + c * 9;
      for (int t = 0; t < 9; ++t) taps[t] = 0;
      for (int64_t i = 0; i < v.n; ++i) {
        pad_plane(v, x + (i * v.c + c) * v.pixels(), plane);
        nn_kernels<T>().depthwise_3x3_backward_weight(plane, y + (i * v.c + c) * v.outputs(), taps, v.out_size[1],
                                                      v.out_size[2], padded_row_size(v));
      }
    }
  });
}

}  // namespace

bool has_specialized_conv(const Convolution& v) { return is_winograd(v) || is_depthwise(v); }

template <class T>
void specialized_conv(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool rotated) {
  is_depthwise(v) ? depthwise(v, x, w, bias, y, rotated) : winograd(v, x, w, bias, y, rotated);
}

template <class T>
void specialized_conv_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  is_depthwise(v) ? depthwise_backward_weight(v, x, y, w) : winograd_backward_weight(v, x, y, w);
}

template void specialized_conv(const Convolution&, const float*, const float*, const float*, float*, bool);
template void specialized_conv(const Convolution&, const double*, const double*, const double*, double*, bool);
template void specialized_conv_backward_weight(const Convolution&, const float*, const float*, float*);
template void specialized_conv_backward_weight(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
