// Winograd's convolution: tiles of 4 x 4 results from 6 x 6 pixels, as 36 products of matrices.
//
//   pixels --split_row_overlapping--> d[36][tiles] --transform_input--> V[36][C][tiles]   some tile rows at a time,
//   filters ----------------------------------------------------------> U[36][K][C]       so that V and M stay in L2
//   M[36] = U[36] V[36] --transform_output--> y[16][tiles] --merge_row--> results
//
// The gradient of the filters is the exact adjoint, in two phases: transforms over channels, then products over the 36
// planes, added in the order of the pieces. So results do not depend on the number of threads.
#include <cstring>
#include <memory>

#include "kernels/linalg/openblas.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/nn_kernel_table.h"
#include "threading/thread_pool.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

constexpr int64_t kGroup = 16;  // the number of tiles side by side is a multiple of this
constexpr int64_t kMaxElements = 1 << 18;  // elements of V and M together

int64_t round_up(int64_t n) { return (n + kGroup - 1) / kGroup * kGroup; }

// The tiles of all images, in rows of `across` tiles.
struct Tiles {
  int64_t across, down, rows;  // per image, per image, of all images
  explicit Tiles(const Convolution& v) : across((v.out_size[2] + 3) / 4), down((v.out_size[1] + 3) / 4), rows(down * v.n) {}
};

// Transforms 16 filters w (3 x 3), side by side, to 36 numbers each.
template <class T>
void transform_filter(const T (*w)[16], T (*u)[16]) {
  constexpr T a = T(0.70710678118654752440), b = T(1.41421356237309504880);
  T rows[18][16];
  const auto transform_line = [](const T* x, const T* y, const T* z, T* t0, T* t1, T* t2, T* t3, T* t4, T* t5) {
    for (int i = 0; i < 16; ++i) {
      const T even = (x[i] + T(0.5) * z[i]) * T(-1 / 1.5), odd = a * y[i] * T(-1 / 1.5);
      const T even2 = (x[i] + T(2) * z[i]) * T(1 / 6.0), odd2 = b * y[i] * T(1 / 6.0);
      t0[i] = x[i];
      t1[i] = even + odd;
      t2[i] = even - odd;
      t3[i] = even2 + odd2;
      t4[i] = even2 - odd2;
      t5[i] = z[i];
    }
  };
  for (int c = 0; c < 3; ++c)
    transform_line(w[c], w[3 + c], w[6 + c], rows[c], rows[3 + c], rows[6 + c], rows[9 + c], rows[12 + c], rows[15 + c]);
  for (int r = 0; r < 6; ++r)
    transform_line(rows[3 * r], rows[3 * r + 1], rows[3 * r + 2], u[6 * r], u[6 * r + 1], u[6 * r + 2], u[6 * r + 3],
                   u[6 * r + 4], u[6 * r + 5]);
}

// The adjoint: 36 numbers to each of 16 filters.
template <class T>
void transform_filter_adjoint(const T (*u)[16], T (*w)[16]) {
  constexpr T a = T(0.70710678118654752440), b = T(1.41421356237309504880);
  T rows[18][16];
  const auto transform_line = [](const T* t0, const T* t1, const T* t2, const T* t3, const T* t4, const T* t5, T* x, T* y,
                                 T* z) {
    for (int i = 0; i < 16; ++i) {
      const T even = (t1[i] + t2[i]) * T(-1 / 1.5), odd = (t1[i] - t2[i]) * T(-1 / 1.5);
      const T even2 = (t3[i] + t4[i]) * T(1 / 6.0), odd2 = (t3[i] - t4[i]) * T(1 / 6.0);
      x[i] = t0[i] + even + even2;
      y[i] = a * odd + b * odd2;
      z[i] = T(0.5) * even + T(2) * even2 + t5[i];
    }
  };
  for (int c = 0; c < 6; ++c)
    transform_line(u[c], u[6 + c], u[12 + c], u[18 + c], u[24 + c], u[30 + c], rows[c], rows[6 + c], rows[12 + c]);
  for (int r = 0; r < 3; ++r)
    transform_line(rows[6 * r], rows[6 * r + 1], rows[6 * r + 2], rows[6 * r + 3], rows[6 * r + 4], rows[6 * r + 5],
                   w[3 * r], w[3 * r + 1], w[3 * r + 2]);
}

// Transforms all filters: U[36][k][c].
template <class T>
void transform_filters(const Convolution& v, const T* w, T* u, bool rotated) {
  const int64_t row = rotated ? 9 : v.c * 9, step = rotated ? v.k * 9 : 9;  // of k, of c
  ranges(v.k, 1 + 4096 / v.c, [&](int64_t start, int64_t stop) {
    T in[9][16], out[36][16];
    for (int64_t k = start; k < stop; ++k) {
      for (int64_t c = 0; c < v.c; c += 16) {
        const int64_t m = v.c - c < 16 ? v.c - c : 16;
        for (int64_t i = 0; i < m; ++i) {
          const T* from = w + k * row + (c + i) * step;
          for (int t = 0; t < 9; ++t) in[t][i] = from[rotated ? 8 - t : t];
        }
        for (int64_t i = m; i < 16; ++i) {
          for (int t = 0; t < 9; ++t) in[t][i] = 0;
        }
        transform_filter<T>(in, out);
        for (int t = 0; t < 36; ++t) memcpy(u + (t * v.k + k) * v.c + c, out[t], sizeof(T) * static_cast<size_t>(m));
      }
    }
  });
}

// The pixels of one channel under tile rows [first, last), as 36 planes of `plane` tiles.
template <class T>
void gather_tiles(const Convolution& v, const Tiles& t, const T* x, int64_t c, int64_t first, int64_t last, T* d,
                  int64_t plane, T* row_buffer) {
  const int64_t height = v.size[1], width = v.size[2], row_size = 4 * t.across + 2;
  const int64_t offset = v.padding[2] < row_size ? v.padding[2] : row_size;
  const int64_t copied = width < row_size - offset ? width : row_size - offset;
  for (int64_t i = 0; i < offset; ++i) row_buffer[i] = 0;
  for (int64_t i = offset + copied; i < row_size; ++i) row_buffer[i] = 0;
  for (int64_t row = first; row < last; ++row) {
    const T* image = x + (row / t.down * v.c + c) * height * width;
    T* to = d + (row - first) * t.across;
    for (int64_t r = 0; r < 6; ++r) {
      const int64_t y = row % t.down * 4 + r - v.padding[1];
      if (y < 0 || y >= height) {
        for (int j = 0; j < 6; ++j) memset(to + (6 * r + j) * plane, 0, sizeof(T) * static_cast<size_t>(t.across));
        continue;
      }
      memcpy(row_buffer + offset, image + y * width, sizeof(T) * static_cast<size_t>(copied));
      nn_kernels<T>().split_row_overlapping(row_buffer, to + 6 * r * plane, t.across, plane);
    }
  }
}

template <class T>
void zero_tail(T* planes, int n, int64_t plane, int64_t tile_count) {
  for (int p = 0; p < n && tile_count < plane; ++p)
    memset(planes + p * plane + tile_count, 0, sizeof(T) * static_cast<size_t>(plane - tile_count));
}

template <class T>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, int64_t ldb, bool rotated, T beta) {
  Gemm<T> g;
  g.a = a;
  g.b = b;
  g.c = c;
  g.m = m;
  g.n = n;
  g.k = k;
  g.lda = k;
  g.ldb = ldb;
  g.ldc = n;
  g.a_transposed = false;
  g.b_transposed = rotated;
  g.beta = beta;
  blas_gemm(g);
}

}  // namespace

bool is_winograd(const Convolution& v) {
  const bool square = v.size[0] == 1 && v.kernel[0] == 1 && v.kernel[1] == 3 && v.kernel[2] == 3;
  const bool is_supported =
      v.stride[1] == 1 && v.stride[2] == 1 && v.dilation[1] == 1 && v.dilation[2] == 1 && v.padding[0] == 0 && v.groups == 1;
  const bool worthwhile = v.c >= 16 && v.k >= 16 && v.out_size[1] >= 4 && v.out_size[2] >= 4 && v.out_size[2] <= 1024;
  return square && is_supported && worthwhile && v.n * v.out_size[1] * v.out_size[2] >= 256;
}

template <class T>
void winograd(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool rotated) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  std::unique_ptr<T[]> u(new T[static_cast<size_t>(36 * v.k * v.c)]);
  transform_filters(v, w, u.get(), rotated);
  int64_t max_tiles = kMaxElements / 36 / (v.c + v.k);  // tiles in a piece
  max_tiles = max_tiles < 32 ? 32 : max_tiles > 96 ? 96 : max_tiles;
  const int64_t rows = max_tiles / t.across ? max_tiles / t.across : 1, plane = round_up(rows * t.across);
  const int64_t height = v.out_size[1], width = v.out_size[2];
  ranges(t.rows, rows, [&](int64_t first, int64_t last) {
    const int64_t tile_count = (last - first) * t.across, n = round_up(tile_count);
    T* vs = scratch.get<T>(36 * plane * (v.c + v.k + 2) + 8 * t.across + 64);
    T* ms = vs + 36 * v.c * n;
    T* d = ms + 36 * v.k * n;
    T* out = d + 36 * n;
    T* row_buffer = out + 16 * n;
    zero_tail(d, 36, n, tile_count);
    for (int64_t c = 0; c < v.c; ++c) {
      gather_tiles(v, t, x, c, first, last, d, n, row_buffer);
      kernels_.transform_input(d, vs + c * n, n, n, v.c * n);
    }
    for (int p = 0; p < 36; ++p)
      multiply<T>(u.get() + p * v.k * v.c, vs + p * v.c * n, ms + p * v.k * n, v.k, n, v.c, n, false, T(0));
    for (int64_t k = 0; k < v.k; ++k) {
      kernels_.transform_output(ms + k * n, out, n, v.k * n, n);
      for (int64_t row = first; row < last; ++row) {
        T* image = y + (row / t.down * v.k + k) * height * width;
        for (int64_t r = 0; r < 4 && row % t.down * 4 + r < height; ++r) {
          kernels_.merge_row(out + 4 * r * n + (row - first) * t.across, row_buffer, t.across, n, bias ? bias[k] : T(0));
          memcpy(image + (row % t.down * 4 + r) * width, row_buffer, sizeof(T) * static_cast<size_t>(width));
        }
      }
    }
  });
}

template <class T>
void winograd_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  const int64_t height = v.out_size[1], width = v.out_size[2];
  int64_t rows = 256 / t.across;
  rows = rows < 1 ? 1 : rows > t.rows ? t.rows : rows;
  const int64_t plane = round_up(rows * t.across);
  std::unique_ptr<T[]> u(new T[static_cast<size_t>(36 * v.k * v.c)]);
  std::unique_ptr<T[]> planes(new T[static_cast<size_t>(36 * plane * (v.c + v.k))]);
  T *vs = planes.get(), *ms = vs + 36 * plane * v.c;
  for (int64_t first = 0; first < t.rows; first += rows) {
    const int64_t last = first + rows < t.rows ? first + rows : t.rows;
    const int64_t tile_count = (last - first) * t.across, n = round_up(tile_count);
    ranges(v.c + v.k, 4, [&](int64_t start, int64_t stop) {
      T* d = scratch.get<T>(36 * plane + 8 * t.across + 64);
      T* row_buffer = d + 36 * n;
      for (int64_t i = start; i < stop; ++i) {
        zero_tail(d, 36, n, tile_count);
        if (i < v.c) {
          gather_tiles(v, t, x, i, first, last, d, n, row_buffer);
          kernels_.transform_input(d, vs + i * n, n, n, v.c * n);
          continue;
        }
        const int64_t k = i - v.c;
        for (int64_t j = 0; j < 4 * t.across; ++j) row_buffer[j] = 0;
        for (int64_t row = first; row < last; ++row) {
          const T* image = y + (row / t.down * v.k + k) * height * width;
          T* to = d + (row - first) * t.across;
          for (int64_t r = 0; r < 4; ++r) {
            const int64_t at = row % t.down * 4 + r;
            if (at < height) {
              memcpy(row_buffer, image + at * width, sizeof(T) * static_cast<size_t>(width));
              kernels_.split_row(row_buffer, to + 4 * r * n, t.across, n);
            } else {
              for (int j = 0; j < 4; ++j) memset(to + (4 * r + j) * n, 0, sizeof(T) * static_cast<size_t>(t.across));
            }
          }
        }
        kernels_.transform_output_adjoint(d, ms + k * n, n, n, v.k * n);
      }
    });
    slices(36, [&](int64_t p) {
      multiply<T>(ms + p * v.k * n, vs + p * v.c * n, u.get() + p * v.k * v.c, v.k, v.c, n, n, true, first ? T(1) : T(0));
    });
  }
  ranges(v.k, 1 + 4096 / v.c, [&](int64_t start, int64_t stop) {
    T in[36][16], out[9][16];
    for (int64_t k = start; k < stop; ++k) {
      for (int64_t c = 0; c < v.c; c += 16) {
        const int64_t m = v.c - c < 16 ? v.c - c : 16;
        for (int p = 0; p < 36; ++p) {
          for (int i = 0; i < 16; ++i) in[p][i] = i < m ? u[static_cast<size_t>((p * v.k + k) * v.c + c + i)] : T(0);
        }
        transform_filter_adjoint<T>(in, out);
        for (int64_t i = 0; i < m; ++i) {
          for (int s = 0; s < 9; ++s) w[(k * v.c + c + i) * 9 + s] = out[s][i];
        }
      }
    }
  });
}

template void winograd(const Convolution&, const float*, const float*, const float*, float*, bool);
template void winograd(const Convolution&, const double*, const double*, const double*, double*, bool);
template void winograd_backward_weight(const Convolution&, const float*, const float*, float*);
template void winograd_backward_weight(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
