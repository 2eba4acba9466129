// Exponentials, logarithms and hyperbolic functions, with their inverses. Included inside a level's
// namespace, after tan_asin_acos_atan.simd.h. The logarithm of 1 + x puts back what the sum lost, and the hyperbolic
// functions are made of it and of e^x - 1, so that nothing is lost next to 0.

constexpr double kLeastNormal = 2.2250738585072014e-308, kMostFinite = 1.7976931348623157e308;

// Between the bounds; NaN stays.
INLINE V<double> within(V<double> x, double low, double high) {
  const V<double> y = x > all(high) ? all(high) : x;
  return y < all(low) ? all(low) : y;
}

// 2^n for whole |n| <= 1022.
INLINE V<double> power_of_two(V<double> n) {
  return (V<double>)(((Bits)(n + 6755399441055744.0) - 0x4338000000000000ULL + 1023) << 52);
}

struct Exp {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return exp_of<kFine>(within(x, -760.0, 760.0));
  }
};

struct Exp2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = within(x, -1090.0, 1090.0), n = nearest(y);
    V<double> more;
    const V<double> rest = exp_rest<kFine>((y - n) * 0.69314718055994530942, V<double>{}, &more);
    return scaled(1.0 + rest, n + more);
  }
};

// e^y - 1 for -40 <= y <= 760, and (e^y) / 2, where y is large.
template <bool kFine>
INLINE V<double> exp_less_one(V<double> y, V<double>* half) {
  V<double> n;
  const V<double> rest = exp_rest<kFine>(y, V<double>{}, &n), two = power_of_two(n);
  *half = scaled(1.0 + rest, n - 1.0);
  return two * rest + (two - 1.0);
}

constexpr double kOneIsNothing = 40.0;  // beside e to this power

struct Expm1 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = within(x, -kOneIsNothing, 760.0);
    V<double> half;
    const V<double> less = exp_less_one<kFine>(y, &half);
    return x == all(0.0) ? x : pick(y > all(kOneIsNothing), 2.0 * half, less);
  }
};

struct Sinh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = within(absolute<double>(x), 0.0, 760.0);
    V<double> half;
    const V<double> less = exp_less_one<kFine>(y, &half);
    return with_sign_of(pick(y > all(kOneIsNothing), half, 0.5 * (less + less / (less + 1.0))), x);
  }
};

struct Tanh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> half;
    const V<double> less = exp_less_one<kFine>(within(2.0 * absolute<double>(x), 0.0, kOneIsNothing), &half);
    return with_sign_of(less / (less + 2.0), x);
  }
};

struct Cosh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> n;
    const V<double> rest = exp_rest<kFine>(within(absolute<double>(x), 0.0, 760.0), V<double>{}, &n);
    const V<double> half = scaled(1.0 + rest, n - 1.0);
    return half + 0.25 / half;
  }
};

// log(u + lost), plus `more` times log 2, of normal u: `lost` is below its last place.
template <bool kFine>
INLINE V<double> log_and(V<double> u, V<double> lost, V<double> more = V<double>{}) {
  return log_of<kFine>(u, more) + (kFine ? lost / u : u < all(2.0) ? lost : V<double>{});
}

// What 1 + t lost of t.
INLINE V<double> lost_of(V<double> t, V<double> u) {
  const V<double> back = u - 1.0;
  return (1.0 - (u - back)) + (t - back);
}

struct Log1p {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> u = 1.0 + x, y = log_and<kFine>(u, lost_of(x, u));
    const Longs usual = (x > all(-1.0)) & (x <= all(kMostFinite));
    return lanes_by(~usual, x == all(0.0) ? x : y, [&](int i) INLINE_LAMBDA { return __builtin_log1p(x[i]); });
  }
};

struct Log {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return log_all<kFine>(x);
  }
};

// x = m 2^e: the logarithm of m, which is in [sqrt(1/2), sqrt 2), of normal x; nothing where it is 1.
template <bool kFine>
INLINE V<double> log_of_part(V<double> x, V<double>* e) {
  const Bits moved = (Bits)x - 0x3fe6a09e667f3bcdULL;
  *e = (V<double>)((moved >> 52 ^ 0x800) + 0x4330000000000000ULL) - (4503599627370496.0 + 2048.0);
  return log_of<kFine>((V<double>)((moved & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL));
}

struct Log2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> e;
    const V<double> part = log_of_part<kFine>(x, &e), y = part * 1.4426950408889634074 + e;
    const Longs usual = (x >= all(kLeastNormal)) & (x <= all(kMostFinite));
    return lanes_by(~usual, y, [&](int i) INLINE_LAMBDA { return __builtin_log2(x[i]); });
  }
};

struct Log10 {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> e;
    const V<double> part = log_of_part<kFine>(x, &e);
    const V<double> low = part * 4.34294481903251816668e-01 + e * 3.69423907715893078616e-13;
    const V<double> y = e * 3.01029995663611771306e-01 + low;
    const Longs usual = (x >= all(kLeastNormal)) & (x <= all(kMostFinite));
    return lanes_by(~usual, y, [&](int i) INLINE_LAMBDA { return __builtin_log10(x[i]); });
  }
};

constexpr double kSquareIsAll = 268435456.0;  // beyond it 1 is nothing beside the square

struct Asinh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), t = a + a * a / (1.0 + root(a * a + 1.0)), sum = 1.0 + t;
    const Longs far = a > all(kSquareIsAll);
    const V<double> u = pick(far, a, sum), lost = pick(far, V<double>{}, lost_of(t, sum));
    const V<double> y = log_and<kFine>(u, lost, pick(far, all(1.0), V<double>{}));
    return lanes_by(~(a <= all(kMostFinite)), with_sign_of(y, x),
                    [&](int i) INLINE_LAMBDA { return __builtin_asinh(x[i]); });
  }
};

struct Acosh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> d = x - 1.0, t = d + root(d * (d + 2.0)), sum = 1.0 + t;
    const Longs far = x > all(kSquareIsAll);
    const V<double> u = pick(far, x, sum), lost = pick(far, V<double>{}, lost_of(t, sum));
    const V<double> y = log_and<kFine>(u, lost, pick(far, all(1.0), V<double>{}));
    const Longs usual = (x >= all(1.0)) & (x <= all(kMostFinite));
    return lanes_by(~usual, y, [&](int i) INLINE_LAMBDA { return __builtin_acosh(x[i]); });
  }
};

struct Atanh {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), t = 2.0 * a / (1.0 - a), u = 1.0 + t;
    const V<double> y = 0.5 * log_and<kFine>(u, lost_of(t, u));
    return lanes_by(~(a < all(1.0)), with_sign_of(y, x),
                    [&](int i) INLINE_LAMBDA { return __builtin_atanh(x[i]); });
  }
};

// Of float32 alone: by e^(y log x) the logarithm's error counts as often as y log x is large.
struct Power {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> out = exp_of<false>(within(y * log_of<true>(x), -760.0, 760.0));
    const Longs finite = (x <= all(kMostFinite)) & (absolute<double>(y) <= all(kMostFinite));
    return lanes_by(~(finite & (x > all(0.0))), out,
                    [&](int i) INLINE_LAMBDA { return __builtin_pow(x[i], y[i]); });
  }
};
