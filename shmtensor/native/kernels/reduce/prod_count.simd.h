// Sums of integers, products and counts, in a wide accumulator. Included inside a level's namespace, after
// prod_float32.simd.h. Integers are added and multiplied as uint64_t, which wraps as int64 does.

template <class T>
struct Unsigned;
template <>
struct Unsigned<float> {
  typedef uint32_t type;
};
template <>
struct Unsigned<double> {
  typedef uint64_t type;
};
#define UNSIGNED(T, U) \
  template <>          \
  struct Unsigned<T> { \
    typedef U type;    \
  };
UNSIGNED(int8_t, uint8_t)
UNSIGNED(uint8_t, uint8_t)
UNSIGNED(int16_t, uint16_t)
UNSIGNED(uint16_t, uint16_t)
UNSIGNED(int32_t, uint32_t)
UNSIGNED(uint32_t, uint32_t)
UNSIGNED(int64_t, uint64_t)
UNSIGNED(uint64_t, uint64_t)
#undef UNSIGNED

template <class T>
constexpr bool kIsFloating = T(1) / T(2) != T(0);

// Counts in lanes as wide as the elements, which are emptied before they overflow.
template <class T>
WideOf<T> count(const T* x, int64_t n) {
  using U = typename Unsigned<T>::type;
  constexpr int kL = 256 / static_cast<int>(sizeof(T));
  uint64_t total = 0;
  int64_t i = 0;
  while (i + kL <= n) {
    U acc[kL] = {};
    for (int round = 0; round < 255 && i + kL <= n; ++round, i += kL) {
      for (int l = 0; l < kL; ++l) acc[l] = static_cast<U>(acc[l] + (x[i + l] != 0));
    }
    for (int l = 0; l < kL; ++l) total += acc[l];
  }
  for (; i < n; ++i) total += x[i] != 0;
  return static_cast<WideOf<T>>(total);
}

template <class T>
void count_columns(const T* x, WideOf<T>* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  for (int64_t k = 0; k < m; ++k, x += stride) {
    for (int64_t c = 0; c < width; ++c) acc[c] += static_cast<WideOf<T>>(x[c] != 0);
  }
}

template <class T>
WideOf<T> sum_wide(const T* x, int64_t n) {
  using A = WideOf<T>;
  constexpr int kL = 32;
  A acc[kL] = {};
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    for (int l = 0; l < kL; ++l) acc[l] += static_cast<A>(x[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) acc[l] += static_cast<A>(x[i]);
  A total = 0;
  for (int l = 0; l < kL; ++l) total += acc[l];
  return total;
}

template <class T>
void sum_wide_columns(const T* x, WideOf<T>* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  for (int64_t k = 0; k < m; ++k, x += stride) {
    for (int64_t c = 0; c < width; ++c) acc[c] += static_cast<WideOf<T>>(x[c]);
  }
}

template <class T>
WideOf<T> prod(const T* x, int64_t n) {
  using A = WideOf<T>;
  [[maybe_unused]] Flush<T> flush;
  if constexpr (sizeof(T) == 4 && kIsFloating<T> && kUsesFloatChains) return prod_chained(x, n);
  if constexpr (kIsFloating<T>) return prod_in_double(x, n);
  constexpr int kL = 32;
  A acc[kL];
  for (int l = 0; l < kL; ++l) acc[l] = 1;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    for (int l = 0; l < kL; ++l) acc[l] *= static_cast<A>(x[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) acc[l] *= static_cast<A>(x[i]);
#pragma GCC unroll 8
  for (int half = kL / 2; half; half /= 2) {
    for (int l = 0; l < half; ++l) acc[l] *= acc[l + half];
  }
  return acc[0];
}

template <class T>
void prod_columns(const T* x, WideOf<T>* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  [[maybe_unused]] Flush<T> flush;
  if constexpr (sizeof(T) == 4 && kIsFloating<T> && kUsesFloatChains) return prod_chained_columns(x, acc, m, width, stride);
  for (int64_t k = 0; k < m; ++k, x += stride) {
    for (int64_t c = 0; c < width; ++c) acc[c] *= static_cast<WideOf<T>>(x[c]);
  }
}
