// erfc and erfinv of float32 in their own precision, within 2.1 and 1.3 units in the last place, for CPUs
// that multiply and add in one. Included inside a level's namespace, after normal_tail.simd.h and log_float32.simd.h.
//
// The polynomials interpolate at Chebyshev points, computed with 50 digits: e^(x^2) erfc(x) (x + 2) in
// 1 / (x + 2) up to 10.1 (relative error 5e-9); the inverse over x in w = -log(1 - x^2) up to 8 (5e-9),
// beyond in its root (3e-9). What the last roundings lose is carried: `rest` beside a number.

constexpr double kErfcBrief[] = {
    1.046280174646897e-05, 1.3136234581307962e-05, -0.00013361899673670232, 1.178826719021709e-05,
    0.001203798505790411, -0.001261914688555509, -0.012379448737961908, 0.012066726328195769,
    0.20467516570143834, 0.6528478211798082, 1.1429460874618245};
constexpr double kInvNearBrief[] = {
    4.795736472084427e-05, -1.8017505438469965e-05, -0.0003101022908233735, 0.0004312423860535149,
    0.0004870549472707303, -0.0022706160730253085, 0.0029039869940670074, 0.0020193326980513233,
    -0.01588757738626493, 0.030428429590020584, -0.013054202460772532, -0.11553669537560421,
    0.9134187412786225, 1.8587791097424011};
constexpr double kInvFarBrief[] = {
    -1.0486350440974666e-05, 4.2070142070869685e-05, -0.00010404149389760142,
    0.00024815861374836485, -0.0006676201243957683, 0.001628440678602438, 0.6290271385579922,
    3.209620126765905};

// A number and what its rounding has lost.
struct Carried {
  V<float> value, rest;
};

// What rounding a coefficient loses.
constexpr float slipped(double c) { return static_cast<float>(c - static_cast<float>(c)); }

// The polynomial with these coefficients, the highest power first, at u + more.
template <int n>
INLINE Carried carried_polynomial(const double (&c)[n], V<float> u, V<float> more) {
  V<float> q = all(static_cast<float>(c[0]));
#pragma GCC unroll 16
  for (int i = 1; i < n - 1; ++i) q = q * u + static_cast<float>(c[i]);
  const V<float> last = all(static_cast<float>(c[n - 1]));
  const V<float> value = fused(q, u, last);
  const V<float> slip = u * slipped(c[n - 2]) + slipped(c[n - 1]);
  return {value, fused(q, u, last - value) + fused(q, more, slip)};
}

// x * 2^n for whole n from -150 to 0, rounded once through the denormal numbers.
INLINE V<float> lowered(V<float> x, V<float> n) {
#if defined(__AVX512F__)
  return (V<float>)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  const V<float> first = n < all(-100.0f) ? all(-100.0f) : n;
  return times_power_of_two(times_power_of_two(x, first), n - first);
#endif
}

INLINE V<float> erfc_brief(V<float> x) {
  constexpr double kLow = 1 / 12.1, kHigh = 0.5;
  constexpr float kMiddle = static_cast<float>((kHigh + kLow) / 2);
  constexpr float kScale = static_cast<float>(2 / (kHigh - kLow));
  constexpr float kSlip = static_cast<float>((kMiddle - (kHigh + kLow) / 2) * kScale);
  constexpr float kExp[] = {0.00139505591f, 0.00836892892f, 0.041666206f, 0.166665182f, 0.5f};
  const V<float> size = absolute<float>(x), a = size < all(10.1f) ? size : all(10.1f);
  // e^(-a^2) = 2^n (1 + bell)
  const V<float> y = -a * a, lost = product_error(-a, a, y);
  const V<float> n = y * 1.44269504f + 12582912.0f - 12582912.0f;
  const V<float> r = (y - n * 0.693359375f) + n * 2.12194440e-4f;  // and lost
  V<float> bell = all(kExp[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 5; ++i) bell = bell * r + kExp[i];
  bell = bell * (r * r) + r;
  // t = 1 / (a + 2)
  const V<float> sum = a + 2.0f, sum_lost = a - (sum - 2.0f), first = reciprocal_start(sum);
  const V<float> off = -product_error(sum, first, all(1.0f)) - sum_lost * first;
  const V<float> t = fused(first, off, first), t_rest = fused(first, off, first - t);
  const Carried q =
      carried_polynomial(kErfcBrief, (t - kMiddle) * kScale, t_rest * kScale + kSlip);
  const V<float> w = t * q.value;
  const V<float> w_rest =
      product_error(t, q.value, w) + (t * q.rest + t_rest * q.value) + lost * w;
  const V<float> tail = lowered(w + fused(bell, w, fused(w_rest, bell, w_rest)), n);
  return x == x ? x < all(0.0f) ? 2.0f - tail : tail : x;
}

INLINE V<float> erfinv_brief(V<float> x) {
  const V<float> size = absolute<float>(x);
  const Ints inside = size < all(1.0f);
  const V<float> v = choose_lanes(inside, size, all(0.5f));
  const V<float> w = -log_normal(fused(-v, v, all(1.0f)), Ints{});
  const V<float> near = (w < all(8.0f) ? w : all(8.0f)) * 0.25f, u = near - 1.0f;
  Carried p = carried_polynomial(kInvNearBrief, u, near - (u + 1.0f));
  const Ints far = w > all(8.0f);
  if (__builtin_expect(somewhere(far), 0)) {
    const V<float> s = root(far ? w : all(8.0f));
    const Carried q = carried_polynomial(kInvFarBrief, (s - 3.375f) * 1.6f, V<float>{});
    p.value = choose_lanes(far, q.value, p.value);
    p.rest = choose_lanes(far, q.rest, p.rest);
  }
  const V<float> y = fused(x, p.value, x * p.rest);
  const V<float> end = size == all(1.0f) ? with_sign_of(all(__builtin_inff()), x) : all(__builtin_nanf(""));
  return choose_lanes(inside, y, end);
}
