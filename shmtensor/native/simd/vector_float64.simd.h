// Elementary functions on vectors of double, on which function_table.h is built. Included inside a level's namespace,
// after vector.simd.h.
//
// kFine: full double precision. Otherwise the result is for float32: it is computed in double with shorter polynomials
// (relative error below 1e-9), so that the rounded result is within 0.51 units in the last place.

typedef Vec<double>::bits Longs;
typedef uint64_t Bits __attribute__((vector_size(kWidth)));

INLINE V<double> select(Longs mask, V<double> a, V<double> b) { return mask ? a : b; }

// As many floats as a vector has doubles, in half the bytes.
typedef float HalfWidthFloats __attribute__((vector_size(kWidth / 2)));
typedef float LooseHalfWidthFloats __attribute__((vector_size(kWidth / 2), aligned(4), may_alias));

INLINE V<double> load_as_double(const float* p) {
#if defined(__AVX512F__)  // GCC 12 splits the conversion into halves
  return (V<double>)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX__)  // here, too
  return (V<double>)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  return __builtin_convertvector((HalfWidthFloats) * reinterpret_cast<const LooseHalfWidthFloats*>(p), V<double>);
#endif
}
INLINE V<double> load_as_double(const double* p) { return load(p); }

// Is a lane of the mask set?
INLINE bool any_lane(Longs mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
  int64_t any = 0;
  for (int i = 0; i < kLanes<double>; ++i) any |= mask[i];
  return any != 0;
#endif
}

INLINE bool any_lane(Vec<float>::bits mask) { return any_lane((Longs)mask); }

// The polynomial with the first n of these coefficients, the highest power first.
//
// Horner's rule is one dependency chain with a latency of four cycles per power. The high powers, whose rounding errors
// are negligible, are evaluated as four independent chains (two, if there are few) in a power of x, and the last powers
// by Horner's rule.
template <int n>
INLINE V<double> leading_polynomial(const double* c, V<double> x) {
  constexpr int kChains = n >= 12 ? 4 : n >= 6 ? 2 : 1;
  constexpr int kLast = kChains == 1 ? n - 1 : kChains, kHigh = n - kLast;
  V<double> y = splat(c[0]);
  if constexpr (kChains > 1) {
    const V<double> x2 = x * x, step = kChains == 4 ? x2 * x2 : x2;
    V<double> chain[kChains];  // chain[i] has the powers p with p % kChains == i
#pragma GCC unroll 32
    for (int p = kHigh - 1; p >= 0; --p) {
      V<double>& t = chain[p % kChains];
      t = p + kChains >= kHigh ? splat(c[kHigh - 1 - p]) : t * step + c[kHigh - 1 - p];
    }
    y = chain[1] * x + chain[0];
    if constexpr (kChains == 4) y = (chain[3] * x + chain[2]) * x2 + y;
  }
#pragma GCC unroll 32
  for (int i = kHigh; i < n; ++i) y = y * x + c[i];
  return y;
}

// The polynomial with these coefficients, the highest power first.
template <int n>
INLINE V<double> polynomial(const double (&c)[n], V<double> x) {
  return leading_polynomial<n>(c, x);
}

// The same with one of two tables.
template <bool kFine, int n, int m>
INLINE V<double> polynomial(const double (&full)[n], const double (&reduced)[m], V<double> x) {
  if constexpr (kFine) {
    return polynomial(full, x);
  } else {
    return polynomial(reduced, x);
  }
}

INLINE V<double> root(V<double> x) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
  return (V<double>)_mm256_sqrt_pd((__m256d)x);
#else
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

INLINE V<float> root(V<float> x) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (V<float>)_mm256_sqrt_ps((__m256)x);
#else
  for (int i = 0; i < kLanes<float>; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// Does the CPU have FMA?
#if defined(__AVX512F__) || defined(__FMA__) || defined(__aarch64__)
constexpr bool kFuses = true;
#else
constexpr bool kFuses = false;
#endif

// a * b + c, rounded once if kFuses.
INLINE V<double> fused(V<double> a, V<double> b, V<double> c) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (V<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
  for (int i = 0; i < kLanes<double>; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

INLINE V<float> fused(V<float> a, V<float> b, V<float> c) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (V<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  for (int i = 0; i < kLanes<float>; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

INLINE V<double> copy_sign_of(V<double> size, V<double> x) {
  constexpr int64_t kSign = INT64_MIN;
  return (V<double>)(((Longs)size & ~kSign) | ((Longs)x & kSign));
}

INLINE V<float> copy_sign_of(V<float> size, V<float> x) {
  constexpr int32_t kSign = INT32_MIN;
  return (V<float>)(((Vec<float>::bits)size & ~kSign) | ((Vec<float>::bits)x & kSign));
}

// The nearest integer, ties to even, for |x| < 2^51.
INLINE V<double> nearest(V<double> x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

// x truncated to an integer, for |x| < 2^51.
INLINE V<double> truncate(V<double> x) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (V<double>)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  const V<double> size = absolute<double>(x), n = nearest(size);
  return copy_sign_of(n > size ? n - 1.0 : n, x);
#endif
}

// 1 / x for normal x whose reciprocal is normal; without kFine to 2^-28.
template <bool kFine>
INLINE V<double> inverse(V<double> x) {
#if defined(__AVX512F__)
  if constexpr (!kFine) {
    const V<double> y = (V<double>)_mm512_rcp14_pd((__m512d)x);
    return y + y * (1.0 - x * y);
  }
#endif
  return 1.0 / x;
}

// Computes n and f in e^(y + extra) = 2^n (1 + f), for |y| <= 760 and a small `extra`; returns f.
template <bool kFine>
INLINE V<double> exp_minus_one_scaled(V<double> y, V<double> extra, V<double>* n) {
  constexpr double kInverse[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                 1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
                                 1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5};
  constexpr double kInverseBrief[] = {1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5};
  *n = nearest(y * 1.4426950408889634);
  V<double> r = y - *n * 6.93147180369123816490e-01;
  r = r - *n * 1.90821492927058770002e-10 + extra;
  return r + r * r * polynomial<kFine>(kInverse, kInverseBrief, r);
}

// x * 2^n for integers |n| <= 1100; underflows through the denormal numbers to 0.
INLINE V<double> scale_by_power_of_two(V<double> x, V<double> n) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_scalef_pd((__m512d)x, (__m512d)n);
#else
  // Unsigned: arithmetic shifts are slow, and lanes that are NaN may wrap.
  const Bits power = (Bits)(n + 6755399441055744.0) - 0x4338000000000000ULL;
  const Bits half = ((power + 4096) >> 1) - 2048;
  return x * (V<double>)((half + 1023) << 52) * (V<double>)((power - half + 1023) << 52);
#endif
}

template <bool kFine>
INLINE V<double> exp_of(V<double> y) {
  V<double> n;
  const V<double> fraction = exp_minus_one_scaled<kFine>(y, V<double>{}, &n);
  return scale_by_power_of_two(1.0 + fraction, n);
}

// log(x) of normal positive x, as in Sun's fdlibm (e_log.c): below 1 unit in the last place.
template <bool kFine>
INLINE V<double> log_of(V<double> x, V<double> extra = V<double>{}) {  // plus `extra` times log 2
  constexpr double kSeries[] = {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                                2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                                6.666666666666735130e-01};
  constexpr double kSeriesBrief[] = {2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
  // x = m 2^e with m in [sqrt(1/2), sqrt 2)
  const Bits shifted = (Bits)x - 0x3fe6a09e667f3bcdULL;
  const V<double> e =  // the exponent, from the bits of 2^52 + e, without a conversion
      (V<double>)((shifted >> 52 ^ 0x800) + 0x4330000000000000ULL) - (4503599627370496.0 + 2048.0);
  const V<double> f = (V<double>)((shifted & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL) - 1.0;
  const V<double> s = kFine ? f / (f + 2.0) : f * inverse<kFine>(f + 2.0), z = s * s;
  const V<double> p = z * polynomial<kFine>(kSeries, kSeriesBrief, z);
  const V<double> half = 0.5 * f * f, n = e + extra;
  return n * 6.93147180369123816490e-01 - ((half - (s * (half + p) + n * 1.90821492927058770002e-10)) - f);
}

// log(x) for all x.
template <bool kFine>
INLINE V<double> log_all(V<double> x) {
  constexpr double kTiny = 2.2250738585072014e-308, kHuge = 1.7976931348623157e308;
  if (__builtin_expect(!any_lane(~((x >= splat(kTiny)) & (x <= splat(kHuge)))), 1)) return log_of<kFine>(x);
  const Longs tiny = x < splat(kTiny);
  V<double> y = log_of<kFine>(select(tiny, x * 18014398509481984.0, x), select(tiny, splat(-54.0), V<double>{}));
  y = x > splat(kHuge) ? x : y;
  y = x == splat(0.0) ? splat(-__builtin_inf()) : y;
  return x >= splat(0.0) ? y : splat(__builtin_nan(""));
}
