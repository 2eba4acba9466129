// Vectors of this level's width, and exp on them. Included inside the level's namespace; uses no std::
// (cpu_capability.h).

#if defined(__AVX512F__)
constexpr int kWidth = 64;
#elif defined(__AVX2__)
constexpr int kWidth = 32;
#else
constexpr int kWidth = 16;
#endif

template <class T>
struct Vec;
template <>
struct Vec<float> {
  typedef float type __attribute__((vector_size(kWidth)));
  typedef float loose __attribute__((vector_size(kWidth), aligned(4), may_alias));  // any address
  typedef int32_t bits __attribute__((vector_size(kWidth)));
};
template <>
struct Vec<double> {
  typedef double type __attribute__((vector_size(kWidth)));
  typedef double loose __attribute__((vector_size(kWidth), aligned(8), may_alias));
  typedef int64_t bits __attribute__((vector_size(kWidth)));
};

template <class T>
using V = typename Vec<T>::type;
template <class T>
constexpr int kLanes = kWidth / static_cast<int>(sizeof(T));

#define INLINE inline __attribute__((always_inline))

template <class T>
INLINE V<T> load(const T* p) {
  return *reinterpret_cast<const typename Vec<T>::loose*>(p);
}

template <class T>
INLINE void store(T* p, V<T> v) {
  *reinterpret_cast<typename Vec<T>::loose*>(p) = v;
}

// Loads the first n lanes from memory and fills the others with `fill`; reads no memory beyond them.
#if defined(__AVX512F__)
INLINE V<float> load_part(const float* p, int64_t n, float fill) {
  return (V<float>)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), static_cast<__mmask16>((1u << n) - 1), p);
}
INLINE V<double> load_part(const double* p, int64_t n, double fill) {
  return (V<double>)_mm512_mask_loadu_pd(_mm512_set1_pd(fill), static_cast<__mmask8>((1u << n) - 1), p);
}
INLINE void store_part(float* p, V<float> v, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
}
INLINE void store_part(double* p, V<double> v, int64_t n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), (__m512d)v);
}
#elif defined(__AVX2__)
INLINE __m256i first_lanes(int64_t n, float) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE __m256i first_lanes(int64_t n, double) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
INLINE V<float> load_part(const float* p, int64_t n, float fill) {
  __m256i m = first_lanes(n, fill);
  return (V<float>)_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, m), (__m256)m);
}
INLINE V<double> load_part(const double* p, int64_t n, double fill) {
  __m256i m = first_lanes(n, fill);
  return (V<double>)_mm256_blendv_pd(_mm256_set1_pd(fill), _mm256_maskload_pd(p, m), (__m256d)m);
}
INLINE void store_part(float* p, V<float> v, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n, 0.0f), (__m256)v); }
INLINE void store_part(double* p, V<double> v, int64_t n) { _mm256_maskstore_pd(p, first_lanes(n, 0.0), (__m256d)v); }
#else
template <class T>
INLINE V<T> load_part(const T* p, int64_t n, T fill) {
  T lanes[kLanes<T>];
  for (int i = 0; i < kLanes<T>; ++i) lanes[i] = i < n ? p[i] : fill;
  return load(lanes);
}
template <class T>
INLINE void store_part(T* p, V<T> v, int64_t n) {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}
#endif

// The first n lanes of v, the others `fill`.
template <class T>
INLINE V<T> fill_tail(V<T> v, int64_t n, T fill) {
  T lanes[kLanes<T>];
  for (int i = 0; i < kLanes<T>; ++i) lanes[i] = static_cast<T>(i);
  return load(lanes) < static_cast<T>(n) ? v : V<T>{} + fill;
}

template <class T>
INLINE V<T> splat(T x) {
  V<T> zero = {};
  return zero + x;
}

template <class T>
INLINE T sum_lanes(V<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int n = kLanes<T> / 2; n; n /= 2) {
    for (int i = 0; i < n; ++i) lanes[i] += lanes[i + n];
  }
  return lanes[0];
}

template <class T>
INLINE T max_lanes(V<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int n = kLanes<T> / 2; n; n /= 2) {
    for (int i = 0; i < n; ++i) lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
  }
  return lanes[0];
}

constexpr int32_t all_but_sign(float) { return 0x7fffffff; }
constexpr int64_t all_but_sign(double) { return 0x7fffffffffffffff; }

template <class T>
INLINE V<T> absolute(V<T> x) {
  return (V<T>)((typename Vec<T>::bits)x & all_but_sign(T()));
}

// e^x for x <= 0, to 1 unit in the last place; below the smallest normal number 0; NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series; 2^n by setting the exponent's bits.
INLINE V<float> exp_nonpositive(V<float> x) {
  const V<float> low = splat(-87.3365f);
  V<float> c = x < low ? low : x;
  V<float> shifted = c * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the integer part is in the low bits
  V<float> n = shifted - 12582912.0f;
  V<float> r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V<float> p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  typedef Vec<float>::bits I;
  I exponent = ((I)shifted - 0x4B400000 + 127) << 23;
  V<float> y = p * (V<float>)exponent;
  return x < low ? splat(0.0f) : y;
}

INLINE V<double> exp_nonpositive(V<double> x) {
  const V<double> low = splat(-708.39);
  V<double> c = x < low ? low : x;
  V<double> shifted = c * 1.4426950408889634 + 6755399441055744.0;
  V<double> n = shifted - 6755399441055744.0;
  V<double> r = c - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  V<double> p = splat(1.0 / 6227020800.0);
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  typedef Vec<double>::bits I;
  I exponent = ((I)shifted - 0x4338000000000000LL + 1023) << 52;
  V<double> y = p * (V<double>)exponent;
  return x < low ? splat(0.0) : y;
}

// e^x - 1 for x <= 0, to 2 units in the last place. With x = n ln 2 + r, |r| <= ln 2 / 2, it is 2^n (e^r - 1) + (2^n - 1):
// the second term is exact, and for n < 0 larger than the first one. -0 stays -0, NaN stays NaN.
INLINE V<float> exp_minus_one(V<float> x) {
  const V<float> low = splat(-87.3365f);
  const V<float> c = x < low ? low : x;
  const V<float> shifted = c * 1.44269504f + 12582912.0f;  // as in exp_nonpositive
  const V<float> n = shifted - 12582912.0f;
  V<float> r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V<float> p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r;
  typedef Vec<float>::bits I;
  const V<float> power = (V<float>)(((I)shifted - 0x4B400000 + 127) << 23);
  return x == splat(0.0f) ? x : p * power + (power - 1.0f);
}

INLINE V<double> exp_minus_one(V<double> x) {
  const V<double> low = splat(-708.39);
  const V<double> c = x < low ? low : x;
  const V<double> shifted = c * 1.4426950408889634 + 6755399441055744.0;
  const V<double> n = shifted - 6755399441055744.0;
  V<double> r = c - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  V<double> p = splat(1.0 / 6227020800.0);
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r;
  typedef Vec<double>::bits I;
  const V<double> power = (V<double>)(((I)shifted - 0x4338000000000000LL + 1023) << 52);
  return x == splat(0.0) ? x : p * power + (power - 1.0);
}

// The sum of z^k / (2 k + 1) from k = 0 to n.
template <class T, int n>
INLINE V<T> odd_series(V<T> z) {
  V<T> s = splat(T(1.0 / (2 * n + 1)));
#pragma GCC unroll 32
  for (int k = n - 1; k >= 0; --k) s = s * z + T(1.0 / (2 * k + 1));
  return s;
}

// log(1 + e) for 0 <= e <= 1: twice the inverse hyperbolic tangent of e / (2 + e).
template <class T>
INLINE V<T> log_one_plus(V<T> e) {
  const V<T> s = e / (T(2) + e);
  return T(2) * s * odd_series<T, sizeof(T) == 4 ? 7 : 16>(s * s);
}

// 1 / x with relative error 2^-14 or less, if x and 1 / x are normal.
INLINE V<float> reciprocal_estimate(V<float> x) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_rcp14_ps((__m512)x);
#else
  return 1.0f / x;
#endif
}

// 1 / x for normal x whose reciprocal is normal: if the CPU has an estimate, by one Newton step, to 2 units in the last
// place, since a division would stall the multipliers.
INLINE V<float> reciprocal(V<float> x) {
#if defined(__AVX512F__)
  const V<float> y = (V<float>)_mm512_rcp14_ps((__m512)x);
  return y + y * (1.0f - x * y);
#else
  return 1.0f / x;
#endif
}

// x * y - rounded, exactly, if the CPU has FMA; else 0.
INLINE V<float> product_error(V<float> x, V<float> y, V<float> rounded) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_fmsub_ps((__m512)x, (__m512)y, (__m512)rounded);
#elif defined(__FMA__)
  return (V<float>)_mm256_fmsub_ps((__m256)x, (__m256)y, (__m256)rounded);
#else
  (void)x, (void)y, (void)rounded;
  return V<float>{};
#endif
}

// x * 2^n for integers n <= 127; below the smallest normal power the result is 0 or denormal.
INLINE V<float> times_power_of_two(V<float> x, V<float> n) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  typedef Vec<float>::bits I;
  const I exponent = ((I)(n + 12582912.0f) - 0x4B400000 + 127) << 23;
  return n < splat(-126.0f) ? splat(0.0f) : x * (V<float>)exponent;
#endif
}

// Products of the low halves of 64-bit lanes.
typedef uint64_t Wide __attribute__((vector_size(kWidth)));
INLINE Wide multiply_low(Wide a, uint64_t b) {
#if defined(__AVX512F__)
  return (Wide)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(static_cast<long long>(b)));
#elif defined(__AVX2__)
  return (Wide)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(static_cast<long long>(b)));
#elif defined(__SSE2__)
  return (Wide)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(static_cast<long long>(b)));
#else
  return (a & 0xffffffffu) * b;
#endif
}
