// The error function, its complement and its inverse. Included inside a level's namespace, after
// vector_float64.simd.h and normal_tail.simd.h.
//
// The polynomials interpolate at Chebyshev points, computed with 50 digits: erf(x) / x - 1 in x^2 up
// to 1; e^(x^2) erfc(x) (x + 2) in 1 / (x + 2) from 1/2 on; erfinv(x) / x in w = -log(1 - x^2) up
// to 6.25, above in sqrt(w) (the variables of Giles, Approximating the erfinv function, 2011).

constexpr double kErfNearFine[] = {-7.798543850549947e-10, 1.3721520406351094e-08,  -1.6208829856810202e-07,
                                   1.6447471190594618e-06, -1.4924740785377576e-05, 0.00012055295112667001,
                                   -0.0008548325982543225, 0.005223977607269946,    -0.026866170643256995,
                                   0.1128379167094513,     -0.37612638903183543,    0.12837916709551256};
constexpr double kErfNearShort[] = {-9.673590811750782e-06, 0.00011268253894199437, -0.0008484396550601893,
                                    0.005221053412537675,   -0.026865438310515116,  0.11283782622062184,
                                    -0.3761263847599132,    0.12837916706236088};
constexpr double kErfcFarFine[] = {
    -8.603779185157302e-11,  3.3320104842624666e-11, 8.729045492362712e-10,   -1.1388419230672718e-09,
    -3.5662702082336495e-09, 1.1463097188713097e-08, -1.2815893141201167e-09, -6.216143297459311e-08,
    1.2663550231718397e-07,  1.602412805684149e-07,  -1.123558738390762e-06,  7.2441641808385e-07,
    7.123051672279624e-06,   -1.505518344412159e-05, -4.158243172619207e-05,  0.00016866295924278105,
    0.00031043949517082673,  -0.0018141726131454864, -0.00475765717478913,    0.01838831060013921,
    0.1413108546507758,      0.45083232216130975,    0.9348367830974967};
constexpr double kErfcFarShort[] = {1.5440871939487817e-06, -2.272599395691619e-06, -1.8771320040933957e-05,
                                    5.0838244483451594e-05, 0.00020214198250277844, -0.0008216225892251227,
                                    -0.0034723320031858876, 0.010863858881875332,   0.11446497059390957,
                                    0.4274982623933277,     0.9904592428971623};
constexpr double kInvNearFine[] = {
    -2.5466157998892667e-10, 7.680990475576525e-10,   1.4461050507676023e-09, -8.557984074479201e-09,
    5.039596477958063e-09,   3.9142671001331085e-08,  -9.905042307855316e-08, -1.0167881522843899e-08,
    5.397895417173957e-07,   -1.059336931327948e-06,  -6.839448584111029e-07, 7.1300663740767115e-06,
    -1.12572237422896e-05,   -1.5027713926607673e-05, 9.336736525855553e-05,  -0.00011688883906368398,
    -0.00026439366376450275, 0.001232485568550093,    -0.001271692268923054,  -0.004137314377403391,
    0.017808361818321756,    -0.022604447453450232,   -0.05892256710377839,   0.7504943200799635,
    1.6536545626831027};
constexpr double kInvNearShort[] = {
    3.4889340891535853e-06, -1.0741302856766835e-05, -9.812456708205991e-06, 9.156612800314454e-05, -0.00012076342952536473,
    -0.000262840003845403,  0.0012340416896143435,   -0.001272298167105662,  -0.004137636926143928, 0.017808469224979574,
    -0.02260441787625612,   -0.05892257408791176,    0.7504943192936286,     1.6536545627563546};
constexpr double kInvMiddleFine[] = {2.4097707183427266e-11,  -6.466960514925277e-11,  -1.1662393838626048e-10,
                                     9.889115389827977e-10,   -2.4632549100503405e-09, -3.6862448212666726e-10,
                                     2.640222955342202e-08,   -9.468994570246937e-08,  9.28911222561948e-08,
                                     5.264624728714587e-07,   -2.664792853936729e-06,  5.12731666449741e-06,
                                     2.4058645410848233e-06,  -4.739182728807125e-05,  0.00016966502201594177,
                                     -0.00040063569835709886, 0.0007883078513035505,   -0.0015825410894071102,
                                     0.003021139436374801,    0.753944225770624,       3.0838856104922208};
constexpr double kInvMiddleShort[] = {-2.2585394532116963e-06, 6.119313723200399e-06,  1.9053096158959178e-06,
                                      -4.823366954322707e-05,  0.000169935172381585,   -0.0004002999397302562,
                                      0.0007882431077979583,   -0.0015825975837298104, 0.003021145064736963,
                                      0.7539442284805647,      3.0838856104132857};
constexpr double kInvFarFine[] = {
    2.533068228263058e-11,   -6.564276345396527e-11,  -2.592786592051364e-11,  3.6599529646812715e-10,
    -1.1489759138301567e-09, 3.093718288092238e-09,   -7.043741264282625e-09,  1.343732101229833e-08,
    -2.3281881715497e-08,    4.2917303710238576e-08,  -1.0711461917225143e-07, 3.8398959497412097e-07,
    -1.6195268397807668e-06, 6.891263413987485e-06,   -2.7640591703326662e-05, 9.78019801390767e-05,
    -0.0002482488260303903,  -0.00024061923103277453, 1.1112932209525201,      4.950934853078874};

// erf(x) - x for |x| <= 1.
template <bool kFine>
INLINE V<double> erf_excess(V<double> x) {
  return x * polynomial<kFine>(kErfNearFine, kErfNearShort, x * x);
}

// erfc(x) for x >= 1/2. The rounding error of x^2 is corrected in the exponential; with kCompensates the last rounding
// errors are corrected, too.
template <bool kFine, bool kCompensates = kFine && kFuses>
INLINE V<double> erfc_far(V<double> x) {
  constexpr double kEnd = kFine ? 28 : 11, kLow = 1 / (kEnd + 2), kHigh = 0.4;
  constexpr double kMiddle = (kHigh + kLow) / 2, kScale = 2 / (kHigh - kLow);
  const V<double> a = x < splat(kEnd) ? x : splat(kEnd);
  const V<double> head = (V<double>)((Longs)a & ~0xffffffffLL);
  V<double> n;
  const V<double> fraction = exp_minus_one_scaled<kFine>(-head * head, (head - a) * (a + head), &n);
  const V<double> sum = a + 2.0, t = inverse<kFine>(sum);
  if constexpr (!kCompensates) {
    const V<double> p = polynomial<kFine>(kErfcFarFine, kErfcFarShort, (t - kMiddle) * kScale);
    return scale_by_power_of_two((1.0 + fraction) * (t * p), n);
  } else {
    constexpr int kDegree = sizeof(kErfcFarFine) / sizeof(double) - 1;
    const V<double> t_error = t * (fused(-t, sum, splat(1.0)) - t * (a - (sum - 2.0)));
    const V<double> u = (t - kMiddle) * kScale + t_error * kScale;
    const V<double> q = leading_polynomial<kDegree>(kErfcFarFine, u);
    const V<double> last = splat(kErfcFarFine[kDegree]), product = u * q, p = last + product;
    const V<double> p_error = (last - p) + product + fused(u, q, -product);
    const V<double> w = t * p, w_error = fused(t, p, -w) + t * p_error + t_error * p;
    return scale_by_power_of_two(w + fused(fraction, w, w_error * (1.0 + fraction)), n);
  }
}

struct Erf {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> size = absolute<double>(x);
    const Longs far = size >= splat(1.0);
    const V<double> near = x + erf_excess<kFine>(select(far, splat(0.0), x));
    if (!any_lane(far)) return near;
    return select(far, copy_sign_of(1.0 - erfc_far<kFine, false>(size), x), near);
  }
};

// erf of float32, computed in float32, below 1 unit in the last place; above 1 by the normal distribution's tail.
INLINE V<float> erf_float32(V<float> x) {
  const V<float> square = x * x;
  V<float> r = splat(static_cast<float>(kErfNearShort[0]));
#pragma GCC unroll 16
  for (unsigned i = 1; i < sizeof(kErfNearShort) / sizeof(double); ++i)
    r = r * square + static_cast<float>(kErfNearShort[i]);
  V<float> z = tail_argument(x * 1.41421356f), ratio, bell;
  normal_tail<1>(&z, &ratio, &bell);
  const V<float> far = 1.0f - 2.0f * ratio * bell;
  const V<float> size = absolute<float>(x);
  return size > splat(1.0f) ? (x < splat(0.0f) ? -far : far) : x + x * r;  // a NaN takes the second branch
}

struct Erfc {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> size = absolute<double>(x);
    const Longs far = size >= splat(0.5);
    const V<double> v = select(far, splat(0.0), x), excess = erf_excess<kFine>(v);
    const V<double> near = select(v < splat(0.25), 1.0 - (v + excess), 0.5 - (excess + (v - 0.5)));
    const V<double> tail = erfc_far<kFine>(select(far, size, splat(1.0)));
    return x == x ? select(far, select(x < splat(0.0), 2.0 - tail, tail), near) : x;
  }
};

struct ErfInv {
  template <bool kFine>
  static INLINE V<double> at(V<double> x) {
    const V<double> size = absolute<double>(x);
    const Longs in_domain = size < splat(1.0);
    const V<double> v = select(in_domain, size, splat(0.5));
    const V<double> w = -log_of<kFine>((1.0 - v) * (1.0 + v));
    const V<double> near = w < splat(6.25) ? w : splat(6.25);
    V<double> p = polynomial<kFine>(kInvNearFine, kInvNearShort, near * 0.32 - 1.0);
    if (__builtin_expect(any_lane(w > splat(6.25)), 0)) {
      const V<double> s = root(w), m = s < splat(4.0) ? s : splat(4.0);
      V<double> far = polynomial<kFine>(kInvMiddleFine, kInvMiddleShort, (m - 3.25) * (1 / 0.75));
      if (kFine) far = select(s > splat(4.0), polynomial(kInvFarFine, (s - 5.1) * (1 / 1.1)), far);
      p = select(w > splat(6.25), far, p);
    }
    const V<double> end = select(size == splat(1.0), splat(__builtin_inf()), splat(__builtin_nan("")));
    return x * select(in_domain, p, end);
  }
};
