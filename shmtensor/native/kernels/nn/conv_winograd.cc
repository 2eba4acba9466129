// Winograd's convolution: tiles of 4 x 4 results from 6 x 6 pixels, as 36 products of matrices.
//
//   pixels --split_pixels--> d[36][tiles] --transform_input--> V[36][C][tiles]
//   filters ------------------------------transform_filters--> U[36][C][filters]
//   M[36] = U[36] V[36] --transform_output--> y[16][tiles] --merge_results--> results
//
// With more tiles than filters, U is made first, then V of some tile rows at a time, which stays in the cache. With fewer
// tiles V is made first, then U of 16 filters at a time.
//
// The gradient of the filters is the exact adjoint, in two phases: transforms over channels, then products over the 36
// planes, added in the order of the pieces; with few tiles, products and transforms of 16 filters at a time. Pieces depend
// on shapes alone, so results do not depend on the number of threads.
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

// Filters are transformed in panels of kGroup side by side: U[panel][36][c][kGroup].
int64_t panels(const Convolution& v) { return (v.k + kGroup - 1) / kGroup; }
int64_t filter_plane(const Convolution& v) { return v.c * kGroup + kGap; }

// Transforms the channels [c, stop) of a panel.
template <class T>
void transform_panel(const Convolution& v, const T* w, int64_t panel, int64_t c, int64_t stop, T* u, bool rotated) {
  const int64_t row = rotated ? 9 : v.c * 9, step = rotated ? v.k * 9 : 9;  // of filters, of channels
  const int64_t k = panel * kGroup, filters = v.k - k < kGroup ? v.k - k : kGroup;
  nn_kernels<T>().transform_filters(w + k * row + c * step, row, step, filters, stop - c, rotated, u + c * kGroup,
                                    filter_plane(v));
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

}  // namespace

bool is_winograd(const Convolution& v) {
  const bool square = v.size[0] == 1 && v.kernel[0] == 1 && v.kernel[1] == 3 && v.kernel[2] == 3;
  const bool is_supported =
      v.stride[1] == 1 && v.stride[2] == 1 && v.dilation[1] == 1 && v.dilation[2] == 1 && v.padding[0] == 0 && v.groups == 1;
  const bool worthwhile = v.c >= 16 && v.k >= 16 && v.out_size[1] >= 4 && v.out_size[2] >= 4 && v.out_size[2] <= 1024;
  return square && is_supported && worthwhile && Tiles(v).rows * Tiles(v).across >= 16 && v.c * v.k <= 1 << 19;
}

template <class T>
void winograd(const Convolution& v, const T* x, const T* w, const T* bias, T* y, bool rotated) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  // Of filters and pixels, the larger transforms are made once and multiplied at once, while they are in the cache.
  const bool filters_first = t.rows * t.across <= v.k;
  // Tiles in a piece, and filters whose products are transformed together: V stays in the cache, or if it is too large,
  // one plane of it for many filters.
  int64_t max_tiles = kMaxElements / 36 / v.c;
  const bool is_wide = max_tiles < 10;
  max_tiles = is_wide || max_tiles > 96 ? 96 : max_tiles < 32 ? 32 : max_tiles;
  const int64_t share = t.rows * t.across / 8 < 32 ? 32 : t.rows * t.across / 8;  // of eight pieces
  max_tiles = filters_first ? 128 : max_tiles < share ? max_tiles : share;
  const int64_t filters_at_once = filters_first ? kGroup : is_wide ? 64 : 8;
  const bool is_small = t.down * t.across <= 4;  // pieces of whole images
  int64_t rows = max_tiles / t.across ? max_tiles / t.across : 1;
  rows = rows < t.rows ? rows : t.rows;
  if (is_small) rows = rows / t.down * t.down;
  const int64_t plane = round_up(rows * t.across), tiles = t.down * t.across;
  const std::vector<ConvMove> moves = is_small ? tile_moves(v, t, plane) : std::vector<ConvMove>();
  const int64_t pixels = v.size[1] * v.size[2];
  const int64_t height = v.out_size[1], width = v.out_size[2];
  const int64_t pieces = (t.rows + rows - 1) / rows;
  const auto first_row = [&](int64_t piece) { return piece * rows < t.rows ? piece * rows : t.rows; };
  const auto tiles_of = [&](int64_t piece) { return (first_row(piece + 1) - first_row(piece)) * t.across; };
  const int64_t v_size = 36 * (v.c * plane + kGap), u_size = 36 * filter_plane(v);
  const int64_t m_size = 36 * (filters_at_once * plane + kGap) + 16 * plane;

  // The transformed pixels of the channels [c, stop) of a piece; `d` is memory for 36 planes and padded pixels.
  const auto transform_pixels = [&](int64_t piece, int64_t c, int64_t stop, T* vs, T* d) {
    const int64_t first = first_row(piece), last = first_row(piece + 1), n = round_up(tiles_of(piece));
    if (is_small) memset(d, 0, sizeof(T) * static_cast<size_t>(36 * plane));
    zero_tail(d, 36, plane, tiles_of(piece));
    for (; c < stop; ++c) {
      if (is_small) {
        const T* image = x + (first / t.down * v.c + c) * pixels;
        move_pixels(moves, image, v.c * pixels, (last - first) / t.down, d, tiles);
      } else {
        gather_tiles(v, t, x, c, first, last, d, plane, d + 36 * plane);
      }
      kernels_.transform_input(d, vs + c * n, n, plane, v.c * n + kGap);
    }
  };
  // The results of the filters [k0, k0 + filters) of a piece; `u` begins with the panel `panel`.
  const auto transform_results = [&](int64_t piece, int64_t k0, int64_t filters, const T* u, int64_t panel, const T* vs,
                                     T* ms) {
    const int64_t first = first_row(piece), last = first_row(piece + 1), n = round_up(tiles_of(piece));
    const int64_t m_plane = filters_at_once * n + kGap;
    T* out = ms + 36 * m_plane;
    for (int p = 0; p < 36; ++p) {
      for (int64_t k = 0, some; k < filters; k += some) {  // of one panel
        const int64_t lane = (k0 + k) % kGroup;
        some = filters - k < kGroup - lane ? filters - k : kGroup - lane;
        const T* from = u + ((k0 + k) / kGroup - panel) * u_size + p * filter_plane(v) + lane;
        multiply_tiles(from, 1, kGroup, vs + p * (v.c * n + kGap), n, ms + p * m_plane + k * n, n, some, n, v.c, false);
      }
    }
    for (int64_t k = 0; k < filters; ++k) {
      kernels_.transform_output(ms + k * n, out, n, m_plane, n);
      for_images(v, t, first, last, [&](int64_t row, int64_t, int64_t line, int64_t rows_of_image) {
        T* image = y + ((row / t.down * v.k + k0 + k) * height + line) * width;
        kernels_.merge_results(out + (row - first) * t.across, n, t.across, image, rows_of_image, width,
                               bias ? bias[k0 + k] : T(0));
      });
    }
  };

  const int64_t d_size = 36 * plane + padded_size(t, rows), groups = (v.c + kGroup - 1) / kGroup;
  if (filters_first) {
    T* vs = filter_memory.get<T>(pieces * v_size);
    slices(pieces * groups, [&](int64_t i) {
      const int64_t c = i % groups * kGroup, stop = c + kGroup < v.c ? c + kGroup : v.c;
      transform_pixels(i / groups, c, stop, vs + i / groups * v_size, scratch.get<T>(d_size));
    });
    slices(panels(v), [&](int64_t panel) {
      T* u = scratch.get<T>(u_size + m_size);
      const int64_t k = panel * kGroup;
      transform_panel(v, w, panel, 0, v.c, u, rotated);
      for (int64_t piece = 0; piece < pieces; ++piece)
        transform_results(piece, k, v.k - k < kGroup ? v.k - k : kGroup, u, panel, vs + piece * v_size, u + u_size);
    });
    return;
  }
  T* u = filter_memory.get<T>(panels(v) * u_size);
  slices(panels(v) * groups, [&](int64_t i) {
    const int64_t c = i % groups * kGroup, stop = c + kGroup < v.c ? c + kGroup : v.c;
    transform_panel(v, w, i / groups, c, stop, u + i / groups * u_size, rotated);
  });
  // Filters are divided, too, if there are few pieces; the pixels are then transformed for each block.
  const int64_t wanted = pieces < 8 ? (8 + pieces - 1) / pieces : 1, units = (v.k + filters_at_once - 1) / filters_at_once;
  const int64_t k_block = (units + wanted - 1) / wanted * filters_at_once, k_blocks = (v.k + k_block - 1) / k_block;
  slices(pieces * k_blocks, [&](int64_t i) {
    T* vs = scratch.get<T>(v_size + m_size + d_size);
    T* ms = vs + v_size;
    const int64_t piece = i / k_blocks, begin = i % k_blocks * k_block, end = begin + k_block < v.k ? begin + k_block : v.k;
    transform_pixels(piece, 0, v.c, vs, ms + m_size);
    for (int64_t k = begin; k < end; k += filters_at_once)
      transform_results(piece, k, end - k < filters_at_once ? end - k : filters_at_once, u, 0, vs, ms);
  });
}

template <class T>
void winograd_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const Tiles t(v);
  const int64_t height = v.out_size[1], width = v.out_size[2], pixels = v.size[1] * v.size[2];
  const bool is_small = t.down * t.across <= 4;  // pieces of whole images
  int64_t rows = 256 / t.across;
  rows = rows < 1 ? 1 : rows > t.rows ? t.rows : rows;
  if (is_small) rows = rows / t.down * t.down;
  const int64_t plane = round_up(rows * t.across), columns = round_up(v.c), groups = columns / kGroup;
  // V[36][tiles][columns] and M[36][k][tiles] of a piece, and their products: [k][c] in 36 planes, which stay in the cache
  // if there is one piece, then one panel of filters at a time, else all of them.
  const bool is_one = rows == t.rows;
  const int64_t v_plane = plane * columns + kGap, m_plane = plane * v.k + kGap;
  const int64_t sum_rows = is_one ? kGroup : v.k, u_plane = sum_rows * columns + kGap;
  T* vs = filter_memory.get<T>(36 * (v_plane + m_plane + (is_one ? 0 : u_plane)));
  T *ms = vs + 36 * v_plane, *u = ms + 36 * m_plane;
  const std::vector<ConvMove> moves = is_small ? tile_moves(v, t, plane) : std::vector<ConvMove>();
  for (int64_t first = 0; first < t.rows; first += rows) {
    const int64_t last = first + rows < t.rows ? first + rows : t.rows;
    const int64_t tile_count = (last - first) * t.across, n = round_up(tile_count);
    slices(groups + (v.k + 3) / 4, [&](int64_t i) {
      T* d = scratch.get<T>(36 * plane + padded_size(t, rows) + 36 * (kGroup * n + kGap));
      zero_tail(d, 36, plane, tile_count);
      if (i < groups) {
        T* lines = d + 36 * plane + padded_size(t, rows);  // [36][kGroup][n]
        const int64_t c = i * kGroup, channels = v.c - c < kGroup ? v.c - c : kGroup, line_plane = kGroup * n + kGap;
        if (is_small) memset(d, 0, sizeof(T) * static_cast<size_t>(36 * plane));
        for (int64_t j = 0; j < channels; ++j) {
          if (is_small) {
            const T* image = x + (first / t.down * v.c + c + j) * pixels;
            move_pixels(moves, image, v.c * pixels, (last - first) / t.down, d, t.down * t.across);
          } else {
            gather_tiles(v, t, x, c + j, first, last, d, plane, d + 36 * plane);
          }
          kernels_.transform_input(d, lines + j * n, n, plane, line_plane);
        }
        for (int p = 0; p < 36; ++p)
          kernels_.transpose(lines + p * line_plane, n, channels, n, vs + p * v_plane + c, columns, kGroup);
        return;
      }
      const int64_t k0 = (i - groups) * 4;
      for (int64_t k = k0; k < v.k && k < k0 + 4; ++k) {
        for_images(v, t, first, last, [&](int64_t row, int64_t next, int64_t line, int64_t rows_of_image) {
          const T* image = y + ((row / t.down * v.k + k) * height + line) * width;
          kernels_.split_results(image, rows_of_image, width, next - row, t.across, d + (row - first) * t.across, plane);
        });
        kernels_.transform_output_adjoint(d, ms + k * n, n, plane, m_plane);
      }
    });
    if (is_one) {
      slices(panels(v), [&](int64_t panel) {
        T* sums = scratch.get<T>(36 * u_plane);
        const int64_t k = panel * kGroup, filters = v.k - k < kGroup ? v.k - k : kGroup;
        for (int p = 0; p < 36; ++p)
          multiply_tiles(ms + p * m_plane + k * n, n, 1, vs + p * v_plane, columns, sums + p * u_plane, columns, filters,
                         columns, tile_count, false);
        for (int64_t r = 0; r < filters; ++r)
          kernels_.transform_filters_adjoint(sums + r * columns, u_plane, v.c, w + (k + r) * v.c * 9);
      });
      return;
    }
    slices(36, [&](int64_t p) {
      multiply_tiles(ms + p * m_plane, n, 1, vs + p * v_plane, columns, u + p * u_plane, columns, v.k, columns, tile_count,
                     first > 0);
    });
  }
  ranges(v.k, 1 + 4096 / v.c, [&](int64_t k, int64_t stop) {
    for (; k < stop; ++k) kernels_.transform_filters_adjoint(u + k * columns, u_plane, v.c, w + k * v.c * 9);
  });
}

template void winograd(const Convolution&, const float*, const float*, const float*, float*, bool);
template void winograd(const Convolution&, const double*, const double*, const double*, double*, bool);
template void winograd_backward_weight(const Convolution&, const float*, const float*, float*);
template void winograd_backward_weight(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
