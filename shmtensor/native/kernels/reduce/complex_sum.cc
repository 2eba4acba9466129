// Pieces depend on the shape alone and are added in order, as in sum.cc.
#include "kernels/reduce/complex_sum.h"

#include <cstring>

#include "kernels/buffer.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "python.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // real and imaginary parts of a slice
constexpr int64_t kChain = 64;     // rows added in T before they are added in double
constexpr int64_t kShortRow = 24;     // elements of a short row

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// The sum of n complex numbers, in double: 32 numbers side by side are summed as columns.
template <class T>
void sum_complex_run(const T* x, int64_t n, double* total) {
  constexpr int64_t kLanes = 64;
  const int64_t rows = 2 * n / kLanes;
  total[0] = total[1] = 0;
  for (int64_t k = 0; k < rows; k += kChain) {
    T acc[kLanes] = {};
    kernels<T>().sum_columns(x + k * kLanes, acc, min(kChain, rows - k), kLanes, kLanes);
    for (int64_t l = 0; l < kLanes; ++l) total[l % 2] += static_cast<double>(acc[l]);
  }
  for (int64_t i = rows * kLanes; i < 2 * n; ++i) total[i % 2] += static_cast<double>(x[i]);
}

// Sums of short rows: they are transposed in batches and summed as columns.
template <class T>
void sum_short_rows(const T* x, T* out, int64_t rows, int64_t m) {
  constexpr int64_t kBatch = 64;
  for (int64_t o = 0; o < rows; o += kBatch) {
    const int64_t n = min(kBatch, rows - o);
    T tile[2 * kShortRow * kBatch];
    transpose_pairs(x + 2 * o * m, tile, n, m);
    memset(out + 2 * o, 0, sizeof(T) * 2 * static_cast<size_t>(n));
    kernels<T>().sum_columns(tile, out + 2 * o, m, 2 * n, 2 * n);
  }
}

}  // namespace

template <class T>
void transpose_pairs(const T* x, T* out, int64_t rows, int64_t m) {
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t r = 0; r < rows; ++r) {
      *out++ = x[2 * (r * m + k)];
      *out++ = x[2 * (r * m + k) + 1];
    }
  }
}

template void transpose_pairs(const float*, float*, int64_t, int64_t);
template void transpose_pairs(const double*, double*, int64_t, int64_t);

template <class T>
void sum_complex_rows(const T* x, T* out, int64_t outer, int64_t m) {
  constexpr int64_t kPieceLength = kPiece / 2;
  if (m > 0 && m <= kShortRow) {
    return ranges(outer, (kPieceLength + m - 1) / m,
                  [&](int64_t o, int64_t stop) { sum_short_rows(x + 2 * o * m, out + 2 * o, stop - o, m); });
  }
  if (m <= kPieceLength) {
    ranges(outer, m ? (kPieceLength + m - 1) / m : outer, [&](int64_t o, int64_t stop) {
      for (; o < stop; ++o) {
        double total[2];
        sum_complex_run(x + 2 * o * m, m, total);
        out[2 * o] = static_cast<T>(total[0]);
        out[2 * o + 1] = static_cast<T>(total[1]);
      }
    });
    return;
  }
  const int64_t pieces = (m + kPieceLength - 1) / kPieceLength;
  const Buffer<double> buffer(2 * outer * pieces);
  double* partials = buffer.get();
  slices(outer * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPieceLength;
    sum_complex_run(x + 2 * (i / pieces * m + start), min(kPieceLength, m - start), partials + 2 * i);
  });
  for (int64_t i = 0; i < 2 * outer; ++i) {
    double total = 0;
    for (int64_t k = 0; k < pieces; ++k) total += partials[2 * (i / 2 * pieces + k) + i % 2];
    out[i] = static_cast<T>(total);
  }
}

template void sum_complex_rows(const float*, float*, int64_t, int64_t);
template void sum_complex_rows(const double*, double*, int64_t, int64_t);

}  // namespace shmtensor
