// Transposes small blocks in registers.
#pragma once

#include <stdint.h>

#include <cstring>
#include <utility>

namespace shmtensor {

// Interleaves the first halves and the second halves of two vectors.
template <class V, class M, size_t... k>
inline void interleave_halves(const V& x, const V& y, V* low, V* high, std::index_sequence<k...>) {
  constexpr size_t n = sizeof...(k);
  *low = __builtin_shuffle(x, y, M{(k % 2 * n + k / 2)...});
  *high = __builtin_shuffle(x, y, M{(k % 2 * n + k / 2 + n / 2)...});
}

// Transposes a square block of lines of 16 bytes: from[p][q] to out[q][p]. Each of log2(n) steps interleaves the first
// half of the lines with the second.
template <class T>
inline void transpose_block(const char* from, int64_t line, T* out, int64_t row) {
  typedef T V __attribute__((vector_size(16)));
  constexpr int n = 16 / sizeof(T);
  V x[n], y[n];
  for (int p = 0; p < n; ++p) memcpy(&x[p], from + p * line, 16);
  for (int width = n; width > 1; width /= 2) {
    for (int p = 0; p < n / 2; ++p)
      interleave_halves<V, V>(x[p], x[p + n / 2], &y[2 * p], &y[2 * p + 1], std::make_index_sequence<n>());
    for (int p = 0; p < n; ++p) x[p] = y[p];
  }
  for (int q = 0; q < n; ++q) memcpy(out + q * row, &x[q], 16);
}

}  // namespace shmtensor
