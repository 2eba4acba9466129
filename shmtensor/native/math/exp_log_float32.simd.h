// Exponentials and logarithms of float32 in its own precision, twice as many numbers a vector as in double.
// Included inside a level's namespace, after log_float32.simd.h, vector_float64.simd.h and tan_asin_acos_atan.simd.h; what is rare is libm's.

template <class F>
INLINE V<float> lanes_by(Ints rare, V<float> y, F f) {
  if (__builtin_expect(somewhere(rare), 0)) {
    for (int i = 0; i < kLanes<float>; ++i) y[i] = rare[i] ? f(i) : y[i];
  }
  return y;
}

constexpr float kMostFloat = 3.40282347e38f, kLeastFloat = 1.17549435e-38f;

// 2^x: the fraction's by its Taylor series, the whole part's in two halves, through the denormal numbers.
INLINE V<float> exp2_brief(V<float> x) {
  V<float> c = x > all(129.0f) ? all(129.0f) : x;
  c = c < all(-151.0f) ? all(-151.0f) : c;
  const V<float> shifted = c + 12582912.0f, f = c - (shifted - 12582912.0f);
  V<float> p = all(1.52527338e-5f);
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

// x = m 2^e for normal x: log m is m - 1 and a rest.
INLINE V<float> log_in_parts(V<float> x, V<float>* rest, V<float>* e) {
  const Ints moved = wrapped((Ints)x, -0x3f3504f3);
  const V<float> m = (V<float>)((moved & 0x007fffff) + 0x3f3504f3) - 1.0f, z = m * m;
  *e = __builtin_convertvector(moved >> 23, V<float>);
  *rest = log_polynomial(m) * m * z - 0.5f * z;
  return m;
}

INLINE V<float> log2_brief(V<float> x) {
  constexpr float kOver = 1.44269504f;
  V<float> rest, e;
  const V<float> m = log_in_parts(x, &rest, &e), y = fused(m, all(kOver), rest * kOver) + e;
  return lanes_by(~((x >= all(kLeastFloat)) & (x <= all(kMostFloat))), y,
                  [&](int i) INLINE_LAMBDA { return __builtin_log2f(x[i]); });
}

// log 2 to the base 10 has two pieces, of which the first times e is exact.
INLINE V<float> log10_brief(V<float> x) {
  constexpr float kOver = 0.434294482f;
  V<float> rest, e;
  const V<float> m = log_in_parts(x, &rest, &e);
  const V<float> y = (fused(m, all(kOver), rest * kOver) + e * 2.48745663981195213739e-4f) + e * 0.30078125f;
  return lanes_by(~((x >= all(kLeastFloat)) & (x <= all(kMostFloat))), y,
                  [&](int i) INLINE_LAMBDA { return __builtin_log10f(x[i]); });
}

INLINE V<float> log1p_brief(V<float> x) {
  const V<float> u = 1.0f + x, lost = x < all(1.0f) ? x - (u - 1.0f) : 1.0f - (u - x);
  const V<float> y = log_normal(u, Ints{}) + lost / u;
  return lanes_by(~((x > all(-1.0f)) & (x <= all(kMostFloat))), x == all(0.0f) ? x : y,
                  [&](int i) INLINE_LAMBDA { return __builtin_log1pf(x[i]); });
}
