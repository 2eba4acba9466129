// Winograd's convolution: tiles of 4 x 4 results from 6 x 6 pixels, as 36 products of matrices.
//
//   pixels --split_pixels--> d[36][tiles] --transform_input--> V[36][C][tiles]   some tile rows at a time, so that
//   filters -------------------------------------------------> U[36][K][C]       V stays in the cache, and M of
//   M[36] = U[36] V[36] --transform_output--> y[16][tiles] --merge_results-->    some filters, too
//
// The gradient of the filters is the exact adjoint, in two phases: transforms over channels, then products over the 36
// planes, added in the order of the pieces. So results do not depend on the number of threads.
#include <cstring>
#include <vector>

#include "kernels/nn/convolution.h"
#include "kernels/nn/nn_kernel_table.h"
#include "threading/scratch.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGroup = 16;  // the number of tiles side by side is a multiple of this
constexpr int64_t kMaxElements = 1 << 17;  // elements of V
constexpr int64_t kGap = 16;               // elements between planes, which would lie in the same cache sets

int64_t round_up(int64_t n) { return (n + kGroup - 1) / kGroup * kGroup; }

// Memory for the transformed filters, of the calling thread: new pages would cost more than the transform.
thread_local Scratch filter_memory;

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

// The distance of the 36 planes of filters.
int64_t filter_plane(const Convolution& v) { return v.k * v.c + kGap; }

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
        for (int t = 0; t < 36; ++t)
          memcpy(u + t * filter_plane(v) + k * v.c + c, out[t], sizeof(T) * static_cast<size_t>(m));
      }
    }
  });
}

// Calls f(row, next, y, height) for the tile rows [first, last) of each image: its results begin in line y of the image,
// and there are `height` lines of them.
template <class F>
void for_images(const Convolution& v, const Tiles& t, int64_t first, int64_t last, F f) {
  for (int64_t row = first, next; row < last; row = next) {
    next = (row / t.down + 1) * t.down;
    next = next < last ? next : last;
    const int64_t y = row % t.down * 4, rows = 4 * (next - row);
    f(row, next, y, rows < v.out_size[1] - y ? rows : v.out_size[1] - y);
  }
}

// Elements of the zero-padded pixels under some tile rows of an image.
int64_t padded_size(const Tiles& t, int64_t rows) { return (4 * rows + 2) * (4 * t.across + 2) + 64; }

// The pixels of one channel under tile rows [first, last), as 36 planes of `plane` tiles.
template <class T>
void gather_tiles(const Convolution& v, const Tiles& t, const T* x, int64_t c, int64_t first, int64_t last, T* d,
                  int64_t plane, T* padded) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const int64_t height = v.size[1], width = v.size[2], row_size = 4 * t.across + 2;
  const int64_t left = v.padding[2] < row_size ? v.padding[2] : row_size;
  const int64_t copied = width < row_size - left ? width : row_size - left;
  for_images(v, t, first, last, [&](int64_t row, int64_t next, int64_t line, int64_t) {
    const int64_t rows = 4 * (next - row) + 2, y = line - v.padding[1];
    const int64_t top = y < 0 ? (-y < rows ? -y : rows) : 0;
    int64_t bottom = height - y < rows ? height - y : rows;
    bottom = bottom < top ? top : bottom;
    const T* image = x + ((row / t.down * v.c + c) * height + y + top) * width;
    memset(padded, 0, sizeof(T) * static_cast<size_t>(top * row_size));
    kernels_.load_rows(image, width, 1, padded + top * row_size, row_size, bottom - top, left, copied, row_size);
    memset(padded + bottom * row_size, 0, sizeof(T) * static_cast<size_t>((rows - bottom) * row_size));
    kernels_.split_pixels(padded, row_size, next - row, t.across, d + (row - first) * t.across, plane);
  });
}

// For images of few tiles: the pixels of the tiles of one image that are no padding, in planes of `plane` tiles.
std::vector<ConvMove> tile_moves(const Convolution& v, const Tiles& t, int64_t plane) {
  std::vector<ConvMove> moves;
  for (int64_t tile = 0; tile < t.down * t.across; ++tile) {
    for (int64_t p = 0; p < 36; ++p) {
      const int64_t y = tile / t.across * 4 + p / 6 - v.padding[1], x = tile % t.across * 4 + p % 6 - v.padding[2];
      const bool is_inside = y >= 0 && y < v.size[1] && x >= 0 && x < v.size[2];
      if (is_inside) moves.push_back({y * v.size[2] + x, p * plane + tile});
    }
  }
  return moves;
}

template <class T>
void zero_tail(T* planes, int n, int64_t plane, int64_t tile_count) {
  for (int p = 0; p < n && tile_count < plane; ++p)
    memset(planes + p * plane + tile_count, 0, sizeof(T) * static_cast<size_t>(plane - tile_count));
}

// c (m x n) = a (m x k) b (k x n), n a multiple of 16.
template <class T>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) {
  const ConvTap tap = {0, 0};
  ConvTile<T> tile{};
  tile.x = b;
  tile.x_channel = n;
  tile.tap = &tap;
  tile.taps = 1;
  tile.channels = k;
  tile.w = a;
  tile.w_row = k;
  tile.w_channel = 1;
  tile.y = c;
  tile.y_row = n;
  tile.n = n;
  nn_kernels<T>().conv_tiles(tile, m);
}

// c (m x n) += a (m x k) times the transpose of b (n x k), k a multiple of 16.
template <class T>
void multiply_transposed(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, const int64_t* rows_of_b) {
  ConvWeightTile<T> tile{};
  tile.x = b;
  tile.column = rows_of_b;
  tile.columns = n;
  tile.y = a;
  tile.y_row = k;
  tile.planes = 1;
  tile.n = k;
  tile.w = c;
  tile.w_row = n;
  tile.w_column = 1;
  nn_kernels<T>().conv_weight_tiles(tile, m);
}

}  // namespace

bool is_winograd(const Convolution& v) {
  const bool square = v.size[0] == 1 && v.kernel[0] == 1 && v.kernel[1] == 3 && v.kernel[2] == 3;
  const bool is_supported =
      v.stride[1] == 1 && v.stride[2] == 1 && v.dilation[1] == 1 && v.dilation[2] == 1 && v.padding[0] == 0 && v.groups == 1;
  const bool worthwhile = v.c >= 16 && v.k >= 16 && v.out_size[1] >= 4 && v.out_size[2] >= 4 && v.out_size[2] <= 1024;
  return square && is_supported && worthwhile && Tiles(v).rows * Tiles(v).across >= 64 && v.c * v.k <= 1 << 19;
}

template <class T>
void winograd(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool rotated) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  T* u = filter_memory.get<T>(36 * filter_plane(v));
  transform_filters(v, w, u, rotated);
  // Tiles in a piece, and filters whose products are transformed together: V stays in the cache, or if it is too large,
  // one plane of it for many filters.
  int64_t max_tiles = kMaxElements / 36 / v.c;
  const bool is_wide = max_tiles < 10;
  max_tiles = is_wide || max_tiles > 96 ? 96 : max_tiles < 32 ? 32 : max_tiles;
  const int64_t share = t.rows * t.across / 8 < 32 ? 32 : t.rows * t.across / 8;  // of eight pieces
  max_tiles = max_tiles < share ? max_tiles : share;
  const int64_t filters_at_once = is_wide ? 64 : 8;
  const bool is_small = t.down * t.across <= 4;  // pieces of whole images
  int64_t rows = max_tiles / t.across ? max_tiles / t.across : 1;
  if (is_small) rows = rows / t.down * t.down;
  const int64_t plane = round_up(rows * t.across), tiles = t.down * t.across;
  const std::vector<ConvMove> moves = is_small ? tile_moves(v, t, plane) : std::vector<ConvMove>();
  const int64_t pixels = v.size[1] * v.size[2];
  const int64_t height = v.out_size[1], width = v.out_size[2];
  // Filters are divided, too, if there are few pieces; the pixels are then transformed for each block.
  const int64_t pieces = (t.rows + rows - 1) / rows;
  int64_t k_blocks = pieces < 8 ? (8 + pieces - 1) / pieces : 1;
  const int64_t panels = (v.k + filters_at_once - 1) / filters_at_once;
  const int64_t k_block = (panels + k_blocks - 1) / k_blocks * filters_at_once;
  k_blocks = (v.k + k_block - 1) / k_block;
  slices(pieces * k_blocks, [&](int64_t piece) {
    const int64_t first = piece / k_blocks * rows, last = first + rows < t.rows ? first + rows : t.rows;
    const int64_t k_begin = piece % k_blocks * k_block, k_end = k_begin + k_block < v.k ? k_begin + k_block : v.k;
    const int64_t tile_count = (last - first) * t.across, n = round_up(tile_count);
    T* vs = scratch.get<T>(36 * (plane * (v.c + filters_at_once + 2) + 2 * kGap) + padded_size(t, rows));
    const int64_t v_plane = v.c * n + kGap, m_plane = filters_at_once * n + kGap;
    T* ms = vs + 36 * v_plane;
    T* d = ms + 36 * m_plane;
    T* out = d + 36 * plane;
    T* padded = out + 16 * n;
    if (is_small) memset(d, 0, sizeof(T) * static_cast<size_t>(36 * plane));
    zero_tail(d, 36, plane, tile_count);
    for (int64_t c = 0; c < v.c; ++c) {
      if (is_small) {
        const T* image = x + (first / t.down * v.c + c) * pixels;
        move_pixels(moves, image, v.c * pixels, (last - first) / t.down, d, tiles);
      } else {
        gather_tiles(v, t, x, c, first, last, d, plane, padded);
      }
      kernels_.transform_input(d, vs + c * n, n, plane, v_plane);
    }
    for (int64_t k0 = k_begin; k0 < k_end; k0 += filters_at_once) {
      const int64_t filters = k_end - k0 < filters_at_once ? k_end - k0 : filters_at_once;
      for (int p = 0; p < 36; ++p)
        multiply(u + p * filter_plane(v) + k0 * v.c, vs + p * v_plane, ms + p * m_plane, filters, n, v.c);
      for (int64_t k = 0; k < filters; ++k) {
        kernels_.transform_output(ms + k * n, out, n, m_plane, n);
        for_images(v, t, first, last, [&](int64_t row, int64_t, int64_t line, int64_t rows_of_image) {
          T* image = y + ((row / t.down * v.k + k0 + k) * height + line) * width;
          kernels_.merge_results(out + (row - first) * t.across, n, t.across, image, rows_of_image, width,
                                 bias ? bias[k0 + k] : T(0));
        });
      }
    }
  });
}

template <class T>
void winograd_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  const int64_t height = v.out_size[1], width = v.out_size[2];
  const bool is_small = t.down * t.across <= 4;  // pieces of whole images
  int64_t rows = 256 / t.across;
  rows = rows < 1 ? 1 : rows > t.rows ? t.rows : rows;
  if (is_small) rows = rows / t.down * t.down;
  const int64_t plane = round_up(rows * t.across);
  T* u = filter_memory.get<T>(36 * (filter_plane(v) + plane * (v.c + v.k) + 2 * kGap));
  const std::vector<ConvMove> moves = is_small ? tile_moves(v, t, plane) : std::vector<ConvMove>();
  T *vs = u + 36 * filter_plane(v), *ms = vs + 36 * (plane * v.c + kGap);
  for (int64_t first = 0; first < t.rows; first += rows) {
    const int64_t last = first + rows < t.rows ? first + rows : t.rows;
    const int64_t tile_count = (last - first) * t.across, n = round_up(tile_count);
    const int64_t v_plane = v.c * n + kGap, m_plane = v.k * n + kGap;
    ranges(v.c + v.k, 4, [&](int64_t start, int64_t stop) {
      T* d = scratch.get<T>(36 * plane + padded_size(t, rows));
      for (int64_t i = start; i < stop; ++i) {
        zero_tail(d, 36, plane, tile_count);
        if (i < v.c) {
          if (is_small) {
            memset(d, 0, sizeof(T) * static_cast<size_t>(36 * plane));
            const T* image = x + (first / t.down * v.c + i) * v.size[1] * v.size[2];
            move_pixels(moves, image, v.c * v.size[1] * v.size[2], (last - first) / t.down, d, t.down * t.across);
          } else {
            gather_tiles(v, t, x, i, first, last, d, plane, d + 36 * plane);
          }
          kernels_.transform_input(d, vs + i * n, n, plane, v_plane);
          continue;
        }
        const int64_t k = i - v.c;
        for_images(v, t, first, last, [&](int64_t row, int64_t next, int64_t line, int64_t rows_of_image) {
          const T* image = y + ((row / t.down * v.k + k) * height + line) * width;
          kernels_.split_results(image, rows_of_image, width, next - row, t.across, d + (row - first) * t.across, plane);
        });
        kernels_.transform_output_adjoint(d, ms + k * n, n, plane, m_plane);
      }
    });
    std::vector<int64_t> rows_of_v;
    for (int64_t i = 0; i < v.c; ++i) rows_of_v.push_back(i * n);
    slices(36, [&](int64_t p) {
      T* to = u + p * filter_plane(v);
      if (!first) memset(to, 0, sizeof(T) * static_cast<size_t>(v.k * v.c));
      multiply_transposed(ms + p * m_plane, vs + p * v_plane, to, v.k, v.c, n, rows_of_v.data());
    });
  }
  ranges(v.k, 1 + 4096 / v.c, [&](int64_t start, int64_t stop) {
    T in[36][16], out[9][16];
    for (int64_t k = start; k < stop; ++k) {
      for (int64_t c = 0; c < v.c; c += 16) {
        const int64_t m = v.c - c < 16 ? v.c - c : 16;
        for (int p = 0; p < 36; ++p) {
          for (int i = 0; i < 16; ++i) in[p][i] = i < m ? u[p * filter_plane(v) + k * v.c + c + i] : T(0);
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
