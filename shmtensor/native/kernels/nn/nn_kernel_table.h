// Serial kernels of network layers, once per instruction-set level: norms, convolution's
// transforms, CTC's steps, the gates of recurrent networks. nn_kernel_table.cc chooses the level; layer_norm.cc,
// conv_im2col.cc, ctc_loss.cc and rnn.cc cut the work.
#pragma once

#include <stdint.h>

namespace shmtensor {

template <class T>
struct Layers {
  // ---- norms. The sum, and the sum of (x - mean)^2.
  double (*total)(const T* x, int64_t n);
  double (*squared)(const T* x, int64_t n, T mean);
  // Per element: out = (x - mean) * scale * w + b; w and b may be null.
  void (*norm)(const T* x, const T* w, const T* b, T* out, int64_t n, T mean, T scale);
  // out = (x - mean) * scale + shift
  void (*affine)(const T* x, T* out, int64_t n, T mean, T scale, T shift);
  // sums[0] = sum of g w, sums[1] = sum of g w (x - mean); w may be null.
  void (*dots)(const T* g, const T* x, const T* w, int64_t n, T mean, double* sums);
  // gx = g w p - (a + (x - mean) q); w may be null
  void (*norm_slope)(const T* g, const T* x, const T* w, T* gx, int64_t n, T mean, T p, T a, T q);
  // gw += g (x - mean) scale, gb += g
  void (*norm_weights)(const T* g, const T* x, T* gw, T* gb, int64_t n, T mean, T scale);

  // The same with one mean, scale, ... for each column: a row of n columns.
  void (*affine_columns)(const T* x, const T* mean, const T* scale, const T* shift, T* out,
                         int64_t n);
  // of `rows` rows, `stride` apart: sums += g, dots += g (x - mean)
  void (*dots_columns)(const T* g, const T* x, const T* mean, T* sums, T* dots, int64_t rows,
                       int64_t n, int64_t stride);
  void (*slope_columns)(const T* g, const T* x, const T* mean, const T* p, const T* a, const T* q,
                        T* gx, int64_t n);

  // ---- Winograd F(4 x 4, 3 x 3): 36 planes of n tiles each, `plane` elements apart.
  void (*depth)(const T* x, const T* w, T bias, T* y, int64_t rows, int64_t width, int64_t line);
  void (*depth_filter)(const T* x, const T* g, T* w, int64_t rows, int64_t width, int64_t line);
  void (*pick)(const T* x, T* out, int64_t n);  // out[i] = x[2 i]
  void (*spread_row)(const T* row, T* d, int64_t n, int64_t plane);  // d[j][t] = row[4 t + j], j < 6
  void (*part_row)(const T* row, T* y, int64_t n, int64_t plane);    // the same for j < 4
  void (*join_row)(const T* y, T* row, int64_t n, int64_t plane, T more);  // and back, plus `more`
  void (*tile_in)(const T* d, T* v, int64_t n, int64_t d_plane, int64_t v_plane);    // B' d B
  void (*tile_out)(const T* m, T* y, int64_t n, int64_t m_plane, int64_t y_plane);   // A' m A
  void (*tile_back)(const T* y, T* m, int64_t n, int64_t y_plane, int64_t m_plane);  // A y A'

  // ---- CTC, in logarithms: one step of the blanks, of the labels; shares of both; e^x, x <= 80.
  void (*ctc_blanks)(const T* a, const T* b, T y, T* out, int64_t n);
  void (*ctc_labels)(const T* a, const T* b, const T* c, const T* jump, const T* y, T* out,
                     int64_t n);
  void (*ctc_shares)(const T* a, const T* b, const T* y, T* out, int64_t n, T shift);
  void (*exp_row)(const T* x, T* out, int64_t n);

  // ---- recurrent networks: a step's gates and their gradients, of one sequence (rnn_gates.simd.h).
  void (*lstm_gates)(const T* x, T* gates, const T* c_before, T* c, T* h, int64_t n);
  void (*lstm_slopes)(const T* gates, const T* c_before, const T* c, const T* dh, T* dc, T* out,
                      int64_t n);
  void (*gru_gates)(const T* x, const T* back, const T* b, const T* h_before, T* gates, T* h,
                    int64_t n);
  void (*gru_slopes)(const T* gates, const T* h_before, const T* dh, T* carry, T* by_x, T* by_back,
                     int64_t n);
  void (*tanh_gates)(const T* x, T* h, int64_t n);
  void (*relu_gates)(const T* x, T* h, int64_t n);
  void (*tanh_slopes)(const T* h, const T* dh, T* out, int64_t n);
  void (*relu_slopes)(const T* h, const T* dh, T* out, int64_t n);
};

template <class T>
const Layers<T>& layers();

}  // namespace shmtensor
