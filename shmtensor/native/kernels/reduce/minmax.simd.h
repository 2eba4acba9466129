// Minimum and maximum, and where they are, for every numeric type. Included inside a level's namespace, after
// vector.simd.h.

// Does a win over b? A NaN wins over all numbers; neither of two equal elements wins.
template <class T, bool kLargest>
INLINE bool precedes(T a, T b) {
  return kLargest ? (a > b) | (a != a) : (a < b) | (a != a);
}

// A vector of any number type, at any address.
template <class T>
struct AnyVector {
  typedef T type __attribute__((vector_size(kWidth)));
  typedef T loose __attribute__((vector_size(kWidth), aligned(1), may_alias));
};

template <class T, bool kLargest>
INLINE typename AnyVector<T>::type minmax_vectors(typename AnyVector<T>::type a, typename AnyVector<T>::type b) {
  return (kLargest ? (a > b) | (a != a) : (a < b) | (a != a)) ? a : b;
}

// acc[c] = the minimum or maximum of acc[c] and column c of m rows of `width` columns; four rows at a time, so that acc
// is read and written a quarter as often.
template <class T, bool kLargest>
void minmax_columns(const T* x, T* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  using Loose = typename AnyVector<T>::loose;
  constexpr int64_t kL = kWidth / static_cast<int64_t>(sizeof(T));
  const int64_t full_width = width / kL * kL;
  for (int64_t k = 0; k < m; k += 4) {
    const int64_t rows = m - k < 4 ? m - k : 4;
    const T* from = x + k * stride;
    for (int64_t c = 0; c < full_width; c += kL) {
      typename AnyVector<T>::type t = *reinterpret_cast<const Loose*>(acc + c);
      if (rows == 4) {
#pragma GCC unroll 4
        for (int64_t r = 0; r < 4; ++r)
          t = minmax_vectors<T, kLargest>(*reinterpret_cast<const Loose*>(from + r * stride + c), t);
      } else {
        for (int64_t r = 0; r < rows; ++r)
          t = minmax_vectors<T, kLargest>(*reinterpret_cast<const Loose*>(from + r * stride + c), t);
      }
      *reinterpret_cast<Loose*>(acc + c) = t;
    }
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = from + r * stride;
      for (int64_t c = full_width; c < width; ++c) acc[c] = precedes<T, kLargest>(row[c], acc[c]) ? row[c] : acc[c];
    }
  }
}

// The minimum or maximum of m >= 1 elements: first in lanes, where the last elements may be read twice, then over the
// lanes by halves.
template <class T, bool kLargest>
T minmax(const T* x, int64_t m) {
  constexpr int kL = 256 / static_cast<int>(sizeof(T));
  T best = x[0];
  if (m >= 2 * kL) {
    T acc[kL];
    for (int l = 0; l < kL; ++l) acc[l] = x[l];
    int64_t i = kL;
    for (; i + kL <= m; i += kL) {
      for (int l = 0; l < kL; ++l) acc[l] = precedes<T, kLargest>(x[i + l], acc[l]) ? x[i + l] : acc[l];
    }
    if (i < m) {
      i = m - kL;
      for (int l = 0; l < kL; ++l) acc[l] = precedes<T, kLargest>(x[i + l], acc[l]) ? x[i + l] : acc[l];
    }
#pragma GCC unroll 8
    for (int n = kL / 2; n; n /= 2) {
      for (int l = 0; l < n; ++l) acc[l] = precedes<T, kLargest>(acc[l + n], acc[l]) ? acc[l + n] : acc[l];
    }
    return acc[0];
  }
  using Loose = typename AnyVector<T>::loose;
  constexpr int64_t kV = kWidth / static_cast<int64_t>(sizeof(T));
  if (m >= kV) {
    typename AnyVector<T>::type acc = *reinterpret_cast<const Loose*>(x);
    for (int64_t i = kV; i < m; i += kV) {
      const T* from = i + kV <= m ? x + i : x + m - kV;
      acc = minmax_vectors<T, kLargest>(*reinterpret_cast<const Loose*>(from), acc);
    }
    T lanes[kV];
    *reinterpret_cast<Loose*>(lanes) = acc;
#pragma GCC unroll 8
    for (int64_t n = kV / 2; n; n /= 2) {
      for (int64_t l = 0; l < n; ++l) lanes[l] = precedes<T, kLargest>(lanes[l + n], lanes[l]) ? lanes[l + n] : lanes[l];
    }
    return lanes[0];
  }
  for (int64_t i = 0; i < m; ++i) best = precedes<T, kLargest>(x[i], best) ? x[i] : best;
  return best;
}

// The first index of `value`, which is the minimum or maximum of x.
template <class T>
int64_t find(const T* x, int64_t m, T value) {
  const bool nan = value != value;
  int64_t i = 0;
  for (; i + 64 <= m; i += 64) {
    unsigned is_hit = 0;
    if (nan) {
      for (int l = 0; l < 64; ++l) is_hit |= x[i + l] != x[i + l];
    } else {
      for (int l = 0; l < 64; ++l) is_hit |= x[i + l] == value;
    }
    if (is_hit) break;
  }
  for (; i < m; ++i) {
    if (nan ? x[i] != x[i] : x[i] == value) return i;
  }
  return 0;
}

// As minmax_columns, with the first row of each column's minimum or maximum; `first` is the number of x's first row.
template <class T, bool kLargest>
void argminmax_columns(const T* x, T* __restrict acc, int32_t* __restrict rows, int64_t m, int64_t width, int64_t stride,
                       int32_t first) {
  for (int64_t k = 0; k < m; ++k, x += stride) {
    const int32_t row_number = first + static_cast<int32_t>(k);
    for (int64_t c = 0; c < width; ++c) {
      const bool is_new = precedes<T, kLargest>(x[c], acc[c]) & (acc[c] == acc[c]);
      acc[c] = is_new ? x[c] : acc[c];
      rows[c] = is_new ? row_number : rows[c];
    }
  }
}
