// Convolutions that have a way of their own: Winograd's, and channel by channel.
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
  bool fits = v.groups == v.c && v.k == v.c && v.groups > 1 && v.size[0] == 1 && v.kernel[0] == 1 &&
              v.padding[0] == 0;
  for (int i = 1; i < 3; ++i)
    fits = fits && v.kernel[i] == 3 && v.stride[i] == 1 && v.dilation[i] == 1 && v.padding[i] < 8;
  return fits;
}

// The plane in a frame of zeros; elements of a row of it.
int64_t line_of(const Convolution& v) { return v.fit[2] + 2 + kSlack; }
int64_t framed_size(const Convolution& v) { return (v.fit[1] + 2) * line_of(v) + kSlack; }

template <class T>
void frame(const Convolution& v, const T* x, T* to) {
  const int64_t line = line_of(v), width = v.size[2], left = v.padding[2];
  const int64_t used = width < line - left ? width : line - left;
  memset(to, 0, sizeof(T) * static_cast<size_t>(framed_size(v)));
  for (int64_t r = 0; r < v.fit[1] + 2; ++r) {
    const int64_t y = r - v.padding[1];
    if (y < 0 || y >= v.size[1]) continue;
    memcpy(to + r * line + left, x + y * width, sizeof(T) * static_cast<size_t>(used));
  }
}

template <class T>
void depthwise(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool turned) {
  ranges(v.n * v.c, 1 + kPiece / v.pixels(), [&](int64_t start, int64_t stop) {
    T* plane = scratch.take<T>(framed_size(v));
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c = i % v.c;
      T taps[9];
      for (int t = 0; t < 9; ++t) taps[t] = w[c * 9 + (turned ? 8 - t : t)];
      frame(v, x + i * v.pixels(), plane);
      layers<T>().depth(plane, taps, bias ? bias[c] : T(0), y + i * v.places(), v.fit[1], v.fit[2],
                        line_of(v));
    }
  });
}

template <class T>
void depthwise_filters(const Convolution& v, const T* x, const T* y, T* w) {
  ranges(v.c, 1 + kPiece / (v.n * v.pixels()), [&](int64_t start, int64_t stop) {
    T* plane = scratch.take<T>(framed_size(v));
    for (int64_t c = start; c < stop; ++c) {
      T* taps = w + c * 9;
      for (int t = 0; t < 9; ++t) taps[t] = 0;
      for (int64_t i = 0; i < v.n; ++i) {
        frame(v, x + (i * v.c + c) * v.pixels(), plane);
        layers<T>().depth_filter(plane, y + (i * v.c + c) * v.places(), taps, v.fit[1], v.fit[2],
                                 line_of(v));
      }
    }
  });
}

}  // namespace

bool is_direct(const Convolution& v) { return is_winograd(v) || is_depthwise(v); }

template <class T>
void direct(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool turned) {
  is_depthwise(v) ? depthwise(v, x, w, bias, y, turned) : winograd(v, x, w, bias, y, turned);
}

template <class T>
void direct_filters(const Convolution& v, const T* x, const T* y, T* w) {
  is_depthwise(v) ? depthwise_filters(v, x, y, w) : winograd_filters(v, x, y, w);
}

template void direct(const Convolution&, const float*, const float*, const float*, float*, bool);
template void direct(const Convolution&, const double*, const double*, const double*, double*, bool);
template void direct_filters(const Convolution&, const float*, const float*, float*);
template void direct_filters(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
