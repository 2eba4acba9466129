// The regularised incomplete gamma functions. Included inside a level's namespace, after lgamma_digamma.simd.h.
//
// For x < a + 1 the series of P, above it Legendre's continued fraction of Q (Press et al. 2007, 6.2). Both are
// computed as ratios of two numbers, so that no step divides; the two are scaled down together before they overflow.
// All lanes iterate until the last one has converged, or for kMostSteps, more than x near a = 1e7 needs.

constexpr int kMostSteps = 20000;

// The sum of z^k / (2 k + 3) over k = 0, 1, ..., for z <= 1/16: the series of artanh after its first term.
INLINE V<double> odd_series_tail(V<double> z) {
  constexpr double kOdd[] = {1.0 / 29, 1.0 / 27, 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17,
                             1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  return polynomial(kOdd, z);
}

// x^a e^-x / gamma(a + 1). For a >= 8 by Stirling's series and a (log(1 + m) - m) with m = (x - a) / a,
// which does not cancel near x = a (Didonato and Morris 1986, after Temme).
template <bool kFine>
INLINE V<double> gamma_front(V<double> a, V<double> x) {
  constexpr double kStirling[] = {-1.63092934096575273989e-03, 8.36339918996282139126e-04,  -5.95187557450339963135e-04,
                                  7.93650558643019558500e-04,  -2.77777777728775536470e-03, 8.33333333333329678849e-02};
  const Longs large = a >= splat(8.0);
  V<double> exponent = {}, factor = splat(1.0);
  if (any_lane(~large)) {
    const V<double> low = select(large, splat(1.0), a);
    exponent = low * log_all<kFine>(x) - x - log_gamma<kFine>(low + 1.0);
  }
  if (any_lane(large)) {
    const V<double> high = select(large, a, splat(8.0)), z = 1.0 / high, m = (x - high) * z;
    const V<double> s = m / (2.0 + m), square = s * s;
    // log(1 + m) = 2 artanh s, and 2 s - m = -m s
    const V<double> near = s * square * 2.0 * odd_series_tail(square) - m * s;
    const V<double> gap = select(absolute<double>(m) < splat(0.4), near, log_all<kFine>(x * z) - m);
    exponent = select(large, high * gap - z * polynomial(kStirling, z * z), exponent);
    factor = select(large, root(z * 0.15915494309189533577), factor);
  }
  exponent = exponent > splat(-760.0) ? exponent : splat(-760.0);
  V<double> n;
  const V<double> fraction = exp_minus_one_scaled<kFine>(exponent, V<double>{}, &n);
  return scale_by_power_of_two(factor * (1.0 + fraction), n);
}

// The sum of x^k / ((a + 1) ... (a + k)) over k = 0, 1, ... in the `active` lanes.
template <bool kFine>
INLINE V<double> gamma_series(V<double> a, V<double> x, Longs active) {
  constexpr double kSmall = kFine ? 1e-17 : 1e-11;
  V<double> n = a, power = splat(1.0), above = splat(1.0), below = splat(1.0);
  for (int step = 0; step < kMostSteps; step += 4) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      n = n + 1.0;
      power = power * x;
      below = below * n;
      above = above * n + power;
    }
    if (!any_lane(active & (power > above * kSmall))) break;
    const Longs large = above > splat(1e150);
    if (any_lane(large)) {
      const V<double> scale = select(large, splat(1e-150), splat(1.0));
      power = power * scale, above = above * scale, below = below * scale;
    }
  }
  return above / below;
}

// Q(a, x) divided by the front factor, in the `active` lanes.
template <bool kFine>
INLINE V<double> gamma_fraction(V<double> a, V<double> x, Longs active) {
  constexpr double kSmall = kFine ? 2e-16 : 1e-11;
  V<double> y = 1.0 - a, z = x + y + 1.0, count = splat(0.0);
  V<double> above_last = splat(1.0), below_last = x, above = x + 1.0, below = z * x;
  for (int step = 0; step < kMostSteps; step += 4) {
    V<double> change;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      count = count + 1.0;
      y = y + 1.0;
      z = z + 2.0;
      const V<double> c = y * count;
      const V<double> p = above * z - above_last * c, q = below * z - below_last * c;
      above_last = above, below_last = below;
      above = p, below = q;
    }
    change = absolute<double>(above * below_last - above_last * below);
    if (!any_lane(active & (change > absolute<double>(above * below_last) * kSmall))) break;
    const Longs large = absolute<double>(above) > splat(1e100);
    if (any_lane(large)) {
      const V<double> scale = select(large, splat(1e-100), splat(1.0));
      above = above * scale, below = below * scale;
      above_last = above_last * scale, below_last = below_last * scale;
    }
  }
  return above / below;
}

// Q(a, x) for 0 < a <= 1/2 and x <= 3/2, where 1 - P cancels: 1 - x^a / gamma(1 + a), and the series of P after its
// first term (igamc_series in Cephes' igam.c).
template <bool kFine>
INLINE V<double> gamma_upper_small(V<double> a, V<double> x) {
  constexpr int kTerms = kFine ? 22 : 14;
  const V<double> l = a * (log_all<kFine>(x) - polynomial<kFine>(kGammaOneFine, kGammaOneShort, a));
  V<double> n, power = splat(1.0), total = {};
#pragma GCC unroll 1
  for (int k = 1; k <= kTerms; ++k) {
    power = power * x * splat(-1.0 / k);
    total = total + power / (a + double(k));
  }
  const V<double> fraction = exp_minus_one_scaled<kFine>(l > splat(-760.0) ? l : splat(-760.0), V<double>{}, &n);
  const V<double> e = scale_by_power_of_two(1.0 + fraction, n);
  return select(n == splat(0.0), -fraction, 1.0 - e) - e * a * total;
}

// P(a, x), or Q(a, x) if kUpper. At the limits the same as SciPy: 0, 1 or NaN.
template <bool kUpper>
struct IncompleteGamma {
  template <bool kFine>
  static INLINE V<double> at(V<double> a, V<double> x) {
    const V<double> end = splat(__builtin_inf()), zero = {}, one = splat(1.0);
    const Longs valid = (a > zero) & (x > zero) & (a < end) & (x < end);
    const V<double> b = select(valid, a, one), v = select(valid, x, one);
    const V<double> front = gamma_front<kFine>(b, v);
    const Longs low = v < b + 1.0;
    V<double> out = {};
    if (any_lane(low)) {
      const V<double> p = front * gamma_series<kFine>(b, select(low, v, b), low);
      out = kUpper ? 1.0 - p : p;
      const Longs small = low & (b <= splat(0.5));
      if (kUpper && any_lane(small)) {
        const V<double> q = gamma_upper_small<kFine>(select(small, b, splat(0.5)), select(small, v, one));
        out = select(small, q, out);
      }
    }
    if (any_lane(~low)) {
      const V<double> q = front * b * gamma_fraction<kFine>(b, select(low, b + 1.0, v), ~low);
      out = select(low, out, kUpper ? q : 1.0 - q);
    }
    const V<double> limit_at_zero = kUpper ? one : zero, limit = kUpper ? zero : one;
    out = (x == zero) & (a > zero) ? limit_at_zero : out;
    out = (a == zero) & (x > zero) ? limit : out;
    out = (x == end) & (a >= zero) ? limit : out;
    out = (a == end) & (x >= zero) ? limit_at_zero : out;
    const Longs right = (a >= zero) & (x >= zero) & ((a > zero) | (x > zero)) & ((a < end) | (x < end));
    return right ? out : splat(__builtin_nan(""));
  }
};
