// Tangent, and the angles: inverse sine, cosine and tangent. Included inside a level's namespace, after
// sin_cos.simd.h. The rational functions are those of Moshier's Cephes library (atan.c) and Sun's fdlibm
// (e_asin.c); the brief polynomials interpolate between the zeros of a Chebyshev polynomial (3e-12).

// libm's result in the lanes of the mask, which are rare.
template <class F>
INLINE V<double> lanes_by(Longs rare, V<double> y, F f) {
  if (__builtin_expect(somewhere(rare), 0)) {
    for (int i = 0; i < kLanes<double>; ++i) y[i] = rare[i] ? f(i) : y[i];
  }
  return y;
}

struct Tan {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> y, tail;
    const Longs odd = ((Longs)quarters(x, &y, &tail) & 1) != 0;
    V<double> sine, cosine;
    if constexpr (kFine) {
      sine = sine_near(y, tail), cosine = cosine_near(y, tail);
    } else {
      constexpr double kSine[] = {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
      constexpr double kCosine[] = {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5};
      const V<double> z = y * y;
      sine = y + y * z * polynomial(kSine, z), cosine = 1.0 + z * polynomial(kCosine, z);
    }
    const V<double> t = pick(odd, -cosine, sine) / pick(odd, sine, cosine);
    return lanes_by(~(absolute<double>(x) <= all(kFarWave)), x == all(0.0) ? x : t,
                    [&](int i) INLINE_LAMBDA { return __builtin_tan(x[i]); });
  }
};

constexpr double kQuarterTurn = 1.57079632679489661923, kQuarterLost = 6.12323399573676603587e-17;

// The angle whose tangent is b / c, for b >= 0 and c > 0 or the other way round: about pi / 2, about
// pi / 4 or about 0, so that one division gives a small tangent.
template <bool kFine>
INLINE V<double> angle_of(V<double> b, V<double> c) {
  constexpr double kAbove[] = {-8.750608600031904122785e-1, -1.615753718733365076637e1,
                               -7.500855792314704667340e1, -1.228866684490136173410e2,
                               -6.485021904942025371773e1};
  constexpr double kBelow[] = {1.0, 2.485846490142306297962e1, 1.650270098316988542046e2,
                               4.328810604912902668951e2, 4.853903996359136964868e2,
                               1.945506571482613964425e2};
  constexpr double kBrief[] = {-0.0404292266514774249, 0.0713518208467896495, -0.0902895830180645335,
                               0.111074931083528076, -0.142856124384795178, 0.199999989163430225,
                               -0.333333333314387792};
  const Longs steep = b > 2.41421356237309504880 * c;
  const Longs middle = ~steep & (b > (kFine ? 0.66 : 0.41421356237309504880) * c);
  const V<double> q = pick(steep, -c, pick(middle, b - c, b)) / pick(steep, b, pick(middle, b + c, c));
  const V<double> z = q * q;
  V<double> w;
  if constexpr (kFine) {
    w = q + q * (z * polynomial(kAbove, z) / polynomial(kBelow, z));
  } else {
    w = q + q * (z * polynomial(kBrief, z));
  }
  const V<double> turned = pick(steep, all(1.0), pick(middle, all(0.5), V<double>{}));  // quarters of a turn
  return turned * kQuarterTurn + (w + turned * kQuarterLost);
}

struct Atan {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return with_sign_of(angle_of<kFine>(absolute<double>(x), all(1.0)), x);
  }
};

// The angle of the point (x, y).
struct Atan2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> y, V<double> x) {
    const V<double> b = absolute<double>(y), c = absolute<double>(x), most = b > c ? b : c;
    const V<double> near = angle_of<kFine>(b, c);
    const Longs left = (Longs)((Bits)x >> 63) != 0;
    const V<double> angle = pick(left, (3.14159265358979323846 - near) + 1.2246467991473531772e-16, near);
    const Longs usual = (c > V<double>{}) & (most <= all(8e307)) & (b == b);
    return lanes_by(~usual, with_sign_of(angle, y),
                    [&](int i) INLINE_LAMBDA { return __builtin_atan2(y[i], x[i]); });
  }
};

// asin(x) / x - 1 for z = x x <= 1 / 4.
template <bool kFine>
INLINE V<double> more_than_sine(V<double> z) {
  constexpr double kAbove[] = {3.47933107596021167570e-05, 7.91534994289814532176e-04,
                               -4.00555345006794114027e-02, 2.01212532134862925881e-01,
                               -3.25565818622400915405e-01, 1.66666666666666657415e-01};
  constexpr double kBelow[] = {7.70381505559019352791e-02, -6.88283971605453293030e-01,
                               2.02094576023350569471e+00, -2.40339491173441421878e+00, 1.0};
  constexpr double kBrief[] = {0.0293064480219463085, 0.00544220797719083495, 0.019306569221267907,
                               0.0221323957531464113, 0.0303976379093158604, 0.0446423583444912273,
                               0.0750000059902181553, 0.166666666654946616};
  if constexpr (kFine) {
    return z * polynomial(kAbove, z) / polynomial(kBelow, z);
  } else {
    return z * polynomial(kBrief, z);
  }
}

// Beyond one half by the root of (1 - |x|) / 2, the sine of half the other angle.
struct Asin {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), half = (1.0 - a) * 0.5;
    const Longs far = a > all(0.5);
    const V<double> s = pick(far, root(half), a), r = more_than_sine<kFine>(pick(far, half, a * a));
    const V<double> angle = s + s * r;
    return with_sign_of(pick(far, kQuarterTurn - (2.0 * angle - kQuarterLost), angle), x);
  }
};

struct Acos {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), half = (1.0 - a) * 0.5;
    const Longs far = a > all(0.5);
    const V<double> s = pick(far, root(half), x), r = more_than_sine<kFine>(pick(far, half, a * a));
    const V<double> twice = 2.0 * (s + s * r);
    const V<double> outer = x < all(0.0) ? 2.0 * kQuarterTurn - (twice - 2.0 * kQuarterLost) : twice;
    return pick(far, outer, kQuarterTurn - (x - (kQuarterLost - x * r)));
  }
};
