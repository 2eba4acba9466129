// erfc and erfinv of float32, computed in float32, within 2.1 and 1.3 units in the last place, for CPUs with FMA.
// Included inside a level's namespace, after normal_tail.simd.h and log_float32.simd.h.
//
// The polynomials interpolate at Chebyshev points, computed with 50 digits: e^(x^2) erfc(x) (x + 2) in
// 1 / (x + 2) up to 10.1 (relative error 5e-9); erfinv(x) / x in w = -log(1 - x^2) up to 8 (5e-9),
// above in sqrt(w) (3e-9). The last rounding errors are carried along: `error` beside `value`.

constexpr double kErfcBrief[] = {1.046280174646897e-05, 1.3136234581307962e-05, -0.00013361899673670232,
                                 1.178826719021709e-05, 0.001203798505790411,   -0.001261914688555509,
                                 -0.012379448737961908, 0.012066726328195769,   0.20467516570143834,
                                 0.6528478211798082,    1.1429460874618245};
constexpr double kInvNearBrief[] = {
    4.795736472084427e-05,  -1.8017505438469965e-05, -0.0003101022908233735, 0.0004312423860535149, 0.0004870549472707303,
    -0.0022706160730253085, 0.0029039869940670074,   0.0020193326980513233,  -0.01588757738626493,  0.030428429590020584,
    -0.013054202460772532,  -0.11553669537560421,    0.9134187412786225,     1.8587791097424011};
constexpr double kInvFarBrief[] = {-1.0486350440974666e-05, 4.2070142070869685e-05, -0.00010404149389760142,
                                   0.00024815861374836485,  -0.0006676201243957683, 0.001628440678602438,
                                   0.6290271385579922,      3.209620126765905};

// A number and its rounding error.
struct Compensated {
  V<float> value, error;
};

// The error of rounding a coefficient to float.
constexpr float rounding_error(double c) { return static_cast<float>(c - static_cast<float>(c)); }

// The polynomial with these coefficients, the highest power first, at u + extra.
template <int n>
INLINE Compensated compensated_polynomial(const double (&c)[n], V<float> u, V<float> extra) {
  V<float> q = splat(static_cast<float>(c[0]));
#pragma GCC unroll 16
  for (int i = 1; i < n - 1; ++i) q = q * u + static_cast<float>(c[i]);
  const V<float> last = splat(static_cast<float>(c[n - 1]));
  const V<float> value = fused(q, u, last);
  const V<float> coefficient_error = u * rounding_error(c[n - 2]) + rounding_error(c[n - 1]);
  return {value, fused(q, u, last - value) + fused(q, extra, coefficient_error)};
}

// x * 2^n for integers n from -150 to 0, rounded once; the result may be denormal.
INLINE V<float> scale_down(V<float> x, V<float> n) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  const V<float> first = n < splat(-100.0f) ? splat(-100.0f) : n;
  return times_power_of_two(times_power_of_two(x, first), n - first);
#endif
}

INLINE V<float> erfc_float32(V<float> x) {
  constexpr double kLow = 1 / 12.1, kHigh = 0.5;
  constexpr float kMiddle = static_cast<float>((kHigh + kLow) / 2);
  constexpr float kScale = static_cast<float>(2 / (kHigh - kLow));
  constexpr float kSlip = static_cast<float>((kMiddle - (kHigh + kLow) / 2) * kScale);
  constexpr float kExp[] = {0.00139505591f, 0.00836892892f, 0.041666206f, 0.166665182f, 0.5f};
  const V<float> size = absolute<float>(x), a = size < splat(10.1f) ? size : splat(10.1f);
  // e^(-a^2) = 2^n (1 + bell)
  const V<float> y = -a * a, y_error = product_error(-a, a, y);
  const V<float> n = y * 1.44269504f + 12582912.0f - 12582912.0f;
  const V<float> r = (y - n * 0.693359375f) + n * 2.12194440e-4f;  // plus y_error
  V<float> bell = splat(kExp[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 5; ++i) bell = bell * r + kExp[i];
  bell = bell * (r * r) + r;
  // t = 1 / (a + 2)
  const V<float> sum = a + 2.0f, sum_lost = a - (sum - 2.0f), first = reciprocal_estimate(sum);
  const V<float> correction = -product_error(sum, first, splat(1.0f)) - sum_lost * first;
  const V<float> t = fused(first, correction, first), t_error = fused(first, correction, first - t);
  const Compensated q = compensated_polynomial(kErfcBrief, (t - kMiddle) * kScale, t_error * kScale + kSlip);
  const V<float> w = t * q.value;
  const V<float> w_error = product_error(t, q.value, w) + (t * q.error + t_error * q.value) + y_error * w;
  const V<float> tail = scale_down(w + fused(bell, w, fused(w_error, bell, w_error)), n);
  return x == x ? x < splat(0.0f) ? 2.0f - tail : tail : x;
}

INLINE V<float> erfinv_float32(V<float> x) {
  const V<float> size = absolute<float>(x);
  const Ints inside = size < splat(1.0f);
  const V<float> v = select(inside, size, splat(0.5f));
  const V<float> w = -log_normal(fused(-v, v, splat(1.0f)), Ints{});
  const V<float> near = (w < splat(8.0f) ? w : splat(8.0f)) * 0.25f, u = near - 1.0f;
  Compensated p = compensated_polynomial(kInvNearBrief, u, near - (u + 1.0f));
  const Ints far = w > splat(8.0f);
  if (__builtin_expect(any_lane(far), 0)) {
    const V<float> s = root(far ? w : splat(8.0f));
    const Compensated q = compensated_polynomial(kInvFarBrief, (s - 3.375f) * 1.6f, V<float>{});
    p.value = select(far, q.value, p.value);
    p.error = select(far, q.error, p.error);
  }
  const V<float> y = fused(x, p.value, x * p.error);
  const V<float> end = size == splat(1.0f) ? copy_sign_of(splat(__builtin_inff()), x) : splat(__builtin_nanf(""));
  return select(inside, y, end);
}
