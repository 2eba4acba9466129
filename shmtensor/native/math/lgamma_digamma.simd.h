// The gamma function's logarithm and its derivative. Included inside a level's namespace, after vector_float64.simd.h
// and sin_cos.simd.h.
//
// log(gamma) is 0 at 1 and 2; (log gamma(2 + f)) / f and (log gamma(1 + f)) / f are interpolated at Chebyshev points
// for |f| <= 1/2, with 50 digits. Up to 8 the logarithm of a product is added; above, Stirling's series (the
// coefficients of Sun's fdlibm, e_lgamma_r.c) is used.

constexpr double kGammaTwoFine[] = {
    2.7880013392491846e-07, -5.812501250599261e-07, 9.199898075671394e-07,  -1.9741884532905586e-06, 4.3847319318293745e-06,
    -9.456338120610123e-06, 2.0505584372896933e-05, -4.492371708374659e-05, 9.945767440096764e-05,   -0.00022315497868931946,
    0.0005096695153484373,  -0.0011927539009204018, 0.002890510331036772,   -0.007385551028937974,   0.020580808427780335,
    -0.0673523010531956,    0.32246703342411326,    0.42278433509846713};
constexpr double kGammaTwoShort[] = {-5.279720076649535e-05, 0.00011500355768401579, -0.00022086359602971272,
                                     0.0005056574201943736,  -0.0011930560653655184, 0.002890956191431478,
                                     -0.0073855331401251135, 0.020580788331734278,   -0.0673523014391886,
                                     0.3224670336769287,     0.42278433509981406};
constexpr double kGammaOneFine[] = {
    -0.24134519253805736, 0.23325420200258892,  0.19662943603137412,  -0.17487580734478056, -0.17545100195447957,
    0.1597915748331983,   0.005627198134008818, 0.00471934060040921,  -0.05967209611450288, 0.05945369312534371,
    -0.05055361916461507, 0.05402684381687545,  -0.05907935115771443, 0.06267540247447202,  -0.06664634848826916,
    0.07141895655769624,  -0.07693389168797567, 0.08335461458595932,  -0.09095395937948512, 0.10009942900736879,
    -0.11133426744819344, 0.12550967018227932,  -0.14404989674293042, 0.1695571769888392,   -0.20738555102889636,
    0.2705808084278366,   -0.40068563438653065, 0.8224670334241131,   -0.5772156649015329};
constexpr double kGammaOneShort[] = {-0.17965638964996217, 0.1781697311919692,  0.002258996517630904, 0.010394267408634509,
                                     -0.09614735382956748, 0.09891247539379974, -0.087949083679592,   0.09792169457820481,
                                     -0.11160506988432028, 0.12567944909512116, -0.14403633910206143, 0.16955023187545476,
                                     -0.2073858886538743,  0.2705809351292448,  -0.40068563116487277, 0.8224670327529986,
                                     -0.5772156649065762};

// For x >= 0.
template <bool kFine>
INLINE V<double> log_gamma(V<double> x) {
  constexpr double kStirling[] = {-1.63092934096575273989e-03, 8.36339918996282139126e-04,  -5.95187557450339963135e-04,
                                  7.93650558643019558500e-04,  -2.77777777728775536470e-03, 8.33333333333329678849e-02};
  const Longs large = x >= splat(8.0);
  const V<double> low = select(large, splat(8.0), x), n = nearest(low), f = low - n;
  const Longs one = n <= splat(1.0);
  V<double> near = f * polynomial<kFine>(kGammaTwoFine, kGammaTwoShort, f);
  if (any_lane(one)) near = select(one, f * polynomial<kFine>(kGammaOneFine, kGammaOneShort, f), near);
  V<double> product = splat(1.0);
#pragma GCC unroll 8
  for (int j = 2; j < 8; ++j) product *= select(n > splat(double(j)), f + double(j), splat(1.0));
  const V<double> l = log_all<kFine>(select(large, x, select(n == splat(0.0), x, product)));
  const V<double> z = 1.0 / select(large, x, splat(8.0));
  const V<double> far = (x - 0.5) * (l - 1.0) + (z * polynomial(kStirling, z * z) + 4.18938533204672725052e-01);
  return select(large, far, near + select(n == splat(0.0), -l, l));
}

struct LogGamma {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> size = absolute<double>(x);
    V<double> y = log_gamma<kFine>(size);
    if (any_lane(x < splat(0.0))) {  // by reflection; integers are poles
      const V<double> r = size - nearest_even_integer(size), s = absolute<double>(sine_of_half_turns(r));
      const V<double> reflected = -(log_all<kFine>(s * 0.31830988618379067154) + log_all<kFine>(size)) - y;
      y = select(x < splat(0.0), select(s == splat(0.0), splat(__builtin_inf()), reflected), y);
    }
    return size == splat(__builtin_inf()) ? size : y;
  }
};

// The recurrence raises x to at least 10, and sums its terms as one quotient; there the asymptotic series. For negative
// x by reflection to 1 - x.
struct Digamma {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    // Bernoulli numbers divided by 2 k
    constexpr double kSeries[] = {3617.0 / 8160, -1.0 / 12,  691.0 / 32760, -1.0 / 132,
                                  1.0 / 240,     -1.0 / 252, 1.0 / 120,     -1.0 / 12};
    const Longs low = x < splat(0.0);
    V<double> y = select(low, 1.0 - x, x), above = splat(0.0), below = splat(1.0);
#pragma GCC unroll 10
    for (int k = 0; k < 10; ++k) {
      const Longs small = y < splat(10.0);
      above = select(small, above * y + below, above);
      below = select(small, below * y, below);
      y = select(small, y + 1.0, y);
    }
    const V<double> v = 1.0 / y, z = v * v;
    V<double> total = log_all<kFine>(y) - 0.5 * v + z * polynomial(kSeries, z) - above / below;
    if (any_lane(low)) {
      const V<double> r = x - nearest_even_integer(x);
      const V<double> s = sine_of_half_turns(r), c = cosine_of_half_turns(r);
      const V<double> reflected = total - 3.14159265358979323846 * c / s;
      total = select(low, select(s == splat(0.0), splat(__builtin_nan("")), reflected), total);
    }
    return x == splat(0.0) ? copy_sign_of(splat(__builtin_inf()), -x) : total;
  }
};

// The derivative of digamma: the recurrence raises x to at least 10, there the asymptotic series; below 1/4 by
// reflection. Infinite at its poles.
struct Trigamma {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    // Bernoulli numbers
    constexpr double kSeries[] = {-3617.0 / 510, 7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6};
    const Longs low = x < splat(0.25);
    V<double> y = select(low, 1.0 - x, x), above = splat(0.0), below = splat(1.0);
#pragma GCC unroll 10
    for (int k = 0; k < 10; ++k) {
      const Longs small = y < splat(10.0);
      const V<double> square = y * y;
      above = select(small, above * square + below, above);
      below = select(small, below * square, below);
      y = select(small, y + 1.0, y);
    }
    const V<double> v = 1.0 / y, z = v * v;
    V<double> total = v + (0.5 * z + v * z * polynomial(kSeries, z)) + above / below;
    if (any_lane(low)) {
      const V<double> s = 3.14159265358979323846 / sine_of_half_turns(x - nearest_even_integer(x));
      total = select(low, s * s - total, total);
    }
    return total;
  }
};
