// Integer vectors with as many lanes as float32, and the logarithm of float32. Included inside a level's namespace,
// after vector.simd.h. The polynomial is that of Moshier's Cephes library (logf.c).

typedef Vec<float>::bits Ints;
typedef uint32_t Words __attribute__((vector_size(kWidth)));

// An addition that may overflow (for NaN) and wraps.
INLINE Ints wrapped(Ints a, int32_t b) { return (Ints)((Words)a + static_cast<uint32_t>(b)); }

INLINE V<float> select(Ints mask, V<float> a, V<float> b) { return mask ? a : b; }

// (log(1 + m) - m + m m / 2) / m^3 for 1 + m in [sqrt(1/2), sqrt 2).
INLINE V<float> log_polynomial(V<float> m) {
  V<float> p = splat(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  return p * m + 3.3333331174e-1f;
}

// log(x) + extra_exponent * log 2 for normal x.
INLINE V<float> log_normal(V<float> x, Ints extra_exponent) {
  // x = m 2^e with m in [sqrt(1/2), sqrt 2)
  const Ints shifted = wrapped((Ints)x, -0x3f3504f3), e = (shifted >> 23) + extra_exponent;
  const V<float> m = (V<float>)((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const V<float> z = m * m, f = __builtin_convertvector(e, V<float>);
  V<float> y = log_polynomial(m) * m * z - f * 2.12194440e-4f;
  y = y - 0.5f * z;
  return m + y + f * 0.693359375f;
}
