// A tile of the result, 12 rows by 32 columns, stays in registers during a sum over pairs: VDPBF16PS adds two products
// of 16-bit numbers to each of 16 sums of float32.
//
// A block of the depth is packed first, so that a pair is 32 bits: of A, rows of pairs, which are broadcast; of B,
// panels of 32 columns, each the pairs of its columns, depth by depth. Packing reads matrices in either order and fills
// up with zeros. Sums that continue in the next block are kept in float32.
#include "kernels/linalg/bfloat16_gemm.h"

#include <cstdlib>

#include "simd/cpu_capability.h"
#include "threading/scratch.h"
#include "threading/thread_pool.h"

#if defined(__x86_64__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns inside its own AVX-512 header
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

// Each function that uses the instruction is compiled for it; no other code of this file is.
#define BF16 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")))
#define BF16_INLINE BF16 inline __attribute__((always_inline))

namespace shmtensor {
namespace {

constexpr int64_t kLanes = 16;               // columns of a vector of pairs
constexpr int64_t kPanel = 2 * kLanes;       // columns of a panel of B
constexpr int kTileRows = 12;                // with two vectors of columns: 24 of 32 registers are sums
constexpr int64_t kDepth = 512;              // numbers of a block of the depth: a panel of B fills 32 KB
constexpr int64_t kSide = 256;               // rows and columns of a tile for one thread: its blocks fit in L2
constexpr int64_t kPad = 32;                 // numbers behind a row of A, so that rows are not in one set of the cache

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// n in equal parts of at most `most`, each a multiple of `step`.
int64_t part_of(int64_t n, int64_t most, int64_t step) {
  const int64_t parts = (n + most - 1) / most;
  return round_up((n + parts - 1) / parts, step);
}

BF16_INLINE __mmask16 first16(int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1); }
BF16_INLINE __mmask32 first32(int64_t n) { return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : (1u << n) - 1; }

// Transposes 16 x 16 pairs: first within 4 x 4 blocks, then the blocks.
BF16_INLINE void transpose(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]), b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]), d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xDD);
    const __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xDD);
    r[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
}

// 16 pairs of the depth for 16 columns, as vectors of one pair for all columns.
BF16_INLINE void load_pairs(const Bfloat16* x, int64_t ld, int64_t columns, int64_t depth, __m512i* pairs) {
  const __mmask32 mask = first32(depth);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) pairs[i] = i < columns ? _mm512_maskz_loadu_epi16(mask, x + i * ld) : _mm512_setzero_si512();
  transpose(pairs);
}

// Panels of 32 columns of B whose columns are contiguous in memory; `pairs` is a multiple of 16.
BF16 void pack_columns(const Bfloat16* b, int64_t ldb, int64_t depth, int64_t columns, int64_t pairs, uint32_t* out) {
  for (int64_t j = 0; j < columns; j += kPanel, out += pairs * kPanel) {
    for (int64_t half = 0; half < kPanel; half += kLanes) {
      const int64_t at = j + half, count = min(kLanes, columns - at);
      if (count <= 0) break;  // its vector of columns is not read
      for (int64_t p = 0; p < pairs; p += 16) {
        __m512i block[16];
        load_pairs(b + at * ldb + 2 * p, ldb, count, depth - 2 * p, block);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + (p + i) * kPanel + half, block[i]);
      }
    }
  }
}

// The same of B whose rows are contiguous, or of A whose columns are: a pair of the depth at a time, so that each page
// is read once.
BF16 void pack_rows(const Bfloat16* b, int64_t ldb, int64_t depth, int64_t columns, int64_t pairs, uint32_t* out) {
  alignas(64) uint16_t order[2][32];
  for (int i = 0; i < 32; ++i) {
    order[0][i] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
    order[1][i] = static_cast<uint16_t>(order[0][i] + 16);
  }
  const __m512i left = _mm512_load_si512(order[0]), right = _mm512_load_si512(order[1]);
  for (int64_t p = 0; p < (depth + 1) / 2; ++p, out += kPanel) {
    const Bfloat16 *low = b + 2 * p * ldb, *high = low + ldb;
    for (int64_t j = 0; j < columns; j += kPanel) {
      const __mmask32 mask = first32(columns - j);
      const __m512i x = _mm512_maskz_loadu_epi16(mask, low + j);
      const __m512i y = _mm512_maskz_loadu_epi16(2 * p + 1 < depth ? mask : 0, high + j);
      _mm512_storeu_si512(out + j * pairs, _mm512_permutex2var_epi16(x, left, y));
      _mm512_storeu_si512(out + j * pairs + kLanes, _mm512_permutex2var_epi16(x, right, y));
    }
  }
}

// Rows of A, `pitch` numbers apart, filled up to a multiple of 32 numbers.
BF16 void copy_rows(const Bfloat16* a, int64_t lda, int64_t rows, int64_t depth, Bfloat16* out, int64_t pitch) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < depth; k += 32)
      _mm512_storeu_si512(out + i * pitch + k, _mm512_maskz_loadu_epi16(first32(depth - k), a + i * lda + k));
  }
}

// Where a tile's sums begin and end: `sums` holds those of the blocks before and after; null: there are none.
struct Tile {
  const Bfloat16* a;
  int64_t a_row, a_pair;  // from row to row, from pair to pair
  const uint32_t* b;
  int64_t pairs;
  float* sums;
  int64_t ldsums;
  bool first, last;
  bool adds;  // to what c holds
  Bfloat16* c;
  int64_t ldc, columns;
};

template <int kRows, int kVectors>
BF16 void multiply_tile(const Tile& t) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const Bfloat16* a = t.a;
  const uint32_t* b = t.b;
  const int64_t a_row = t.a_row, a_pair = t.a_pair;
  for (int64_t p = 0; p < t.pairs; ++p, a += a_pair, b += kPanel) {
    __m512i columns[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(b + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, a + r * a_row, 4);
      const __m512i both = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)both, (__m512bh)columns[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const __mmask16 mask = first16(t.columns - v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      __m512 sum = sums[r][v];
      float* kept = t.sums + r * t.ldsums + v * kLanes;
      Bfloat16* c = t.c + r * t.ldc + v * kLanes;
      if (!t.first) {
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(kept));
      } else if (t.adds) {
        const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, c)), 16);
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(bits));
      }
      if (t.last) {
        _mm256_mask_storeu_epi16(c, mask, (__m256i)_mm512_cvtneps_pbh(sum));
      } else {
        _mm512_storeu_ps(kept, sum);
      }
    }
  }
}

using TileFunction = void (*)(const Tile&);
template <int kVectors>
constexpr TileFunction tiles[kTileRows + 1] = {
    nullptr,
    multiply_tile<1, kVectors>,
    multiply_tile<2, kVectors>,
    multiply_tile<3, kVectors>,
    multiply_tile<4, kVectors>,
    multiply_tile<5, kVectors>,
    multiply_tile<6, kVectors>,
    multiply_tile<7, kVectors>,
    multiply_tile<8, kVectors>,
    multiply_tile<9, kVectors>,
    multiply_tile<10, kVectors>,
    multiply_tile<11, kVectors>,
    multiply_tile<12, kVectors>,
};

// The sums of one row of A and `columns` columns of B whose numbers are contiguous.
template <int kColumns>
BF16 void dot_columns(const Bfloat16* a, const Bfloat16* b, int64_t ldb, int64_t depth, bool adds, Bfloat16* c) {
  __m512 sums[kColumns][2];
  for (int j = 0; j < kColumns; ++j) sums[j][0] = sums[j][1] = _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; k += 64) {
    const __mmask32 low = first32(depth - k), high = first32(depth - k - 32);
    const __m512bh x = (__m512bh)_mm512_maskz_loadu_epi16(low, a + k);
    const __m512bh y = (__m512bh)_mm512_maskz_loadu_epi16(high, a + k + 32);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const Bfloat16* column = b + j * ldb + k;
      sums[j][0] = _mm512_dpbf16_ps(sums[j][0], x, (__m512bh)_mm512_maskz_loadu_epi16(low, column));
      sums[j][1] = _mm512_dpbf16_ps(sums[j][1], y, (__m512bh)_mm512_maskz_loadu_epi16(high, column + 32));
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    const float sum = _mm512_reduce_add_ps(_mm512_add_ps(sums[j][0], sums[j][1]));
    c[j] = Bfloat16(adds ? sum + float(c[j]) : sum);
  }
}

// A product with one row, whose numbers are contiguous, and a matrix B^T: memory is read once, without packing.
bool is_row(const Gemm<Bfloat16>& g) { return g.m == 1 && g.b_transposed && (!g.a_transposed || g.lda == 1 || g.k == 1); }

void multiply_row(const Gemm<Bfloat16>& g) {
  const bool adds = float(g.beta) != 0;
  int64_t j = 0;
  for (; j + 4 <= g.n; j += 4) dot_columns<4>(g.a, g.b + j * g.ldb, g.ldb, g.k, adds, g.c + j);
  for (; j < g.n; ++j) dot_columns<1>(g.a, g.b + j * g.ldb, g.ldb, g.k, adds, g.c + j);
}

// With one column the transposed product has one row.
Gemm<Bfloat16> row_form(Gemm<Bfloat16> g) {
  if (g.n != 1 || g.m == 1 || g.ldc != 1) return g;
  const Gemm<Bfloat16> h = g;
  g.a = h.b, g.b = h.a;
  g.m = 1, g.n = h.m;
  g.lda = h.ldb, g.ldb = h.lda, g.ldc = h.m;
  g.a_transposed = !h.b_transposed;
  g.b_transposed = !h.a_transposed;
  return g;
}

}  // namespace

bool has_bfloat16_gemm() {
  static const bool has = uses_avx512_bf16();
  return has;
}

void blas_gemm(const Gemm<Bfloat16>& product) {
  const Gemm<Bfloat16> g = row_form(product);
  if (is_row(g)) return multiply_row(g);
  const int64_t depth = part_of(g.k, kDepth, 32), pairs = depth / 2, pitch = depth + kPad;
  const int64_t width = round_up(g.n, kPanel), a_size = (g.a_transposed ? round_up(g.m, kPanel) * depth : g.m * pitch) * 2;
  const int64_t b_size = width * depth * 2, sums_size = depth < g.k ? g.m * width * 4 : 0;
  char* memory = scratch.get<char>(round_up(a_size, 64) + b_size + sums_size);
  auto* a = reinterpret_cast<Bfloat16*>(memory);
  auto* b = reinterpret_cast<uint32_t*>(memory + round_up(a_size, 64));
  auto* sums = reinterpret_cast<float*>(memory + round_up(a_size, 64) + b_size);
  const int64_t group = g.a_transposed ? kPanel : g.m;  // rows that are equally far apart
  Tile t{};
  t.a_row = g.a_transposed ? 2 : pitch;
  t.a_pair = g.a_transposed ? 2 * kPanel : 2;
  t.ldsums = width;
  t.ldc = g.ldc;
  t.adds = float(g.beta) != 0;
  for (int64_t k = 0; k < g.k; k += depth) {
    const int64_t count = min(depth, g.k - k);
    g.a_transposed ? pack_rows(g.a + k * g.lda, g.lda, count, g.m, pairs, reinterpret_cast<uint32_t*>(a))
                   : copy_rows(g.a + k, g.lda, g.m, count, a, pitch);
    g.b_transposed ? pack_columns(g.b + k, g.ldb, count, g.n, pairs, b)
                   : pack_rows(g.b + k * g.ldb, g.ldb, count, g.n, pairs, b);
    t.first = k == 0;
    t.last = k + depth >= g.k;
    t.pairs = (count + 1) / 2;
    for (int64_t j = 0; j < g.n; j += kPanel) {
      t.b = b + j * pairs;
      t.columns = g.n - j;
      const TileFunction* run = t.columns > kLanes ? tiles<2> : tiles<1>;
      for (int64_t start = 0; start < g.m; start += group) {
        const int64_t rows = min(group, g.m - start), blocks = (rows + kTileRows - 1) / kTileRows;
        for (int64_t i = 0; i < blocks; ++i) {  // of nearly the same height
          const int64_t row = i * rows / blocks, end = (i + 1) * rows / blocks;
          t.a = a + start * (g.a_transposed ? depth : pitch) + row * t.a_row;
          t.sums = sums + (start + row) * width + j;
          t.c = g.c + (start + row) * g.ldc + j;
          run[end - row](t);
        }
      }
    }
  }
}

template <>
void gemm(const Gemm<Bfloat16>& product) {
  constexpr double kMinParallelWork = 2e6;  // multiply-adds from which on threads pay
  const Gemm<Bfloat16> g = row_form(product);
  const double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if (is_row(g)) {
    ranges(g.n, 4 * (1 + 32768 / g.k), [&](int64_t start, int64_t stop) {
      Gemm<Bfloat16> tile = g;
      tile.n = stop - start;
      tile.b += start * g.ldb;
      tile.c += start;
      multiply_row(tile);
    });
    return;
  }
  if (work < kMinParallelWork) return blas_gemm(g);
  // 16 tiles or more of large products, 2 of small ones: the longer side is divided, B's columns rather than A's rows,
  // because packing B takes longer.
  int64_t tiles = work >= 1024.0 * 1024 * 1024 ? 16 : work >= 512.0 * 512 * 512 ? 4 : 2;
  int64_t rows = g.m, columns = g.n;
  for (; tiles > 1; tiles /= 2) (rows > 2 * columns ? rows : columns) /= 2;
  const int64_t side = g.k <= kDepth / 2 ? 2 * kSide : kSide;
  const int64_t tm = part_of(g.m, min(side, round_up(rows, kTileRows)), kTileRows);
  const int64_t tn = part_of(g.n, min(side, round_up(columns, kPanel)), kPanel);
  const int64_t nm = (g.m + tm - 1) / tm, nn = (g.n + tn - 1) / tn;
  slices(nm * nn, [&](int64_t i) {
    const int64_t m0 = i / nn * tm, n0 = i % nn * tn;
    Gemm<Bfloat16> tile = g;
    tile.m = min(tm, g.m - m0);
    tile.n = min(tn, g.n - n0);
    tile.a += g.a_transposed ? m0 : m0 * g.lda;
    tile.b += g.b_transposed ? n0 * g.ldb : n0;
    tile.c += m0 * g.ldc + n0;
    blas_gemm(tile);
  });
}

}  // namespace shmtensor

#else

namespace shmtensor {

bool has_bfloat16_gemm() { return false; }
void blas_gemm(const Gemm<Bfloat16>&) { abort(); }
template <>
void gemm(const Gemm<Bfloat16>&) {
  abort();
}

}  // namespace shmtensor

#endif
