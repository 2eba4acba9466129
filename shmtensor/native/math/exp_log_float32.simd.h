// Exponentials and logarithms of float32, computed in float32, with twice as many lanes as double. Included inside a
// level's namespace, after log_float32.simd.h, vector_float64.simd.h and tan_asin_acos_atan.simd.h. libm computes rare
// arguments.

template <class F>
INLINE V<float> replace_lanes(Ints rare, V<float> y, F f) {
  if (__builtin_expect(any_lane(rare), 0)) {
    for (int i = 0; i < kLanes<float>; ++i) y[i] = rare[i] ? f(i) : y[i];
  }
  return y;
}

constexpr float kMostFloat = 3.40282347e38f, kLeastFloat = 1.17549435e-38f;

// 2^x: the power of the fraction by its Taylor series, that of the integer part by two factors, so that the result may
// be denormal.
INLINE V<float> exp2_float32(V<float> x) {
  V<float> c = x > splat(129.0f) ? splat(129.0f) : x;
  c = c < splat(-151.0f) ? splat(-151.0f) : c;
  const V<float> shifted = c + 12582912.0f, f = c - (shifted - 12582912.0f);
  V<float> p = splat(1.52527338e-5f);
  p = p * f + 1.54035304e-4f;
  p = p * f + 1.33335581e-3f;
  p = p * f + 9.61812911e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147181e-1f;
  p = p * f + 1.0f;
  const Ints n = wrapped((Ints)shifted, -0x4B400000), half = n >> 1;
  return p * (V<float>)((Words)(half + 127) << 23) * (V<float>)((Words)(n - half + 127) << 23);
}

// x = m 2^e for normal x: log m is the returned m - 1 plus *tail.
INLINE V<float> log_mantissa_parts(V<float> x, V<float>* tail, V<float>* e) {
  const Ints shifted = wrapped((Ints)x, -0x3f3504f3);
  const V<float> m = (V<float>)((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f, z = m * m;
  *e = __builtin_convertvector(shifted >> 23, V<float>);
  *tail = log_polynomial(m) * m * z - 0.5f * z;
  return m;
}

INLINE V<float> log2_float32(V<float> x) {
  constexpr float kOver = 1.44269504f;
  V<float> tail, e;
  const V<float> m = log_mantissa_parts(x, &tail, &e), y = fused(m, splat(kOver), tail * kOver) + e;
  return replace_lanes(~((x >= splat(kLeastFloat)) & (x <= splat(kMostFloat))), y,
                       [&](int i) INLINE_LAMBDA { return __builtin_log2f(x[i]); });
}

// log10(2) is split into two parts; the first times e is exact.
INLINE V<float> log10_float32(V<float> x) {
  constexpr float kOver = 0.434294482f;
  V<float> tail, e;
  const V<float> m = log_mantissa_parts(x, &tail, &e);
  const V<float> y = (fused(m, splat(kOver), tail * kOver) + e * 2.48745663981195213739e-4f) + e * 0.30078125f;
  return replace_lanes(~((x >= splat(kLeastFloat)) & (x <= splat(kMostFloat))), y,
                       [&](int i) INLINE_LAMBDA { return __builtin_log10f(x[i]); });
}

INLINE V<float> log1p_float32(V<float> x) {
  const V<float> u = 1.0f + x, sum_error = x < splat(1.0f) ? x - (u - 1.0f) : 1.0f - (u - x);
  const V<float> y = log_normal(u, Ints{}) + sum_error / u;
  return replace_lanes(~((x > splat(-1.0f)) & (x <= splat(kMostFloat))), x == splat(0.0f) ? x : y,
                       [&](int i) INLINE_LAMBDA { return __builtin_log1pf(x[i]); });
}
