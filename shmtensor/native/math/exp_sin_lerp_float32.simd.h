// Elementary functions of float32, and fused expressions. Included inside a level's namespace, after
// vector.simd.h and relu_sigmoid_dropout.simd.h.
//
// The polynomials of log, sin and cos are those of Moshier's Cephes library (logf.c, sinf.c); errors
// are below two units in the last place. A lane's result never depends on its neighbours.

// e^x: as exp_nonpositive, but 2^n is split into two factors, so that the result overflows to infinity and underflows
// through the denormal numbers.
INLINE V<float> exp_any(V<float> x) {
  const V<float> low = splat(-104.0f), high = splat(89.0f);
#if defined(__AVX512F__)  // for NaN, min and max return the second operand
  const V<float> c = (V<float>)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#else
  V<float> c = x < low ? low : x;
  c = c > high ? high : c;
#endif
  const V<float> shifted = c * 1.44269504f + 12582912.0f;
  const V<float> n = shifted - 12582912.0f;
  V<float> r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V<float> p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r;  // 1 is added last: the rounding of a small r matters
  p = p + 1.0f;
#if defined(__AVX512F__)
  return (V<float>)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  const Ints exponent = wrapped((Ints)shifted, -0x4B400000), half = exponent >> 1;
  const V<float> first = (V<float>)((half + 127) << 23), second = (V<float>)((exponent - half + 127) << 23);
  return p * first * second;
#endif
}

void exp_floats(const float* x, float* out, int64_t n) {
  map1(x, out, n, [](V<float> v) INLINE_LAMBDA { return exp_any(v); });
}

INLINE V<float> log_any(V<float> x) {
  const Ints tiny = x < splat(1.17549435e-38f);
#if defined(__AVX512F__)
  const Ints odd = tiny | ~(x <= splat(3.40282347e38f));
  if (__builtin_expect(!_mm512_test_epi32_mask((__m512i)odd, (__m512i)odd), 1)) return log_normal(x, Ints{});
#endif
  V<float> y = log_normal(select(tiny, x * 8388608.0f, x), tiny & -23);
  y = x > splat(3.40282347e38f) ? x : y;          // infinity
  y = x == splat(0.0f) ? splat(-__builtin_inff()) : y;
  return x >= splat(0.0f) ? y : splat(__builtin_nanf(""));
}

void log_floats(const float* x, float* out, int64_t n) {
  map1(x, out, n, [](V<float> v) INLINE_LAMBDA { return log_any(v); });
}

// Above, pi / 2 in four parts is too short, or their products are rounded: libm computes those.
#if defined(__FMA__)
constexpr float kFar = 8192;
#else
constexpr float kFar = 64;
#endif

// r - n c, rounded once if the CPU has FMA (compilers contract it only from -O2 on).
INLINE V<float> fused_subtract(V<float> r, V<float> n, float c) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_fnmadd_ps((__m512)n, _mm512_set1_ps(c), (__m512)r);
#elif defined(__FMA__)
  return (V<float>)_mm256_fnmadd_ps((__m256)n, _mm256_set1_ps(c), (__m256)r);
#else
  return r - n * c;
#endif
}

// sin (kQuarter 0) or cos (1) of |x| <= kFar.
template <int kQuarter>
INLINE V<float> sin_or_cos(V<float> x) {
  const V<float> shifted = x * 0.636619772f + 12582912.0f;
  const V<float> n = shifted - 12582912.0f;
  V<float> r = fused_subtract(x, n, 1.5703125f);
  r = fused_subtract(r, n, 4.837512969970703125e-4f);
  r = fused_subtract(r, n, 7.549790126404332e-08f);
  r = fused_subtract(r, n, -1.7151245100058819e-15f);
  const V<float> z = r * r;
  V<float> s = splat(-1.9515295891e-4f);
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  V<float> c = splat(2.443315711809948e-5f);
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const Ints quarter = wrapped((Ints)shifted, kQuarter);
  const V<float> y = select((quarter & 1) != 0, c, s);
  const V<float> w = (V<float>)((Ints)y ^ ((quarter & 2) << 30));
  return kQuarter ? w : select(x == splat(0.0f), x, w);  // sin(-0) is -0
}

template <int kQuarter>
void sin_cos_floats(const float* x, float* out, int64_t n) {
  constexpr int64_t kChunk = 512;
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t m = n - at < kChunk ? n - at : kChunk;
    const float* from = x + at;
    float* to = out + at;
    float inputs[kChunk];  // x may be out
    int any_far = 0;
    for (int64_t i = 0; i < m; ++i) {
      any_far |= !(__builtin_fabsf(from[i]) <= kFar);
      inputs[i] = from[i];
    }
    map1(from, to, m, [](V<float> v) INLINE_LAMBDA { return sin_or_cos<kQuarter>(v); });
    if (!any_far) continue;
    for (int64_t i = 0; i < m; ++i) {
      if (!(__builtin_fabsf(inputs[i]) <= kFar)) to[i] = kQuarter ? __builtin_cosf(inputs[i]) : __builtin_sinf(inputs[i]);
    }
  }
}

// 1 / sqrt(x): the CPU's estimate and one Newton step, if it has one.
INLINE V<float> rsqrt_any(V<float> x) {
#if defined(__AVX512F__)
  const V<float> y = (V<float>)_mm512_rsqrt14_ps((__m512)x);
  const V<float> h = 0.5f * y, e = 0.5f - (x * y) * h;
  const V<float> z = y + y * e;
  // Zero, denormal, infinite, negative and NaN: by a square root and a division.
  const Ints regular = (x >= splat(1.17549435e-38f)) & (x <= splat(3.40282347e38f));
  if (__builtin_expect(_mm512_test_epi32_mask((__m512i)regular, (__m512i)regular) != 0xffff, 0)) {
    const V<float> s = 1.0f / (V<float>)_mm512_sqrt_ps((__m512)x);
    return select(regular, z, s);
  }
  return z;
#else
  V<float> y;
  for (int i = 0; i < kLanes<float>; ++i) y[i] = __builtin_sqrtf(x[i]);
  return 1.0f / y;
#endif
}

void rsqrt(const float* x, float* out, int64_t n) {
  map1(x, out, n, [](V<float> v) INLINE_LAMBDA { return rsqrt_any(v); });
}
void rsqrt(const double* x, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 1 / __builtin_sqrt(x[i]);
}

// Clamps to [low, high]; NaN stays.
template <class T>
void clamp(const T* x, T* out, int64_t n, T low, T high) {
  map1(x, out, n, [low, high](V<T> v) INLINE_LAMBDA {
    V<T> y = v < splat(low) ? splat(low) : v;
    return y > splat(high) ? splat(high) : y;
  });
}

// x + value * a * b.
template <class T>
void addcmul(const T* x, const T* a, const T* b, T* out, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + value * (a[i] * b[i]);
}

// x + value * a / b.
template <class T>
void addcdiv(const T* x, const T* a, const T* b, T* out, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + value * a[i] / b[i];
}

// x + weight * (end - x), from the nearer end.
template <class T>
void lerp(const T* x, const T* end, T* out, int64_t n, T weight) {
  if ((weight < 0 ? -weight : weight) < T(0.5)) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + weight * (end[i] - x[i]);
  } else {
    const T complement = 1 - weight;
    for (int64_t i = 0; i < n; ++i) out[i] = end[i] - (end[i] - x[i]) * complement;
  }
}

// The same with a weight for each element.
template <class T>
void lerp_each(const T* x, const T* end, const T* weight, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T w = weight[i], difference = end[i] - x[i];
    const T from_start = x[i] + w * difference, from_end = end[i] - difference * (1 - w);
    out[i] = (w < 0 ? -w : w) < T(0.5) ? from_start : from_end;
  }
}
