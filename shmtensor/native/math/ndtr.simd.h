// The normal distribution function with accurate tails, its logarithm and its inverse, and e^(x^2) erfc(x). Included
// inside a level's namespace, after erf.simd.h.
//
// e^(x^2) erfc(x) (x + 2) in 1 / (x + 2) for all x >= 0, interpolated at Chebyshev points, computed
// with 50 digits: relative error 6e-17. The inverse is Wichura's (1988, algorithm AS 241, PPND16).

constexpr double kScaledErfc[] = {
    -7.97272588554956e-10,   2.4197492488406462e-09,  3.264679761433869e-09,   -1.9551113334223134e-08,
    1.028069183791381e-08,   5.8262310616975016e-08,  -1.1093174088422868e-07, -3.697338737524366e-09,
    3.2493989974349995e-07,  -5.707689549110195e-07,  -2.314494761038136e-09,  2.0015964702606106e-06,
    -3.6436722854017635e-06, -1.1255118384756236e-06, 1.6120853927716374e-05,  -2.16961565766641e-05,
    -3.4148871861537866e-05, 0.00014447071097994858,  -3.437144135383938e-05,  -0.0006630734966923778,
    0.0008372960630002355,   0.0030906120582444006,   -0.006479185067758026,   -0.021510661889438697,
    0.036442231506879,       0.2794720925560539,      0.6871606844138106,      1.021582705242023};

// e^(x^2) erfc(x) for x >= 0.
INLINE V<double> scaled_complement(V<double> x) {
  const V<double> t = 1.0 / (x + 2.0);
  return t * polynomial(kScaledErfc, t * 4.0 - 1.0);
}

struct ErfcScaled {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> size = absolute<double>(x);
    V<double> y = scaled_complement(size);
    const Longs low = x < splat(0.0);
    if (any_lane(low)) {  // 2 e^(x^2) - y, with the rounding error of x^2
      const V<double> a = size < splat(27.0) ? size : splat(27.0);
      const V<double> head = (V<double>)((Longs)a & ~0xffffffffLL);
      V<double> n;
      const V<double> fraction = exp_minus_one_scaled<kFine>(head * head, (a - head) * (a + head), &n);
      y = select(low, scale_by_power_of_two(2.0 + 2.0 * fraction, n) - y, y);
    }
    return x == x ? y : x;
  }
};

// P(X > x). In the tail the rounding error of x / sqrt(2) matters; it is corrected by the derivative of the logarithm,
// 2 / (sqrt(pi) e^(z^2) erfc(z)), about z + sqrt(z^2 + 4 / pi).
template <bool kFine>
INLINE V<double> normal_above(V<double> x) {
  constexpr double kRatio = 0.70710678118654752440, kRest = -4.833646656726457e-17;
  const V<double> z = x * kRatio, y = 0.5 * Erfc::at<kFine>(z);
  if constexpr (!kFine || !kFuses) return y;
  const V<double> error = fused(x, splat(kRatio), -z) + x * kRest;
  const V<double> corrected = y - y * error * (z + root(z * z + 1.27323954473516268615));
  return (z > splat(0.0)) & (z < splat(28.0)) ? corrected : y;
}

struct NormalDistribution {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return normal_above<kFine>(-x);
  }
};

struct LogNormalDistribution {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs low = x < splat(-1.0);
    V<double> y = {};
    if (any_lane(~low)) {
      const V<double> e = -normal_above<kFine>(select(low, V<double>{}, x)), w = 1.0 + e;
      y = log_of<kFine>(w) - ((w - 1.0) - e) / w;
    }
    if (any_lane(low)) {
      const V<double> v = select(low, x * -0.70710678118654752440, splat(1.0)), square = 0.5 * x * x;
      y = select(low, log_all<kFine>(0.5 * scaled_complement(v)) - square, y);
    }
    return x == x ? y : x;
  }
};

constexpr double kQuantileMiddle[] = {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                                      4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                                      1.3314166789178437745e2, 3.3871328727963666080e0};
constexpr double kQuantileMiddleBelow[] = {
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
constexpr double kQuantileTail[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                    1.27045825245236838258e0,  3.64784832476320460504e0,  5.76949722146069140550e0,
                                    4.63033784615654529590e0,  1.42343711074968357734e0};
constexpr double kQuantileTailBelow[] = {
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0,  2.05319162663775882187e0,  1.0};
constexpr double kQuantileFar[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                                   2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
                                   5.46378491116411436990e0,  6.65790464350110377720e0};
constexpr double kQuantileFarBelow[] = {
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};

struct NormalQuantile {
  template <bool kFine>
  static INLINE V<double> at(V<double> p) {
    const V<double> q = p - 0.5, middle = 0.180625 - q * q;
    V<double> y = q * polynomial(kQuantileMiddle, middle) / polynomial(kQuantileMiddleBelow, middle);
    const Longs outer = absolute<double>(q) > splat(0.425);
    if (any_lane(outer)) {
      const V<double> smaller_tail = p < splat(0.5) ? p : 1.0 - p;
      const V<double> r = root(-log_all<kFine>(select(outer, smaller_tail, splat(0.05)))), t = r - 1.6;
      V<double> z = polynomial(kQuantileTail, t) / polynomial(kQuantileTailBelow, t);
      const Longs far = r > splat(5.0);
      if (__builtin_expect(any_lane(far), 0)) {
        const V<double> u = r - 5.0;
        z = select(far, polynomial(kQuantileFar, u) / polynomial(kQuantileFarBelow, u), z);
      }
      y = select(outer, copy_sign_of(z, q), y);
    }
    y = (p == splat(0.0)) | (p == splat(1.0)) ? copy_sign_of(splat(__builtin_inf()), q) : y;
    return (p >= splat(0.0)) & (p <= splat(1.0)) ? y : splat(__builtin_nan(""));
  }
};
