// Chooses the algorithm of a convolution by its shape. The first row that fits counts:
//
//   shape                                                algorithm   why
//   one window, which is the image                       product     a matrix of images times one of filters, by BLAS
//   depthwise, 3 x 3, stride 1                           depthwise   a row of pixels is loaded once for nine taps
//   3 x 3, stride 1, 16 channels and filters or more,    winograd    a quarter of the multiplications; with fewer
//     16 tiles of 4 x 4 results or more in the batch,                channels or tiles transforms take longer than that
//     at most 2^19 filters times channels, and no sparse             saves, and more filters do not fit into the cache;
//     tiles: up to 64 channels on 10 x 10, 32 on 7 x 7,              the last tiles of those are mostly zeros
//     128 on 9 x 9, 256 on 5 x 5
//   1 x 1, channels last in memory                       product     pixels are the rows of a matrix
//   1 x 1, stride 1, but for 7 x 7 pixels and the like   product     of filters and one image; the gradient of the weight
//                                                                    only with few weights and many images
//   any other                                            direct      register tiles, conv_direct.cc: padded rows, or
//                                                                    several images side by side if rows are short
//
// The gradient of the input with stride 1 is a convolution with rotated filters, so the same rows choose for it. That of the
// weight needs 2048 filters times channels for winograd, because its two phases exchange their planes between the cores, and
// leaves more layers direct, up to 64 channels on 14 x 14 and 128 on 9 x 9, because no image is copied there.
// docs/design/convolution.md has the times.
#include <cstring>

#include "kernels/linalg/openblas.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/nn_kernel_table.h"
#include "threading/thread_pool.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 8192;  // elements of a slice
constexpr int64_t kSlack = 16;  // elements read beyond a row
constexpr int64_t kManyPixels = 8192;
constexpr int64_t kTasks = 8;  // a call is divided into as many, if it can be
constexpr int64_t kRows = 32;  // at least, of a product
constexpr int64_t kFewWeights = 1 << 16;

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

// One window that is the image: the convolution is a product of matrices.
bool is_product(const Convolution& v) {
  bool is_one = v.groups == 1;
  for (int i = 0; i < 3; ++i) is_one = is_one && v.kernel[i] == v.size[i] && v.padding[i] == 0 && v.out_size[i] == 1;
  return is_one;
}

// c (m x n) = op(a) op(b)
template <class T>
void product(const T* a, bool a_transposed, const T* b, bool b_transposed, T* c, int64_t m, int64_t n, int64_t k) {
  gemm(Gemm<T>{a, b, c, m, n, k, a_transposed ? m : k, b_transposed ? k : n, n, a_transposed, b_transposed, T(0)});
}

// f(a pixel of all images, the result's that reads it) for the pixels that a strided 1 x 1 convolution reads, in rows.
template <class F>
void for_strided_pixels(const Convolution& v, F f) {
  const int64_t rows = v.n * v.out_size[0] * v.out_size[1];
  ranges(rows, 1 + kPiece / (v.out_size[2] * v.c), [&](int64_t row, int64_t stop) {
    for (; row < stop; ++row) {
      const int64_t y = row % v.out_size[1], z = row / v.out_size[1] % v.out_size[0],
                    image = row / v.out_size[1] / v.out_size[0];
      const int64_t first = ((image * v.size[0] + z * v.stride[0]) * v.size[1] + y * v.stride[1]) * v.size[2];
      for (int64_t x = 0; x < v.out_size[2]; ++x) f(first + x * v.stride[2], row * v.out_size[2] + x);
    }
  });
}

// w += each of the sums of `size` numbers.
template <class T>
void add_in_order(const std::vector<T>& sums, int64_t size, T* w) {
  for (size_t at = 0; at < sums.size(); at += static_cast<size_t>(size))
    for (int64_t j = 0; j < size; ++j) w[j] += sums[at + static_cast<size_t>(j)];
}

bool reads_all_pixels(const Convolution& v) { return v.pixels() == v.outputs(); }

// The pixels that the results read, side by side: x itself without a stride, else `memory`.
template <class T>
const T* read_pixels(const Convolution& v, const T* x, std::vector<T>* memory) {
  if (reads_all_pixels(v)) return x;
  memory->resize(static_cast<size_t>(v.n * v.outputs() * v.c));
  for_strided_pixels(v, [&](int64_t from, int64_t to) {
    memcpy(memory->data() + to * v.c, x + from * v.c, sizeof(T) * static_cast<size_t>(v.c));
  });
  return memory->data();
}

}  // namespace

bool is_pointwise(const Convolution& v) {
  bool is_one = v.groups == 1;
  for (int i = 0; i < 3; ++i) is_one = is_one && v.kernel[i] == 1 && v.padding[i] == 0;
  return is_one;
}

template <class T>
void pointwise_forward(const Convolution& v, const T* x, const T* w, const T* bias, T* y) {
  std::vector<T> memory;
  const T* pixels = read_pixels(v, x, &memory);
  const int64_t rows = v.n * v.outputs();
  if (bias) {
    ranges(rows, 1 + kPiece / v.k, [&](int64_t row, int64_t stop) {
      for (; row < stop; ++row) memcpy(y + row * v.k, bias, sizeof(T) * static_cast<size_t>(v.k));
    });
  }
  gemm(Gemm<T>{pixels, w, y, rows, v.k, v.c, v.c, v.c, v.k, false, true, T(bias ? 1 : 0)});
}

template <class T>
void pointwise_backward_input(const Convolution& v, const T* y, const T* w, T* x) {
  std::vector<T> memory;
  const int64_t rows = v.n * v.outputs();
  if (!reads_all_pixels(v)) memory.resize(static_cast<size_t>(rows * v.c));
  product(y, false, w, false, memory.empty() ? x : memory.data(), rows, v.c, v.k);
  if (memory.empty()) return;
  ranges(v.n * v.pixels(), 1 + kPiece / v.c, [&](int64_t pixel, int64_t stop) {
    memset(x + pixel * v.c, 0, sizeof(T) * static_cast<size_t>((stop - pixel) * v.c));
  });
  for_strided_pixels(v, [&](int64_t to, int64_t from) {
    memcpy(x + to * v.c, memory.data() + from * v.c, sizeof(T) * static_cast<size_t>(v.c));
  });
}

template <class T>
void pointwise_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  std::vector<T> memory;
  const T* pixels = read_pixels(v, x, &memory);
  const int64_t rows = v.n * v.outputs(), size = v.k * v.c;
  if (rows < kManyPixels) return product(y, true, pixels, false, w, v.k, v.c, rows);
  // Parts of the pixels, added in order: with parts of the weight each would read all pixels.
  constexpr int64_t kParts = 4;
  const int64_t part = (rows + kParts - 1) / kParts;
  std::vector<T> sums(static_cast<size_t>((kParts - 1) * size));
  slices(kParts, [&](int64_t i) {
    const int64_t n = i + 1 < kParts ? part : rows - i * part;
    blas_gemm(Gemm<T>{y + i * part * v.k, pixels + i * part * v.c, i ? sums.data() + (i - 1) * size : w, v.k, v.c, n, v.k,
                      v.c, v.c, true, false, T(0)});
  });
  add_in_order(sums, size, w);
}

namespace {

// Filters of one pixel on contiguous images: a product for each image, results (rows, pixels) = weights times sources.
// Images side by side are faster than products whose columns would be mostly rounded up, as 49 to 64 for 7 x 7 pixels.
bool is_image_product(const Convolution& v) {
  const int64_t columns = (v.pixels() + 15) / 16 * 16;
  const bool is_wasteful = 5 * v.pixels() < 4 * columns && v.n >= kTasks && v.c >= 64 && v.k >= 64;
  return is_pointwise(v) && reads_all_pixels(v) && !is_wasteful;
}

// f(image, first row, number of rows) for all images; few images are divided into rows.
template <class F>
void for_image_rows(const Convolution& v, int64_t rows, F f) {
  const int64_t most = (rows + kRows - 1) / kRows, wanted = (kTasks + v.n - 1) / v.n, parts = most < wanted ? most : wanted;
  const int64_t part = (rows + parts - 1) / parts;
  slices(v.n * parts, [&](int64_t i) {
    const int64_t first = i % parts * part;
    if (first < rows) f(i / parts, first, first + part < rows ? part : rows - first);
  });
}

template <class T>
void image_products(const Convolution& v, const T* source, const T* w, const T* bias, T* result, bool is_gradient) {
  const int64_t rows = is_gradient ? v.c : v.k, channels = is_gradient ? v.k : v.c, pixels = v.pixels();
  for_image_rows(v, rows, [&](int64_t image, int64_t first, int64_t n) {
    T* to = result + (image * rows + first) * pixels;
    for (int64_t r = 0; bias && r < n; ++r)
      for (int64_t p = 0; p < pixels; ++p) to[r * pixels + p] = bias[first + r];
    blas_gemm(Gemm<T>{w + (is_gradient ? first : first * v.c), source + image * channels * pixels, to, n, pixels, channels,
                      v.c, pixels, pixels, is_gradient, false, T(bias ? 1 : 0)});
  });
}

// The same of the gradient of the weight, in kTasks sums over images. Each is written once for each image: few weights.
bool is_image_product_of_weight(const Convolution& v) {
  return is_image_product(v) && v.n >= kTasks && v.k * v.c <= kFewWeights;
}

template <class T>
void image_products_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  const int64_t pixels = v.pixels(), size = v.k * v.c;
  std::vector<T> partials(static_cast<size_t>((kTasks - 1) * size));
  slices(kTasks, [&](int64_t i) {
    T* to = i ? partials.data() + (i - 1) * size : w;
    const int64_t start = i * v.n / kTasks, stop = (i + 1) * v.n / kTasks;
    for (int64_t image = start; image < stop; ++image)
      blas_gemm(Gemm<T>{y + image * v.k * pixels, x + image * v.c * pixels, to, v.k, v.c, pixels, pixels, pixels, v.c, false,
                        true, T(image > start ? 1 : 0)});
  });
  add_in_order(partials, size, w);
}

// Are so few of the 144 products of a tile of 4 x 4 results with pixels inside the image that direct sums are faster? Narrow
// layers have more transforms for each product. `most` is measured.
bool has_sparse_tiles(const Convolution& v, int64_t most) {
  int64_t products = 1, tiles = 1;
  for (int i = 1; i < 3; ++i) {
    int64_t inside = 0;
    for (int64_t q = 0; q < v.out_size[i]; ++q) {
      for (int64_t at = q - v.padding[i]; at < q - v.padding[i] + 3; ++at) inside += at >= 0 && at < v.size[i];
    }
    products *= inside;
    tiles *= (v.out_size[i] + 3) / 4;
  }
  return products <= (most - (v.c < v.k ? v.c : v.k) / 4) * tiles;
}

bool prefers_winograd(const Convolution& v) { return is_winograd(v) && !has_sparse_tiles(v, 107); }

bool prefers_winograd_of_weight(const Convolution& v) {
  return is_winograd(v) && v.c * v.k >= 2048 && !has_sparse_tiles(v, 120);
}

}  // namespace

template <class T>
void conv_forward(const Convolution& v, const T* x, const T* w, const T* bias, T* y) {
  if (is_product(v)) {
    product(x, false, w, true, y, v.n, v.k, v.c * v.taps());
    for (int64_t i = 0; bias && i < v.n * v.k; ++i) y[i] += bias[i % v.k];
    return;
  }
  if (is_image_product(v)) return image_products(v, x, w, bias, y, false);
  if (is_depthwise(v)) return depthwise(v, x, w, bias, y, false);
  if (prefers_winograd(v)) return winograd(v, x, w, bias, y, false);
  direct_conv(v, x, w, bias, y, false);
}

template <class T>
void conv_backward_input(const Convolution& v, const T* y, const T* w, T* x) {
  if (is_product(v)) return product(y, false, w, false, x, v.n, v.c * v.taps(), v.k);
  if (is_image_product(v)) return image_products<T>(v, y, w, nullptr, x, true);
  Convolution rotated = v;  // stride 1: a convolution with rotated filters and padding 2 - padding
  rotated.c = v.k;
  rotated.k = v.c;
  for (int i = 0; i < 3; ++i) {
    rotated.size[i] = v.out_size[i];
    rotated.out_size[i] = v.size[i];
    rotated.padding[i] = v.kernel[i] - 1 - v.padding[i];
  }
  const bool covers_all =
      v.out_size[1] == v.size[1] + 2 * v.padding[1] - 2 && v.out_size[2] == v.size[2] + 2 * v.padding[2] - 2;
  if (covers_all && rotated.padding[1] >= 0 && rotated.padding[2] >= 0) {
    if (is_depthwise(rotated)) return depthwise<T>(rotated, y, w, nullptr, x, true);
    if (prefers_winograd(rotated)) return winograd<T>(rotated, y, w, nullptr, x, true);
  }
  direct_conv<T>(v, y, w, nullptr, x, true);
}

template <class T>
void conv_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  if (is_product(v)) return product(y, true, x, false, w, v.k, v.c * v.taps(), v.n);
  if (is_image_product_of_weight(v)) return image_products_backward_weight(v, x, y, w);
  if (is_depthwise(v)) return depthwise_backward_weight(v, x, y, w);
  if (prefers_winograd_of_weight(v)) return winograd_backward_weight(v, x, y, w);
  direct_conv_backward_weight(v, x, y, w);
}

template void conv_forward(const Convolution&, const float*, const float*, const float*, float*);
template void conv_forward(const Convolution&, const double*, const double*, const double*, double*);
template void conv_backward_input(const Convolution&, const float*, const float*, float*);
template void conv_backward_input(const Convolution&, const double*, const double*, double*);
template void conv_backward_weight(const Convolution&, const float*, const float*, float*);
template void conv_backward_weight(const Convolution&, const double*, const double*, double*);
template void pointwise_forward(const Convolution&, const float*, const float*, const float*, float*);
template void pointwise_forward(const Convolution&, const double*, const double*, const double*, double*);
template void pointwise_backward_input(const Convolution&, const float*, const float*, float*);
template void pointwise_backward_input(const Convolution&, const double*, const double*, double*);
template void pointwise_backward_weight(const Convolution&, const float*, const float*, float*);
template void pointwise_backward_weight(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
