// Serial kernels of network layers, compiled once per instruction-set level: norms, transforms of convolutions, steps
// of CTC, gates of recurrent networks. nn_kernel_table.cc chooses the level; layer_norm.cc, convolution.h, ctc_loss.cc
// and rnn.cc divide the work among threads.
#pragma once

#include <stdint.h>

namespace shmtensor {

// The number of a row among a few, as wide as T.
template <class T>
struct SameWidth;
template <>
struct SameWidth<float> {
  typedef int32_t type;
};
template <>
struct SameWidth<double> {
  typedef int64_t type;
};
template <class T>
using RowNumber = typename SameWidth<T>::type;

// A tap of a filter: where its pixel and its weight are.
struct ConvTap {
  int64_t x, w;
};

// y[r][p] (+)= the sum over channels and taps of w[r] and the pixel p: `rows` filters, n pixels, rounded up to vectors.
template <class T>
struct ConvTile {
  const T* x;
  int64_t x_channel;
  const ConvTap* tap;
  int64_t taps, channels;
  const T* w;
  int64_t w_row, w_channel;
  T* y;
  int64_t y_row, n;
  bool add;
};

// w[r][j] += the sum over planes and n pixels, rounded up to vectors, of y[r][p] x[column[j] + p].
template <class T>
struct ConvWeightTile {
  const T* x;
  int64_t x_plane;
  const int64_t* column;
  int64_t columns;
  const T* y;
  int64_t y_row, y_plane, planes, n;
  T* w;
  int64_t w_row;
};

// grid_sample: images of `dims` (2 or 3) sizes and `channels` channels, each of `elements`; `points` are those of an image,
// and `taps` the neighbours of a point in each dimension: 1 (the nearest), 2, or 4 (bicubic).
enum class SamplePadding { Zeros, Border, Reflection };
template <class T>
struct GridSample {
  int dims, taps;
  SamplePadding padding;
  bool align_corners;
  int64_t size[3], channels, elements, points;
};
constexpr int64_t kSampleBlock = 128;  // points of a call
template <int kN>
struct SampleConstant {
  static constexpr int n = kN;
};

template <class T>
struct NnKernels {
  // ---- norms: the sum, and the sum of (x - mean)^2
  double (*sum)(const T* x, int64_t n);
  double (*sum_of_squared_deviations)(const T* x, int64_t n, T mean);
  // Per element: out = (x - mean) * scale * w + b; w and b may be null.
  void (*norm)(const T* x, const T* w, const T* b, T* out, int64_t n, T mean, T scale);
  // out = (x - mean) * scale + shift
  void (*affine)(const T* x, T* out, int64_t n, T mean, T scale, T shift);
  // sums[0] = sum of g w, sums[1] = sum of g w (x - mean); w may be null.
  void (*dots)(const T* g, const T* x, const T* w, int64_t n, T mean, double* sums);
  // gx = g w p - (a + (x - mean) q); w may be null
  void (*norm_backward)(const T* g, const T* x, const T* w, T* gx, int64_t n, T mean, T p, T a, T q);
  // gw += g (x - mean) scale, gb += g
  void (*norm_backward_weight)(const T* g, const T* x, T* gw, T* gb, int64_t n, T mean, T scale);

  // One row of n columns, with a mean, scale, ... for each column.
  void (*affine_columns)(const T* x, const T* mean, const T* scale, const T* shift, T* out, int64_t n);
  // over `rows` rows, `stride` elements apart: sums += g, dots += g (x - mean)
  void (*dots_columns)(const T* g, const T* x, const T* mean, T* sums, T* dots, int64_t rows, int64_t n, int64_t stride);
  void (*norm_backward_columns)(const T* g, const T* x, const T* mean, const T* p, const T* a, const T* q, T* gx, int64_t n);

  // ---- direct convolution (conv_direct.simd.h)
  void (*conv_tiles)(const ConvTile<T>&, int64_t rows);
  void (*conv_weight_tiles)(const ConvWeightTile<T>&, int64_t rows);
  void (*load_rows)(const T* x, int64_t x_row, int64_t step, T* out, int64_t out_row, int64_t rows, int64_t left, int64_t n,
                    int64_t width);
  void (*interleave)(const T* x, int64_t distance, int64_t images, const int64_t* place, int64_t pixels, T* out);
  void (*deinterleave)(const T* x, const int64_t* place, int64_t pixels, T* y, int64_t distance, int64_t images, T bias);
  void (*store_rows)(const T* x, int64_t x_row, int64_t x_phase, int64_t phases, T* y, int64_t y_row, int64_t rows,
                     int64_t width, T bias);

  // ---- convolution: 3 x 3 on one channel; Winograd F(4 x 4, 3 x 3) on 36 planes of n tiles, `plane` elements apart
  void (*depthwise_3x3)(const T* x, const T* w, T bias, T* y, int64_t rows, int64_t width, int64_t line);
  void (*depthwise_3x3_backward_weight)(const T* x, const T* g, T* w, int64_t rows, int64_t width, int64_t line);
  void (*split_pixels)(const T* x, int64_t row_size, int64_t down, int64_t across, T* d, int64_t plane);
  void (*split_results)(const T* y, int64_t height, int64_t width, int64_t down, int64_t across, T* d, int64_t plane);
  void (*merge_results)(const T* d, int64_t plane, int64_t across, T* y, int64_t height, int64_t width, T bias);
  void (*transform_input)(const T* d, T* v, int64_t n, int64_t d_plane, int64_t v_plane);    // B' d B
  void (*transform_output)(const T* m, T* y, int64_t n, int64_t m_plane, int64_t y_plane);   // A' m A
  void (*transform_output_adjoint)(const T* y, T* m, int64_t n, int64_t y_plane, int64_t m_plane);  // A y A'
  void (*transform_filters)(const T* w, int64_t row, int64_t step, int64_t filters, int64_t channels, bool rotated, T* u,
                            int64_t u_plane);  // G w G'
  void (*transform_filters_adjoint)(const T* u, int64_t u_plane, int64_t channels, T* w);  // G' u G
  void (*transpose)(const T* x, int64_t x_row, int64_t rows, int64_t n, T* out, int64_t out_row, int64_t width);

  // ---- pooling and resampling: rows of images, combined (pooling.simd.h)
  void (*combine_rows)(const T* const* rows, const T* weights, int64_t count, T* out, int64_t n);
  bool (*max_of_rows)(const T* const* rows, int64_t count, T* best, RowNumber<T>* row, int64_t n);

  // ---- images read at up to kSampleBlock points of a grid (grid_sample.simd.h)
  void (*grid_sample)(const GridSample<T>&, const T* x, const T* grid, T* out, int64_t n);
  void (*grid_sample_backward_x)(const GridSample<T>&, const T* g, const T* grid, T* gx, int64_t n);
  void (*grid_sample_backward_grid)(const GridSample<T>&, const T* g, const T* x, const T* grid, T* g_grid, int64_t n);

  // ---- CTC in logarithms: one step of the blanks, one of the labels; posteriors of both; e^x for x <= 80
  void (*ctc_blanks)(const T* a, const T* b, T y, T* out, int64_t n);
  void (*ctc_labels)(const T* a, const T* b, const T* c, const T* jump, const T* y, T* out, int64_t n);
  void (*ctc_shares)(const T* a, const T* b, const T* y, T* out, int64_t n, T shift);
  void (*exp_row)(const T* x, T* out, int64_t n);

  // ---- recurrent networks: the gates of one step of one sequence, and their gradients (rnn_gates.simd.h)
  void (*lstm_gates)(const T* x, T* gates, const T* c_before, T* c, T* h, int64_t n);
  void (*lstm_gates_backward)(const T* gates, const T* c_before, const T* c, const T* dh, T* dc, T* out, int64_t n);
  void (*gru_gates)(const T* x, const T* h_product, const T* b, const T* h_before, T* gates, T* h, int64_t n);
  void (*gru_gates_backward)(const T* gates, const T* h_before, const T* dh, T* grad_h_before, T* grad_x, T* grad_h_product,
                             int64_t n);
  void (*tanh_gates)(const T* x, T* h, int64_t n);
  void (*relu_gates)(const T* x, T* h, int64_t n);
  void (*tanh_gates_backward)(const T* h, const T* dh, T* out, int64_t n);
  void (*relu_gates_backward)(const T* h, const T* dh, T* out, int64_t n);
};

template <class T>
const NnKernels<T>& nn_kernels();

constexpr int64_t kTileWidth = 16;  // the width of a product in register tiles is a multiple of this

// c (m x n) = a (m x k) b (k x n) in register tiles, plus c with `add`; k is not 0. The distances of all rows are given, and
// of a's columns. Where a has few rows, BLAS takes longer to copy b than to multiply.
template <class T>
void multiply_tiles(const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row, T* c, int64_t c_row, int64_t m,
                    int64_t n, int64_t k, bool add) {
  const ConvTap tap = {0, 0};
  ConvTile<T> tile{};
  tile.x = b;
  tile.x_channel = b_row;
  tile.tap = &tap;
  tile.taps = 1;
  tile.channels = k;
  tile.w = a;
  tile.w_row = a_row;
  tile.w_channel = a_column;
  tile.y = c;
  tile.y_row = c_row;
  tile.n = n;
  tile.add = add;
  nn_kernels<T>().conv_tiles(tile, m);
}

}  // namespace shmtensor
