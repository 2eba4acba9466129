// Exponentials, logarithms, hyperbolic functions and their inverses. Included inside a level's namespace, after
// tan_asin_acos_atan.simd.h. log(1 + x) corrects the rounding error of 1 + x, and the hyperbolic functions use it and
// e^x - 1, so that they are accurate near 0.

constexpr double kLeastNormal = 2.2250738585072014e-308, kMostFinite = 1.7976931348623157e308;

// Clamps x to [low, high]; NaN stays.
INLINE V<double> clamp_to(V<double> x, double low, double high) {
  const V<double> y = x > splat(high) ? splat(high) : x;
  return y < splat(low) ? splat(low) : y;
}

// 2^n for integers |n| <= 1022.
INLINE V<double> power_of_two(V<double> n) {
  return (V<double>)(((Bits)(n + 6755399441055744.0) - 0x4338000000000000ULL + 1023) << 52);
}

struct Exp {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return exp_of<kFine>(clamp_to(x, -760.0, 760.0));
  }
};

struct Exp2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = clamp_to(x, -1090.0, 1090.0), n = nearest(y);
    V<double> m;
    const V<double> fraction = exp_minus_one_scaled<kFine>((y - n) * 0.69314718055994530942, V<double>{}, &m);
    return scale_by_power_of_two(1.0 + fraction, n + m);
  }
};

// e^y - 1 for -40 <= y <= 760; *half is e^y / 2, which does not overflow.
template <bool kFine>
INLINE V<double> expm1_and_half(V<double> y, V<double>* half) {
  V<double> n;
  const V<double> fraction = exp_minus_one_scaled<kFine>(y, V<double>{}, &n), two = power_of_two(n);
  *half = scale_by_power_of_two(1.0 + fraction, n - 1.0);
  return two * fraction + (two - 1.0);
}

constexpr double kOneNegligibleBesideExp = 40.0;  // above, e^x - 1 rounds to e^x

struct Expm1 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = clamp_to(x, -kOneNegligibleBesideExp, 760.0);
    V<double> half;
    const V<double> expm1 = expm1_and_half<kFine>(y, &half);
    return x == splat(0.0) ? x : select(y > splat(kOneNegligibleBesideExp), 2.0 * half, expm1);
  }
};

struct Sinh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = clamp_to(absolute<double>(x), 0.0, 760.0);
    V<double> half;
    const V<double> expm1 = expm1_and_half<kFine>(y, &half);
    return copy_sign_of(select(y > splat(kOneNegligibleBesideExp), half, 0.5 * (expm1 + expm1 / (expm1 + 1.0))), x);
  }
};

struct Tanh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> half;
    const V<double> y = clamp_to(2.0 * absolute<double>(x), 0.0, kOneNegligibleBesideExp);
    const V<double> expm1 = expm1_and_half<kFine>(y, &half);
    return copy_sign_of(expm1 / (expm1 + 2.0), x);
  }
};

struct Cosh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> n;
    const V<double> fraction = exp_minus_one_scaled<kFine>(clamp_to(absolute<double>(x), 0.0, 760.0), V<double>{}, &n);
    const V<double> half = scale_by_power_of_two(1.0 + fraction, n - 1.0);
    return half + 0.25 / half;
  }
};

// log(u + error) + extra * log 2 for normal u; `error` is below u's last place.
template <bool kFine>
INLINE V<double> log_compensated(V<double> u, V<double> error, V<double> extra = V<double>{}) {
  return log_of<kFine>(u, extra) + (kFine ? error / u : u < splat(2.0) ? error : V<double>{});
}

// The rounding error of u = 1 + t.
INLINE V<double> sum_error(V<double> t, V<double> u) {
  const V<double> back = u - 1.0;
  return (1.0 - (u - back)) + (t - back);
}

struct Log1p {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> u = 1.0 + x, y = log_compensated<kFine>(u, sum_error(x, u));
    const Longs regular = (x > splat(-1.0)) & (x <= splat(kMostFinite));
    return replace_lanes(~regular, x == splat(0.0) ? x : y, [&](int i) INLINE_LAMBDA { return __builtin_log1p(x[i]); });
  }
};

struct Log {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return log_all<kFine>(x);
  }
};

// x = m 2^e for normal x, with m in [sqrt(1/2), sqrt 2): returns log m, which is 0 for m = 1.
template <bool kFine>
INLINE V<double> log_of_mantissa(V<double> x, V<double>* e) {
  const Bits shifted = (Bits)x - 0x3fe6a09e667f3bcdULL;
  *e = (V<double>)((shifted >> 52 ^ 0x800) + 0x4330000000000000ULL) - (4503599627370496.0 + 2048.0);
  return log_of<kFine>((V<double>)((shifted & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL));
}

struct Log2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> e;
    const V<double> log_mantissa = log_of_mantissa<kFine>(x, &e), y = log_mantissa * 1.4426950408889634074 + e;
    const Longs regular = (x >= splat(kLeastNormal)) & (x <= splat(kMostFinite));
    return replace_lanes(~regular, y, [&](int i) INLINE_LAMBDA { return __builtin_log2(x[i]); });
  }
};

struct Log10 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> e;
    const V<double> log_mantissa = log_of_mantissa<kFine>(x, &e);
    const V<double> low = log_mantissa * 4.34294481903251816668e-01 + e * 3.69423907715893078616e-13;
    const V<double> y = e * 3.01029995663611771306e-01 + low;
    const Longs regular = (x >= splat(kLeastNormal)) & (x <= splat(kMostFinite));
    return replace_lanes(~regular, y, [&](int i) INLINE_LAMBDA { return __builtin_log10(x[i]); });
  }
};

constexpr double kOneNegligibleBesideSquare = 268435456.0;  // above, x^2 + 1 rounds to x^2

struct Asinh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), t = a + a * a / (1.0 + root(a * a + 1.0)), sum = 1.0 + t;
    const Longs far = a > splat(kOneNegligibleBesideSquare);
    const V<double> u = select(far, a, sum), error = select(far, V<double>{}, sum_error(t, sum));
    const V<double> y = log_compensated<kFine>(u, error, select(far, splat(1.0), V<double>{}));
    return replace_lanes(~(a <= splat(kMostFinite)), copy_sign_of(y, x),
                         [&](int i) INLINE_LAMBDA { return __builtin_asinh(x[i]); });
  }
};

struct Acosh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> d = x - 1.0, t = d + root(d * (d + 2.0)), sum = 1.0 + t;
    const Longs far = x > splat(kOneNegligibleBesideSquare);
    const V<double> u = select(far, x, sum), error = select(far, V<double>{}, sum_error(t, sum));
    const V<double> y = log_compensated<kFine>(u, error, select(far, splat(1.0), V<double>{}));
    const Longs regular = (x >= splat(1.0)) & (x <= splat(kMostFinite));
    return replace_lanes(~regular, y, [&](int i) INLINE_LAMBDA { return __builtin_acosh(x[i]); });
  }
};

struct Atanh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), t = 2.0 * a / (1.0 - a), u = 1.0 + t;
    const V<double> y = 0.5 * log_compensated<kFine>(u, sum_error(t, u));
    return replace_lanes(~(a < splat(1.0)), copy_sign_of(y, x), [&](int i) INLINE_LAMBDA { return __builtin_atanh(x[i]); });
  }
};

// For float32 only: in e^(y log x) the error of the logarithm is multiplied by y log x.
struct Power {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> out = exp_of<false>(clamp_to(y * log_of<true>(x), -760.0, 760.0));
    const Longs finite = (x <= splat(kMostFinite)) & (absolute<double>(y) <= splat(kMostFinite));
    return replace_lanes(~(finite & (x > splat(0.0))), out, [&](int i) INLINE_LAMBDA { return __builtin_pow(x[i], y[i]); });
  }
};
