// Elementary functions of float32, and fused expressions. Included inside a level's namespace, after
// vector.simd.h and relu_sigmoid_gelu.simd.h.
//
// The polynomials of log, sin and cos are those of Moshier's Cephes library (logf.c, sinf.c); errors
// are below two units in the last place. A lane's result never depends on its neighbours.

// e^x: as exp_nonpositive, but 2^n in two halves, so that it overflows to infinity and underflows by
// way of the denormal numbers.
INLINE V<float> exp_any(V<float> x) {
  const V<float> low = all(-104.0f), high = all(89.0f);
#if defined(__AVX512F__)  // of a NaN both give the second operand
  const V<float> c = (V<float>)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#else
  V<float> c = x < low ? low : x;
  c = c > high ? high : c;
#endif
  const V<float> shifted = c * 1.44269504f + 12582912.0f;
  const V<float> n = shifted - 12582912.0f;
  V<float> r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V<float> p = all(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r;  // the one is added last: the rounding of a small r counts
  p = p + 1.0f;
#if defined(__AVX512F__)
  return (V<float>)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  const Ints whole = wrapped((Ints)shifted, -0x4B400000), half = whole >> 1;
  const V<float> first = (V<float>)((half + 127) << 23),
                 second = (V<float>)((whole - half + 127) << 23);
  return p * first * second;
#endif
}

void exp_floats(const float* x, float* out, int64_t n) {
  map1(x, out, n, [](V<float> v) INLINE_LAMBDA { return exp_any(v); });
}

INLINE V<float> log_any(V<float> x) {
  const Ints tiny = x < all(1.17549435e-38f);
#if defined(__AVX512F__)
  const Ints odd = tiny | ~(x <= all(3.40282347e38f));
  if (__builtin_expect(!_mm512_test_epi32_mask((__m512i)odd, (__m512i)odd), 1))
    return log_normal(x, Ints{});
#endif
  V<float> y = log_normal(choose_lanes(tiny, x * 8388608.0f, x), tiny & -23);
  y = x > all(3.40282347e38f) ? x : y;          // infinity
  y = x == all(0.0f) ? all(-__builtin_inff()) : y;
  return x >= all(0.0f) ? y : all(__builtin_nanf(""));
}

void log_floats(const float* x, float* out, int64_t n) {
  map1(x, out, n, [](V<float> v) INLINE_LAMBDA { return log_any(v); });
}

// Beyond, pi / 2 in four pieces is too short, or their products are rounded: libm does those.
#if defined(__FMA__)
constexpr float kFar = 8192;
#else
constexpr float kFar = 64;
#endif

// r - n c, rounded once where the CPU can (which compilers do of themselves only from -O2 on).
INLINE V<float> less(V<float> r, V<float> n, float c) {
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
INLINE V<float> wave(V<float> x) {
  const V<float> shifted = x * 0.636619772f + 12582912.0f;
  const V<float> n = shifted - 12582912.0f;
  V<float> r = less(x, n, 1.5703125f);
  r = less(r, n, 4.837512969970703125e-4f);
  r = less(r, n, 7.549790126404332e-08f);
  r = less(r, n, -1.7151245100058819e-15f);
  const V<float> z = r * r;
  V<float> s = all(-1.9515295891e-4f);
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  V<float> c = all(2.443315711809948e-5f);
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const Ints quarter = wrapped((Ints)shifted, kQuarter);
  const V<float> y = choose_lanes((quarter & 1) != 0, c, s);
  const V<float> w = (V<float>)((Ints)y ^ ((quarter & 2) << 30));
  return kQuarter ? w : choose_lanes(x == all(0.0f), x, w);  // of -0 the sine is -0
}

template <int kQuarter>
void waves(const float* x, float* out, int64_t n) {
  constexpr int64_t kChunk = 512;
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t m = n - at < kChunk ? n - at : kChunk;
    const float* from = x + at;
    float* to = out + at;
    float far[kChunk];  // x may be out
    int found = 0;
    for (int64_t i = 0; i < m; ++i) {
      found |= !(__builtin_fabsf(from[i]) <= kFar);
      far[i] = from[i];
    }
    map1(from, to, m, [](V<float> v) INLINE_LAMBDA { return wave<kQuarter>(v); });
    if (!found) continue;
    for (int64_t i = 0; i < m; ++i) {
      if (!(__builtin_fabsf(far[i]) <= kFar))
        to[i] = kQuarter ? __builtin_cosf(far[i]) : __builtin_sinf(far[i]);
    }
  }
}

// One over the square root: the CPU's estimate and one step of Newton's, where there is one.
INLINE V<float> rsqrt_any(V<float> x) {
#if defined(__AVX512F__)
  const V<float> y = (V<float>)_mm512_rsqrt14_ps((__m512)x);
  const V<float> h = 0.5f * y, e = 0.5f - (x * y) * h;
  const V<float> z = y + y * e;
  // 0, infinity, negative ones and NaN: the estimate is the answer. Denormal: x * y loses bits.
  const Ints plain = (x >= all(1.17549435e-38f)) & (x <= all(3.40282347e38f));
  if (__builtin_expect(_mm512_test_epi32_mask((__m512i)plain, (__m512i)plain) != 0xffff, 0)) {
    const V<float> s = 1.0f / (V<float>)_mm512_sqrt_ps((__m512)x);
    return choose_lanes(plain, z, s);
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

// At least low and at most high; NaN stays.
template <class T>
void clamp(const T* x, T* out, int64_t n, T low, T high) {
  map1(x, out, n, [low, high](V<T> v) INLINE_LAMBDA {
    V<T> y = v < all(low) ? all(low) : v;
    return y > all(high) ? all(high) : y;
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
    const T rest = 1 - weight;
    for (int64_t i = 0; i < n; ++i) out[i] = end[i] - (end[i] - x[i]) * rest;
  }
}

// The same with a weight for each element.
template <class T>
void lerp_each(const T* x, const T* end, const T* weight, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T w = weight[i], way = end[i] - x[i];
    const T near = x[i] + w * way, far = end[i] - way * (1 - w);
    out[i] = (w < 0 ? -w : w) < T(0.5) ? near : far;
  }
}
