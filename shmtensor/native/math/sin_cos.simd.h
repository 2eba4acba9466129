// Sine and cosine of double. Included inside a level's namespace, after vector_float64.simd.h.
//
// The reduction by pi / 2 in parts of 33 bits and the polynomials are those of Sun's fdlibm (e_rem_pio2.c, k_sin.c,
// k_cos.c): below 1 unit in the last place. Above kFarWave, where the number of quarters times a part is not exact, and
// for NaN, libm computes them.

constexpr double kFarWave = 1e6;

// The sine of x + tail for |x| <= pi / 4.
INLINE V<double> sine_near(V<double> x, V<double> tail) {
  constexpr double kSine[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
                              -1.98412698298579493134e-04, 8.33333333332248946124e-03};
  const V<double> z = x * x, v = z * x, r = polynomial(kSine, z);
  return x - ((z * (0.5 * tail - v * r) - tail) - v * -1.66666666666666324348e-01);
}
INLINE V<double> cosine_near(V<double> x, V<double> tail) {
  constexpr double kCosine[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,  -2.75573143513906633035e-07,
                                2.48015872894767294178e-05,  -1.38888888888741095749e-03, 4.16666666666666019037e-02};
  const V<double> z = x * x, r = z * polynomial(kCosine, z), half = 0.5 * z, w = 1.0 - half;
  return w + (((1.0 - w) - half) + (z * r - x * tail));
}

// y + tail is x minus the nearest multiple of pi / 2, for |x| <= kFarWave; returns the number of the multiple.
INLINE Bits reduce_by_half_pi(V<double> x, V<double>* y, V<double>* tail) {
  const V<double> shifted = x * 6.36619772367581382433e-01 + 6755399441055744.0;
  const V<double> n = shifted - 6755399441055744.0;
  const V<double> a = x - n * 1.57079632673412561417e+00, b = n * 6.07710050630396597660e-11;
  const V<double> r = a - b, error = ((a - r) - b) - n * 2.02226624879595063154e-21;
  *y = r + error, *tail = (r - *y) + error;
  return (Bits)shifted;
}

// The sine (kQuarter 0) or the cosine (1) of |x| <= kFarWave.
template <int kQuarter>
INLINE V<double> sin_or_cos(V<double> x) {
  V<double> y, tail;
  const Longs quarter = (Longs)(reduce_by_half_pi(x, &y, &tail) + kQuarter);
  const V<double> w = select((quarter & 1) != 0, cosine_near(y, tail), sine_near(y, tail));
  return (V<double>)((Longs)w ^ (quarter & 2) << 62);
}

struct Sin {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs far = ~(absolute<double>(x) <= splat(kFarWave));
    V<double> y = sin_or_cos<0>(x);
    y = x == splat(0.0) ? x : y;  // sin(-0) is -0
    if (__builtin_expect(any_lane(far), 0)) {
      for (int i = 0; i < kLanes<double>; ++i) y[i] = far[i] ? __builtin_sin(x[i]) : y[i];
    }
    return y;
  }
};

struct Cos {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs far = ~(absolute<double>(x) <= splat(kFarWave));
    V<double> y = sin_or_cos<1>(x);
    if (__builtin_expect(any_lane(far), 0)) {
      for (int i = 0; i < kLanes<double>; ++i) y[i] = far[i] ? __builtin_cos(x[i]) : y[i];
    }
    return y;
  }
};

// sin(pi r) and cos(pi r) for |r| <= 1.
INLINE V<double> sine_of_half_turns(V<double> r) {
  const V<double> n = nearest(r), f = r - n;  // 1/2 rounds to 0, so |f| <= 1/2
  const V<double> y = sin_or_cos<0>(3.14159265358979323846 * f);
  return n == splat(0.0) ? y : -y;
}
INLINE V<double> cosine_of_half_turns(V<double> r) {
  const V<double> n = nearest(r), f = r - n;
  const V<double> y = sin_or_cos<1>(3.14159265358979323846 * f);
  return n == splat(0.0) ? y : -y;
}

// The even integer nearest to x, or x itself if it is a large even integer or NaN; the difference is at most 1.
INLINE V<double> nearest_even_integer(V<double> x) {
  const V<double> n = 2.0 * nearest(0.5 * x);
  return absolute<double>(x) < splat(2251799813685248.0) ? n : x;
}

// sin(pi x) / (pi x), and 1 at 0.
struct Sinc {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = sine_of_half_turns(x - nearest_even_integer(x)) / (3.14159265358979323846 * x);
    const V<double> far = absolute<double>(x) == splat(__builtin_inf()) ? splat(__builtin_nan("")) : y;
    return x == splat(0.0) ? splat(1.0) : far;
  }
};
