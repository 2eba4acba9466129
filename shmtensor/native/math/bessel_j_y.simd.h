// The Bessel functions J and Y of order 0 and 1. Included inside a level's namespace, after
// vector_float64.simd.h and sin_cos.simd.h.
//
// Split at 5 as in Moshier's Cephes library (j0.c, j1.c), with new polynomials, interpolated at Chebyshev points,
// computed with 50 digits. Up to 5, in x^2: J divided by its zeros there (relative error 1.4e-16), and Y minus
// 2 / pi log(x) J (absolute error 3e-17). Above, in 25 / x^2: P and Q of Hankel's
// J + i Y = sqrt(2 / (pi x)) (P + i Q) e^(i (x - (2 n + 1) pi / 4)) (1e-16). The rotation by pi / 4 is computed from
// sine and cosine of x, so that x is not rounded.

constexpr double kNearJ0[] = {
    -8.054811002301296e-20, 5.7152125146489154e-18, -3.5218733165113774e-16, 1.867152710743494e-14,  -8.404187991661748e-13,
    3.163725918080495e-11,  -9.781438944762993e-10, 2.4286220370252607e-08,  -4.706291664571183e-07, 6.854954847201717e-06,
    -7.121705240575852e-05, 0.0004876827177655839,  -0.0019210870437164043,  0.0031873556303932387};
constexpr double kNearJ1[] = {9.268080204743411e-15, -4.5448929602915886e-13, 1.877381214599579e-11, -6.443125533715618e-10,
                              1.799515992374399e-08, -3.991381172349697e-07,  6.814683895177347e-06, -8.592956232067133e-05,
                              0.0007552540432951285, -0.004240225993395723,   0.013090777521810029,  -0.01587595431164548};
constexpr double kNearY0[] = {-1.9304457499806366e-15, 1.1666039506524883e-13, -6.043180387114119e-12, 2.653997524870454e-10,
                              -9.720964498315574e-09,  2.914220688963699e-07,  -6.985504367742786e-06, 0.0001299462909208217,
                              -0.0018028096665526022,  0.01763534538933876,    -0.11151682184328618,   0.38851639956570944,
                              -0.4705763655297288,     -0.4326558222855125,    0.4837248578102995};
constexpr double kNearY1[] = {
    -6.587578167462124e-17, 4.277907594402356e-15,   -2.395476689310411e-13, 1.144894383807223e-11,   -4.601304244819498e-10,
    1.5288901825737113e-08, -4.1137780773696944e-07, 8.733098304848775e-06,  -0.00014141835794491777, 0.0016688031328635942,
    -0.013433433740818153,  0.06634695354779108,     -0.16312020358118715,   0.09108650838448444,     0.13974939033568806};
constexpr double kFarP0[] = {-1.9975016566739445e-12, 3.5736949521760605e-12, 2.411441866647587e-12,
                             -3.5821210474962445e-12, -1.189461787537485e-11, 2.4563632799612557e-11,
                             -3.6990044251542916e-11, 9.74682627637317e-11,   -2.843404232046865e-10,
                             8.561284476621563e-10,   -2.870792244429867e-09, 1.105832711236427e-08,
                             -5.086428409883204e-08,  2.975900989096833e-07,  -2.4599633242216923e-06,
                             3.4917305810915766e-05,  -0.0013274931272003446, 0.9986347659091991};
constexpr double kFarQ0[] = {-1.0444669076295417e-12, 1.6814894491944002e-12,  2.7266813561033427e-12,
                             -4.216305658698765e-12,  -5.753326132575176e-12,  9.488824965026451e-12,
                             -5.779592632826412e-13,  3.335692350415378e-12,   -2.304535311034683e-11,
                             5.1497836644642946e-11,  -1.1674602486816205e-10, 3.042407395967831e-10,
                             -8.589745930946306e-10,  2.6595713463570463e-09,  -9.279584667123871e-09,
                             3.774057006871301e-08,   -1.8819750466626614e-07, 1.2478226350929242e-06,
                             -1.2677430885073682e-05, 0.00026284279458203407,  -0.02472299270522373};
constexpr double kFarP1[] = {
    -1.3452285163269796e-12, 2.3383709391960292e-12, 2.221451936085203e-12,   -3.4635354592927326e-12,
    -7.452578731257578e-12,  1.4331075657099443e-11, -1.5111147250068467e-11, 3.865458762420017e-11,
    -1.1274284970593131e-10, 3.116677600985356e-10,  -9.398603120711416e-10,  3.184989113497515e-09,
    -1.2403160522530066e-08, 5.7916673513040425e-08, -3.466718703841604e-07,  2.978621105488198e-06,
    -4.5782806531072834e-05, 0.0022414632139171843,  1.0022906462560661};
constexpr double kFarQ1[] = {1.0998576127301842e-12,  -1.7726941275069742e-12, -2.8643052269924725e-12,
                             4.432165587338509e-12,   6.066065943007693e-12,   -1.0022142671741963e-11,
                             6.951355910218372e-13,   -3.709771713023047e-12,  2.4750005291727746e-11,
                             -5.5516512506302185e-11, 1.265697201468052e-10,   -3.3134539187903375e-10,
                             9.406605527323384e-10,   -2.9331157622424648e-09, 1.0328309993977703e-08,
                             -4.2533454959789325e-08, 2.1597707688877427e-07,  -1.4739855907826784e-06,
                             1.5796188355944475e-05,  -0.00037296992436824624, 0.07460948663481604};

// x^2 minus the square of a zero of J; the zero is high + low.
INLINE V<double> squared_distance_from_zero(V<double> x, double high, double low) { return ((x - high) - low) * (x + high); }

// For 0 <= x <= 5.
template <int kOrder>
INLINE V<double> first_kind_near(V<double> x) {
  const V<double> u = x * x * 0.08 - 1.0;
  if constexpr (kOrder == 0) {
    return squared_distance_from_zero(x, 2.404825557695773, -1.176691651530894e-16) *
           squared_distance_from_zero(x, 5.520078110286311, 8.088597146146722e-17) * polynomial(kNearJ0, u);
  } else {
    return squared_distance_from_zero(x, 3.8317059702075125, -1.5269184090088067e-16) * x * polynomial(kNearJ1, u);
  }
}

template <int kOrder>
INLINE V<double> second_kind_near(V<double> x) {
  const V<double> u = x * x * 0.08 - 1.0;
  const V<double> l = log_all<true>(x) * first_kind_near<kOrder>(x);
  if constexpr (kOrder == 0) {
    return polynomial(kNearY0, u) + l * 0.63661977236758134308;
  } else {
    return x * polynomial(kNearY1, u) + (l - 1.0 / x) * 0.63661977236758134308;
  }
}

// For x >= 5; kSecond: Y.
template <int kOrder, bool kSecond>
INLINE V<double> oscillating_far(V<double> x) {
  const V<double> t = 5.0 / x, u = 2.0 * t * t - 1.0;
  const V<double> p = kOrder ? polynomial(kFarP1, u) : polynomial(kFarP0, u);
  const V<double> q = t * (kOrder ? polynomial(kFarQ1, u) : polynomial(kFarQ0, u));
  const V<double> s = Sin::at<true>(x), c = Cos::at<true>(x);
  const V<double> sum = s + c, difference = s - c;  // of the rotated angle, times sqrt(2)
  const V<double> cosine = kOrder ? difference : sum, sine = kOrder ? -sum : difference;
  const V<double> rotated = kSecond ? p * sine + q * cosine : p * cosine - q * sine;
  return rotated * root(0.31830988618379067154 / x);
}

// A function for float and double, which are computed alike.
template <int kOrder, bool kSecond>
__attribute__((noinline)) V<double> oscillating(V<double> x) {
  const Longs far = x > splat(5.0);
  V<double> y = {};
  if (any_lane(~far)) {
    const V<double> v = select(far, splat(1.0), x);
    y = kSecond ? second_kind_near<kOrder>(v) : first_kind_near<kOrder>(v);
  }
  const V<double> end = splat(__builtin_inf());
  const Longs regular = far & (x < end);
  if (any_lane(regular)) y = select(regular, oscillating_far<kOrder, kSecond>(select(regular, x, splat(5.0))), y);
  return x == end ? splat(0.0) : y;
}

template <int kOrder>
struct BesselFirst {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = oscillating<kOrder, false>(absolute<double>(x));
    if constexpr (kOrder == 0) return y;
    return x < splat(0.0) ? -y : x == splat(0.0) ? x : y;
  }
};

// NaN below 0.
template <int kOrder>
struct BesselSecond {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = oscillating<kOrder, true>(x);
    return x == splat(0.0) ? splat(-__builtin_inf()) : x < splat(0.0) ? splat(__builtin_nan("")) : y;
  }
};

// sin(x) / x.
struct SphericalBessel {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> y = Sin::at<kFine>(x) / x;
    return x == splat(0.0) ? splat(1.0) : absolute<double>(x) == splat(__builtin_inf()) ? splat(0.0) : y;
  }
};
