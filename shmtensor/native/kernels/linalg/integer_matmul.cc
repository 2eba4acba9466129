#include "kernels/linalg/integer_matmul.h"

#include <vector>

#include "math/function_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kRows = 32, kColumns = 256, kDepth = 256;  // of a tile: its part of b stays in L2
constexpr int64_t kWorth = 65536;                           // multiply-adds a thread is worth
constexpr int64_t kPiece = 32768;                           // elements of a long sum of products

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// A product whose b lies in rows, as its kernel wants it.
template <class T>
struct InRows {
  Gemm<T> g;
  std::vector<T> turned;  // b, where its memory holds the transpose

  explicit InRows(const Gemm<T>& given) : g(given) {
    if (g.n == 1 && g.ldc == 1 && g.m > 1 && g.a_transposed) {  // c^T = b^T a^T: rows of a's memory
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
    if (g.n == 1) {  // a line of memory is a column
      g.ldb = 1;
      return;
    }
    turned.resize(static_cast<size_t>(g.n * g.k));
    for (int64_t j = 0; j < g.n; ++j)
      for (int64_t k = 0; k < g.k; ++k) turned[static_cast<size_t>(k * g.n + j)] = g.b[j * g.ldb + k];
    g.b = turned.data();
    g.ldb = g.n;
  }

  // Rows [i, i + m) and columns [j, j + n) of the result.
  void tile(int64_t i, int64_t m, int64_t j, int64_t n) const {
    const int64_t row = g.a_transposed ? 1 : g.lda, step = g.a_transposed ? g.lda : 1;
    const int64_t depth = g.n == 1 ? g.k : kDepth;
    for (int64_t k = 0; k < g.k; k += depth)
      matrix_products<T>()(g.a + i * row + k * step, row, step, g.b + k * g.ldb + j, g.ldb,
                          g.c + i * g.ldc + j, g.ldc, m, n, least(depth, g.k - k),
                          k > 0 || g.beta != T(0));
  }
};

// One sum of products, in pieces.
template <class T>
void sum_of_products(const InRows<T>& w) {
  const Gemm<T>& g = w.g;
  const int64_t step = g.a_transposed ? g.lda : 1, pieces = (g.k + kPiece - 1) / kPiece;
  std::vector<T> parts(static_cast<size_t>(pieces));
  slices(pieces, [&](int64_t p) {
    const int64_t k = p * kPiece;
    matrix_products<T>()(g.a + k * step, 0, step, g.b + k * g.ldb, g.ldb,
                        &parts[static_cast<size_t>(p)], 1, 1, 1, least(kPiece, g.k - k), false);
  });
  uint64_t total = g.beta != T(0) ? *g.c : 0;
  for (const T part : parts) total += part;
  *g.c = static_cast<T>(total);
}

template <class T>
void cut(const Gemm<T>& given) {
  const InRows<T> w(given);
  const Gemm<T>& g = w.g;
  if (g.m == 1 && g.n == 1 && g.k > kPiece) return sum_of_products(w);
  const int64_t across = (g.n + kColumns - 1) / kColumns, down = (g.m + kRows - 1) / kRows;
  const int64_t work = least(kRows, g.m) * least(kColumns, g.n) * g.k;
  ranges(across * down, 1 + kWorth / work, [&](int64_t t, int64_t stop) {
    for (; t < stop; ++t) {
      const int64_t i = t / across * kRows, j = t % across * kColumns;
      w.tile(i, least(kRows, g.m - i), j, least(kColumns, g.n - j));
    }
  });
}

}  // namespace

#define WHOLE(T)                      \
  void blas_gemm(const Gemm<T>& g) {  \
    const InRows<T> w(g);              \
    w.tile(0, w.g.m, 0, w.g.n);       \
  }                                   \
  template <>                         \
  void gemm(const Gemm<T>& g) {       \
    cut(g);                           \
  }
WHOLE(uint8_t)
WHOLE(uint16_t)
WHOLE(uint32_t)
WHOLE(uint64_t)
#undef WHOLE

}  // namespace shmtensor
