// Tangent, and inverse sine, cosine and tangent. Included inside a level's namespace, after sin_cos.simd.h. The
// rational functions are those of Moshier's Cephes library (atan.c) and Sun's fdlibm (e_asin.c); the short polynomials
// for float32 interpolate at Chebyshev points (3e-12).

// Replaces the rare lanes of the mask by libm's result f(lane).
template <class F>
INLINE V<double> replace_lanes(Longs rare, V<double> y, F f) {
  if (__builtin_expect(any_lane(rare), 0)) {
    for (int i = 0; i < kLanes<double>; ++i) y[i] = rare[i] ? f(i) : y[i];
  }
  return y;
}

struct Tan {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    V<double> y, tail;
    const Longs is_odd = ((Longs)reduce_by_half_pi(x, &y, &tail) & 1) != 0;
    V<double> sine, cosine;
    if constexpr (kFine) {
      sine = sine_near(y, tail), cosine = cosine_near(y, tail);
    } else {
      constexpr double kSine[] = {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
      constexpr double kCosine[] = {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5};
      const V<double> z = y * y;
      sine = y + y * z * polynomial(kSine, z), cosine = 1.0 + z * polynomial(kCosine, z);
    }
    const V<double> t = select(is_odd, -cosine, sine) / select(is_odd, sine, cosine);
    return replace_lanes(~(absolute<double>(x) <= splat(kFarWave)), x == splat(0.0) ? x : t,
                         [&](int i) INLINE_LAMBDA { return __builtin_tan(x[i]); });
  }
};

constexpr double kQuarterTurn = 1.57079632679489661923, kQuarterLost = 6.12323399573676603587e-17;

// atan(b / c) for b >= 0 and c > 0 or vice versa: relative to pi / 2, pi / 4 or 0, so that one division gives a small
// tangent.
template <bool kFine>
INLINE V<double> angle_of(V<double> b, V<double> c) {
  constexpr double kAbove[] = {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                               -1.228866684490136173410e2, -6.485021904942025371773e1};
  constexpr double kBelow[] = {1.0,
                               2.485846490142306297962e1,
                               1.650270098316988542046e2,
                               4.328810604912902668951e2,
                               4.853903996359136964868e2,
                               1.945506571482613964425e2};
  constexpr double kBrief[] = {-0.0404292266514774249, 0.0713518208467896495, -0.0902895830180645335, 0.111074931083528076,
                               -0.142856124384795178,  0.199999989163430225,  -0.333333333314387792};
  const Longs steep = b > 2.41421356237309504880 * c;
  const Longs middle = ~steep & (b > (kFine ? 0.66 : 0.41421356237309504880) * c);
  const V<double> q = select(steep, -c, select(middle, b - c, b)) / select(steep, b, select(middle, b + c, c));
  const V<double> z = q * q;
  V<double> w;
  if constexpr (kFine) {
    w = q + q * (z * polynomial(kAbove, z) / polynomial(kBelow, z));
  } else {
    w = q + q * (z * polynomial(kBrief, z));
  }
  // in units of pi / 2
  const V<double> quarter_turns = select(steep, splat(1.0), select(middle, splat(0.5), V<double>{}));
  return quarter_turns * kQuarterTurn + (w + quarter_turns * kQuarterLost);
}

struct Atan {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    return copy_sign_of(angle_of<kFine>(absolute<double>(x), splat(1.0)), x);
  }
};

// The angle of the point (x, y).
struct Atan2 {
  template <bool kFine>
  static INLINE V<double> at(V<double> y, V<double> x) {
    const V<double> b = absolute<double>(y), c = absolute<double>(x), larger = b > c ? b : c;
    const V<double> near = angle_of<kFine>(b, c);
    const Longs is_left = (Longs)((Bits)x >> 63) != 0;
    const V<double> angle = select(is_left, (3.14159265358979323846 - near) + 1.2246467991473531772e-16, near);
    const Longs regular = (c > V<double>{}) & (larger <= splat(8e307)) & (b == b);
    return replace_lanes(~regular, copy_sign_of(angle, y), [&](int i) INLINE_LAMBDA { return __builtin_atan2(y[i], x[i]); });
  }
};

// asin(x) / x - 1 for z = x x <= 1 / 4.
template <bool kFine>
INLINE V<double> asin_excess(V<double> z) {
  constexpr double kAbove[] = {3.47933107596021167570e-05, 7.91534994289814532176e-04,  -4.00555345006794114027e-02,
                               2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01};
  constexpr double kBelow[] = {7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
                               -2.40339491173441421878e+00, 1.0};
  constexpr double kBrief[] = {0.0293064480219463085, 0.00544220797719083495, 0.019306569221267907,  0.0221323957531464113,
                               0.0303976379093158604, 0.0446423583444912273,  0.0750000059902181553, 0.166666666654946616};
  if constexpr (kFine) {
    return z * polynomial(kAbove, z) / polynomial(kBelow, z);
  } else {
    return z * polynomial(kBrief, z);
  }
}

// For |x| > 1/2 by sqrt((1 - |x|) / 2), the sine of half the complementary angle.
struct Asin {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), half = (1.0 - a) * 0.5;
    const Longs far = a > splat(0.5);
    const V<double> s = select(far, root(half), a), r = asin_excess<kFine>(select(far, half, a * a));
    const V<double> angle = s + s * r;
    return copy_sign_of(select(far, kQuarterTurn - (2.0 * angle - kQuarterLost), angle), x);
  }
};

struct Acos {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> a = absolute<double>(x), half = (1.0 - a) * 0.5;
    const Longs far = a > splat(0.5);
    const V<double> s = select(far, root(half), x), r = asin_excess<kFine>(select(far, half, a * a));
    const V<double> twice = 2.0 * (s + s * r);
    const V<double> outer = x < splat(0.0) ? 2.0 * kQuarterTurn - (twice - 2.0 * kQuarterLost) : twice;
    return select(far, outer, kQuarterTurn - (x - (kQuarterLost - x * r)));
  }
};
