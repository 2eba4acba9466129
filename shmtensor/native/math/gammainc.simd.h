// The regularised incomplete gamma functions. Included inside a level's namespace, after lgamma_digamma.simd.h.
//
// Below a + 1 the series of P, above it Legendre's continued fraction of Q (Press et al. 2007, 6.2). Both
// go on as ratios of two numbers that are multiplied and added to, so that no step divides; the numbers
// shrink together before they leave the range. All lanes go on until the last one has converged, or for
// kMostSteps, more than x near a = 1e7 takes.

constexpr int kMostSteps = 20000;

// The sum of z^k / (2 k + 3) over k = 0, 1, ...: what artanh has after its first term, for z <= 1/16.
INLINE V<double> odd_after_first(V<double> z) {
  constexpr double kOdd[] = {1.0 / 29, 1.0 / 27, 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17,
                             1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  return polynomial(kOdd, z);
}

// x^a e^-x / gamma(a + 1). From 8 on by Stirling's series and a (log(1 + m) - m) with m = (x - a) / a,
// which near a cancels nothing (Didonato and Morris 1986, as Temme has it).
template <bool kFine>
INLINE V<double> gamma_front(V<double> a, V<double> x) {
  constexpr double kStirling[] = {-1.63092934096575273989e-03, 8.36339918996282139126e-04,
                                  -5.95187557450339963135e-04, 7.93650558643019558500e-04,
                                  -2.77777777728775536470e-03, 8.33333333333329678849e-02};
  const Longs large = a >= all(8.0);
  V<double> exponent = {}, factor = all(1.0);
  if (somewhere(~large)) {
    const V<double> low = pick(large, all(1.0), a);
    exponent = low * log_all<kFine>(x) - x - log_gamma<kFine>(low + 1.0);
  }
  if (somewhere(large)) {
    const V<double> high = pick(large, a, all(8.0)), z = 1.0 / high, m = (x - high) * z;
    const V<double> s = m / (2.0 + m), square = s * s;
    // log(1 + m) = 2 artanh s, and 2 s - m = -m s
    const V<double> near = s * square * 2.0 * odd_after_first(square) - m * s;
    const V<double> gap = pick(absolute<double>(m) < all(0.4), near, log_all<kFine>(x * z) - m);
    exponent = pick(large, high * gap - z * polynomial(kStirling, z * z), exponent);
    factor = pick(large, root(z * 0.15915494309189533577), factor);
  }
  exponent = exponent > all(-760.0) ? exponent : all(-760.0);
  V<double> n;
  const V<double> rest = exp_rest<kFine>(exponent, V<double>{}, &n);
  return scaled(factor * (1.0 + rest), n);
}

// The sum of x^k / ((a + 1) ... (a + k)) over k = 0, 1, ... where `wanted`.
template <bool kFine>
INLINE V<double> gamma_series(V<double> a, V<double> x, Longs wanted) {
  constexpr double kSmall = kFine ? 1e-17 : 1e-11;
  V<double> n = a, power = all(1.0), above = all(1.0), below = all(1.0);
  for (int step = 0; step < kMostSteps; step += 4) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      n = n + 1.0;
      power = power * x;
      below = below * n;
      above = above * n + power;
    }
    if (!somewhere(wanted & (power > above * kSmall))) break;
    const Longs large = above > all(1e150);
    if (somewhere(large)) {
      const V<double> less = pick(large, all(1e-150), all(1.0));
      power = power * less, above = above * less, below = below * less;
    }
  }
  return above / below;
}

// Q(a, x) over the front where `wanted`.
template <bool kFine>
INLINE V<double> gamma_fraction(V<double> a, V<double> x, Longs wanted) {
  constexpr double kSmall = kFine ? 2e-16 : 1e-11;
  V<double> y = 1.0 - a, z = x + y + 1.0, count = all(0.0);
  V<double> above_last = all(1.0), below_last = x, above = x + 1.0, below = z * x;
  for (int step = 0; step < kMostSteps; step += 4) {
    V<double> moved;
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
    moved = absolute<double>(above * below_last - above_last * below);
    if (!somewhere(wanted & (moved > absolute<double>(above * below_last) * kSmall))) break;
    const Longs large = absolute<double>(above) > all(1e100);
    if (somewhere(large)) {
      const V<double> less = pick(large, all(1e-100), all(1.0));
      above = above * less, below = below * less;
      above_last = above_last * less, below_last = below_last * less;
    }
  }
  return above / below;
}

// Q(a, x) for 0 < a <= 1/2 and x <= 3/2, where 1 - P cancels: 1 - x^a / gamma(1 + a), and what the series
// of P has after its first term (Cephes' igam.c calls it igamc_series).
template <bool kFine>
INLINE V<double> gamma_rest(V<double> a, V<double> x) {
  constexpr int kTerms = kFine ? 22 : 14;
  const V<double> l = a * (log_all<kFine>(x) - polynomial<kFine>(kGammaOneFine, kGammaOneShort, a));
  V<double> n, power = all(1.0), total = {};
#pragma GCC unroll 1
  for (int k = 1; k <= kTerms; ++k) {
    power = power * x * all(-1.0 / k);
    total = total + power / (a + double(k));
  }
  const V<double> rest = exp_rest<kFine>(l > all(-760.0) ? l : all(-760.0), V<double>{}, &n);
  const V<double> e = scaled(1.0 + rest, n);
  return pick(n == all(0.0), -rest, 1.0 - e) - e * a * total;
}

// P(a, x), kUpper: Q. At the ends what SciPy gives: 0, 1 or NaN.
template <bool kUpper>
struct IncompleteGamma {
  template <bool kFine>
  static INLINE V<double> at(V<double> a, V<double> x) {
    const V<double> end = all(__builtin_inf()), zero = {}, one = all(1.0);
    const Longs valid = (a > zero) & (x > zero) & (a < end) & (x < end);
    const V<double> b = pick(valid, a, one), v = pick(valid, x, one);
    const V<double> front = gamma_front<kFine>(b, v);
    const Longs low = v < b + 1.0;
    V<double> out = {};
    if (somewhere(low)) {
      const V<double> p = front * gamma_series<kFine>(b, pick(low, v, b), low);
      out = kUpper ? 1.0 - p : p;
      const Longs small = low & (b <= all(0.5));
      if (kUpper && somewhere(small)) {
        const V<double> q = gamma_rest<kFine>(pick(small, b, all(0.5)), pick(small, v, one));
        out = pick(small, q, out);
      }
    }
    if (somewhere(~low)) {
      const V<double> q = front * b * gamma_fraction<kFine>(b, pick(low, b + 1.0, v), ~low);
      out = pick(low, out, kUpper ? q : 1.0 - q);
    }
    const V<double> none = kUpper ? one : zero, whole = kUpper ? zero : one;
    out = (x == zero) & (a > zero) ? none : out;
    out = (a == zero) & (x > zero) ? whole : out;
    out = (x == end) & (a >= zero) ? whole : out;
    out = (a == end) & (x >= zero) ? none : out;
    const Longs right = (a >= zero) & (x >= zero) & ((a > zero) | (x > zero)) & ((a < end) | (x < end));
    return right ? out : all(__builtin_nan(""));
  }
};
