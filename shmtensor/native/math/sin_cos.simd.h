// Sine and cosine of double. Included inside a level's namespace, after vector_float64.simd.h.
//
// The reduction by pi / 2 in pieces of 33 bits and the polynomials are those of Sun's fdlibm
// (e_rem_pio2.c, k_sin.c, k_cos.c): below 1 unit in the last place. Beyond kFarWave, where a quarter's number
// times a piece is no longer exact, and for what is no number, libm does it.

constexpr double kFarWave = 1e6;

// x + tail for |x| <= pi / 4.
INLINE V<double> sine_near(V<double> x, V<double> tail) {
  constexpr double kSine[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                              2.75573137070700676789e-06, -1.98412698298579493134e-04,
                              8.33333333332248946124e-03};
  const V<double> z = x * x, v = z * x, r = polynomial(kSine, z);
  return x - ((z * (0.5 * tail - v * r) - tail) - v * -1.66666666666666324348e-01);
}
INLINE V<double> cosine_near(V<double> x, V<double> tail) {
  constexpr double kCosine[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                -1.38888888888741095749e-03, 4.16666666666666019037e-02};
  const V<double> z = x * x, r = z * polynomial(kCosine, z), half = 0.5 * z, w = 1.0 - half;
  return w + (((1.0 - w) - half) + (z * r - x * tail));
}

// y + tail is |x| <= kFarWave less the nearest multiple of pi / 2, whose number is returned.
INLINE Bits quarters(V<double> x, V<double>* y, V<double>* tail) {
  const V<double> shifted = x * 6.36619772367581382433e-01 + 6755399441055744.0;
  const V<double> n = shifted - 6755399441055744.0;
  const V<double> a = x - n * 1.57079632673412561417e+00, b = n * 6.07710050630396597660e-11;
  const V<double> r = a - b, lost = ((a - r) - b) - n * 2.02226624879595063154e-21;
  *y = r + lost, *tail = (r - *y) + lost;
  return (Bits)shifted;
}

// The sine (kQuarter 0) or the cosine (1) of |x| <= kFarWave.
template <int kQuarter>
INLINE V<double> wave(V<double> x) {
  V<double> y, tail;
  const Longs quarter = (Longs)(quarters(x, &y, &tail) + kQuarter);
  const V<double> w = pick((quarter & 1) != 0, cosine_near(y, tail), sine_near(y, tail));
  return (V<double>)((Longs)w ^ (quarter & 2) << 62);
}

struct Sin {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs far = ~(absolute<double>(x) <= all(kFarWave));
    V<double> y = wave<0>(x);
    y = x == all(0.0) ? x : y;  // of -0 the sine is -0
    if (__builtin_expect(somewhere(far), 0)) {
      for (int i = 0; i < kLanes<double>; ++i) y[i] = far[i] ? __builtin_sin(x[i]) : y[i];
    }
    return y;
  }
};

struct Cos {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs far = ~(absolute<double>(x) <= all(kFarWave));
    V<double> y = wave<1>(x);
    if (__builtin_expect(somewhere(far), 0)) {
      for (int i = 0; i < kLanes<double>; ++i) y[i] = far[i] ? __builtin_cos(x[i]) : y[i];
    }
    return y;
  }
};

// sin(pi r) and cos(pi r) for |r| <= 1.
INLINE V<double> sine_of_half_turns(V<double> r) {
  const V<double> n = nearest(r), f = r - n;  // of a half the nearest is 0: f stays within a quarter turn
  const V<double> y = wave<0>(3.14159265358979323846 * f);
  return n == all(0.0) ? y : -y;
}
INLINE V<double> cosine_of_half_turns(V<double> r) {
  const V<double> n = nearest(r), f = r - n;
  const V<double> y = wave<1>(3.14159265358979323846 * f);
  return n == all(0.0) ? y : -y;
}

// The even whole number nearest to x; x itself where it is even or no number: x less it is within 1.
INLINE V<double> whole_or_itself(V<double> x) {
  const V<double> n = 2.0 * nearest(0.5 * x);
  return absolute<double>(x) < all(2251799813685248.0) ? n : x;
}

// sin(pi x) / (pi x), and 1 at 0.
struct Sinc {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = sine_of_half_turns(x - whole_or_itself(x)) / (3.14159265358979323846 * x);
    const V<double> far = absolute<double>(x) == all(__builtin_inf()) ? all(__builtin_nan("")) : y;
    return x == all(0.0) ? all(1.0) : far;
  }
};
