// Products of matrices that fit in the first-level cache, and tiles of larger ones. Included inside a level's
// namespace, after vector.simd.h.
//
// Four rows of the result by up to two vectors stay in registers during the loop over k. Integers are unsigned: they
// wrap around on overflow.

template <class T, int kBytes, int kVectors, int kRows>
INLINE void gemm_strip(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t depth,
                       bool add) {
  typedef T Wide __attribute__((vector_size(kBytes)));
  typedef T Loose __attribute__((vector_size(kBytes), aligned(1), may_alias));
  constexpr int kL = kBytes / static_cast<int>(sizeof(T));
  Wide acc[kRows][kVectors] = {};
  if (add) {
    for (int r = 0; r < kRows; ++r)
      for (int s = 0; s < kVectors; ++s) acc[r][s] = *reinterpret_cast<const Loose*>(c + r * ldc + s * kL);
  }
  for (int64_t k = 0; k < depth; ++k, a += step, b += ldb) {
    Wide b_row[kVectors];
    for (int s = 0; s < kVectors; ++s) b_row[s] = *reinterpret_cast<const Loose*>(b + s * kL);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Wide v = a[r * row] - Wide{};  // x - 0 is x; x + 0 would change -0
      for (int s = 0; s < kVectors; ++s) acc[r][s] += v * b_row[s];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int s = 0; s < kVectors; ++s) *reinterpret_cast<Loose*>(c + r * ldc + s * kL) = acc[r][s];
}

// The dot product of a row and a column.
template <class T>
T gemm_dot(const T* a, int64_t step, const T* b, int64_t ldb, int64_t depth) {
  typedef decltype(T() + 0u) W;  // at least unsigned int: promotion to int could overflow
  W sum = 0;
  if (step == 1 && ldb == 1) {
    for (int64_t k = 0; k < depth; ++k) sum += static_cast<W>(a[k]) * static_cast<W>(b[k]);
  } else {
    for (int64_t k = 0; k < depth; ++k) sum += static_cast<W>(a[k * step]) * static_cast<W>(b[k * ldb]);
  }
  return static_cast<T>(sum);
}

template <class T, int kRows>
void gemm_rows(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t n, int64_t depth,
               bool add) {
  constexpr int64_t kL = kWidth / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  for (; j + 2 * kL <= n; j += 2 * kL) gemm_strip<T, kWidth, 2, kRows>(a, row, step, b + j, ldb, c + j, ldc, depth, add);
  for (; j + kL <= n; j += kL) gemm_strip<T, kWidth, 1, kRows>(a, row, step, b + j, ldb, c + j, ldc, depth, add);
  if constexpr (kWidth > 32) {
    for (; j + kL / 2 <= n; j += kL / 2) gemm_strip<T, 32, 1, kRows>(a, row, step, b + j, ldb, c + j, ldc, depth, add);
  }
  if constexpr (kWidth > 16) {
    constexpr int64_t kHalfVector = 16 / static_cast<int64_t>(sizeof(T));
    for (; j + kHalfVector <= n; j += kHalfVector)
      gemm_strip<T, 16, 1, kRows>(a, row, step, b + j, ldb, c + j, ldc, depth, add);
  }
  for (; j < n; ++j) {
    for (int r = 0; r < kRows; ++r) {
      const T sum = gemm_dot(a + r * row, step, b + j, ldb, depth);
      c[r * ldc + j] = static_cast<T>(add ? c[r * ldc + j] + sum : sum);
    }
  }
}

// c (+)= a b: element (i, k) of a at i * row + k * step, b and c in rows.
template <class T>
void matrix_product(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t m, int64_t n,
                    int64_t depth, bool add) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) gemm_rows<T, 4>(a + i * row, row, step, b, ldb, c + i * ldc, ldc, n, depth, add);
  if (i + 2 <= m) {
    gemm_rows<T, 2>(a + i * row, row, step, b, ldb, c + i * ldc, ldc, n, depth, add);
    i += 2;
  }
  for (; i < m; ++i) gemm_rows<T, 1>(a + i * row, row, step, b, ldb, c + i * ldc, ldc, n, depth, add);
}
