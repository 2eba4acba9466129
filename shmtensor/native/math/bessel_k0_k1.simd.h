// The modified Bessel functions of the second kind, of order 0 and 1. Included inside a level's
// namespace, after vector_float64.simd.h.
//
// Split at 2 as in Moshier's Cephes library (k0.c, k1.c), with new polynomials, interpolated at Chebyshev points,
// computed with 50 digits. Up to 2, in x^2: K0 + log(x / 2) I0 and I0, (K1 - 1 / x - log(x / 2) I1) / x and I1 / x
// (errors below 2e-17). Above, in 1 / x: e^x K(x) sqrt(x) (relative error 4.5e-17).

constexpr double kNearK0[] = {3.518611978846953e-14,  5.4525646625978115e-12, 6.623013277190278e-10, 6.093361894172149e-08,
                              4.0545066199495615e-06, 0.0001828055582791554,  0.005053392643196092,  0.07177701034240509,
                              0.3404973210133806,     -0.30362077291575545};
constexpr double kNearI0[] = {1.5591642386233993e-14, 2.5398791969620098e-12, 3.273247845333528e-10, 3.2362273523765516e-08,
                              2.357578987893687e-06,  0.0001198206858163441,  0.0039285651056368085, 0.07358986836105334,
                              0.6358617281560686,     1.5660829297563506};
constexpr double kNearK1[] = {-3.089196986292076e-13, -4.235880161698382e-11, -4.473708984959004e-09,
                              -3.495829764899654e-07, -1.910976234234195e-05, -0.0006724746609661541,
                              -0.013254642948920608,  -0.10866462148495115,   -0.057455856135205326};
constexpr double kNearI1[] = {1.403255002995983e-13,  2.031922759155545e-11,  2.2912734906951697e-09,
                              1.9417364085156952e-07, 1.1787894939468833e-05, 0.00047928274326549763,
                              0.011785695316910426,   0.14717973672210669,    0.6358617281560686};
constexpr double kFarK0[] = {
    9.815402008859526e-11,  -1.7415792636713548e-10, -2.511583623750801e-10, 4.297822831935991e-10,
    6.696909677353191e-10,  -1.2154646925329214e-09, 2.3928247577454007e-10, -6.909445532095268e-10,
    3.649704196745876e-09,  -8.004851515961861e-09,  1.713185600678902e-08,  -4.106658027115221e-08,
    1.0292557328065749e-07, -2.6897300718519323e-07, 7.427862249156294e-07,  -2.191167925216506e-06,
    7.002244891192467e-06,  -2.4735205374482363e-05, 9.95605474680701e-05,   -0.00047976905673534966,
    0.003032891810274143,   -0.031071461824889863,   1.2185953385133905};
constexpr double kFarK1[] = {-1.0724391572705258e-10, 1.9076899650576552e-10, 2.7260400995214217e-10, -4.671582670762342e-10,
                             -7.347807544194839e-10,  1.3385849977465314e-09, -2.915889725458638e-10, 8.254002611298962e-10,
                             -4.159564044495663e-09,  9.191838293612963e-09,  -1.990916912542139e-08, 4.8165011477502914e-08,
                             -1.2200063909110853e-07, 3.230534911986308e-07,  -9.067153917791994e-07, 2.7300306911646126e-06,
                             -8.961206568008175e-06,  3.2843866443823695e-05, -0.0001395902196146278, 0.0007357241548745106,
                             -0.005566729880073309,   0.1033497377538656,     1.363151890371342};

// kScaled: multiplied by e^x. NaN below 0.
template <int kOrder, bool kScaled>
struct BesselDecaying {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const Longs far = x > splat(2.0);
    V<double> y = {};
    if (any_lane(~far)) {
      const V<double> v = select(far, splat(1.0), x), u = v * v * 0.5 - 1.0;
      const V<double> l = log_all<kFine>(v) - 0.69314718055994530942;
      if constexpr (kOrder == 0) {
        y = polynomial(kNearK0, u) - l * polynomial(kNearI0, u);
      } else {
        y = 1.0 / v + v * (l * polynomial(kNearI1, u) + polynomial(kNearK1, u));
      }
      if (kScaled) y = y * exp_of<kFine>(v < splat(2.0) ? v : splat(2.0));
    }
    if (any_lane(far)) {
      const V<double> v = select(far, x, splat(2.0)), t = 1.0 / v, u = 4.0 * t - 1.0;
      V<double> w = root(t) * (kOrder ? polynomial(kFarK1, u) : polynomial(kFarK0, u));
      if (!kScaled) {
        V<double> n;
        const V<double> fraction = exp_minus_one_scaled<kFine>(-(v < splat(750.0) ? v : splat(750.0)), V<double>{}, &n);
        w = scale_by_power_of_two(w + w * fraction, n);
      }
      y = select(far, w, y);
    }
    y = x == splat(0.0) ? splat(__builtin_inf()) : y;
    return x == x ? x < splat(0.0) ? splat(__builtin_nan("")) : y : x;
  }
};
