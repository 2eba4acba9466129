#include "kernels/linalg/integer_matmul.h"

#include <vector>

#include "math/function_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kRows = 32, kColumns = 256, kDepth = 256;  // sizes of a tile: its part of b stays in L2
constexpr int64_t kGrain = 65536;                           // multiply-adds per slice
constexpr int64_t kPiece = 32768;                           // elements of a piece of a long dot product

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// A product whose b is row-major, as the kernel needs it.
template <class T>
struct RowMajorProduct {
  Gemm<T> g;
  std::vector<T> transposed;  // b in row-major order, if its memory holds the transpose

  explicit RowMajorProduct(const Gemm<T>& product) : g(product) {
    if (g.n == 1 && g.ldc == 1 && g.m > 1 && g.a_transposed) {  // c^T = b^T a^T reads rows of a's memory
      if (g.b_transposed || g.ldb == 1) {
        const Gemm<T> h = g;
        g.a = h.b, g.b = h.a;
        g.m = 1, g.n = h.m;
        g.lda = h.k, g.ldb = h.lda, g.ldc = h.m;
        g.a_transposed = g.b_transposed = false;
        return;
      }
    }
    if (!g.b_transposed) return;
    g.b_transposed = false;
    if (g.n == 1) {  // b's column is contiguous
      g.ldb = 1;
      return;
    }
    transposed.resize(static_cast<size_t>(g.n * g.k));
    for (int64_t j = 0; j < g.n; ++j)
      for (int64_t k = 0; k < g.k; ++k) transposed[static_cast<size_t>(k * g.n + j)] = g.b[j * g.ldb + k];
    g.b = transposed.data();
    g.ldb = g.n;
  }

  // Rows [i, i + m) and columns [j, j + n) of the result.
  void tile(int64_t i, int64_t m, int64_t j, int64_t n) const {
    const int64_t row = g.a_transposed ? 1 : g.lda, step = g.a_transposed ? g.lda : 1;
    const int64_t depth = g.n == 1 ? g.k : kDepth;
    for (int64_t k = 0; k < g.k; k += depth)
      matrix_products<T>()(g.a + i * row + k * step, row, step, g.b + k * g.ldb + j, g.ldb, g.c + i * g.ldc + j, g.ldc, m, n,
                           min(depth, g.k - k), k > 0 || g.beta != T(0));
  }
};

// A single dot product, in pieces.
template <class T>
void dot_in_pieces(const RowMajorProduct<T>& prepared) {
  const Gemm<T>& g = prepared.g;
  const int64_t step = g.a_transposed ? g.lda : 1, pieces = (g.k + kPiece - 1) / kPiece;
  std::vector<T> partials(static_cast<size_t>(pieces));
  slices(pieces, [&](int64_t p) {
    const int64_t k = p * kPiece;
    matrix_products<T>()(g.a + k * step, 0, step, g.b + k * g.ldb, g.ldb, &partials[static_cast<size_t>(p)], 1, 1, 1,
                         min(kPiece, g.k - k), false);
  });
  uint64_t total = g.beta != T(0) ? *g.c : 0;
  for (const T partial : partials) total += partial;
  *g.c = static_cast<T>(total);
}

template <class T>
void multiply_tiled(const Gemm<T>& product) {
  const RowMajorProduct<T> prepared(product);
  const Gemm<T>& g = prepared.g;
  if (g.m == 1 && g.n == 1 && g.k > kPiece) return dot_in_pieces(prepared);
  const int64_t tile_columns = (g.n + kColumns - 1) / kColumns, tile_rows = (g.m + kRows - 1) / kRows;
  const int64_t work = min(kRows, g.m) * min(kColumns, g.n) * g.k;
  ranges(tile_columns * tile_rows, 1 + kGrain / work, [&](int64_t t, int64_t stop) {
    for (; t < stop; ++t) {
      const int64_t i = t / tile_columns * kRows, j = t % tile_columns * kColumns;
      prepared.tile(i, min(kRows, g.m - i), j, min(kColumns, g.n - j));
    }
  });
}

}  // namespace

#define INTEGER_GEMM(T)                              \
  void blas_gemm(const Gemm<T>& g) {                 \
    const RowMajorProduct<T> prepared(g);            \
    prepared.tile(0, prepared.g.m, 0, prepared.g.n); \
  }                                                  \
  template <>                                        \
  void gemm(const Gemm<T>& g) {                      \
    multiply_tiled(g);                               \
  }
INTEGER_GEMM(uint8_t)
INTEGER_GEMM(uint16_t)
INTEGER_GEMM(uint32_t)
INTEGER_GEMM(uint64_t)
#undef INTEGER_GEMM

}  // namespace shmtensor
