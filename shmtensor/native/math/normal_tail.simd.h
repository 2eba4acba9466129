// The tail of the normal distribution. Included inside a level's namespace, after vector.simd.h.

// density = e^(-z^2/2), and ratio = P(X > z) / density (Mills' ratio over sqrt(2 pi)), for K vectors 0 <= z <= 20 side
// by side, since a single one is latency-bound.
//
// The ratio is t times a polynomial in t = 1 / (1 + 0.35 z), fitted to 3.2e-8. The rounding error of z^2 is corrected
// in the exponential, so that the relative error stays below 4e-7 in the tail, too.
template <int K>
INLINE void normal_tail(const V<float>* z, V<float>* ratio, V<float>* density) {
  V<float> t[K], y[K], error[K], n[K], r[K], p[K], q[K];
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    t[k] = reciprocal(z[k] * 0.35f + 1.0f);
    const V<float> h = z[k] * -0.5f;
    y[k] = h * z[k];
    error[k] = product_error(h, z[k], y[k]);
  }
  constexpr float kRatio[] = {-0.029157877f, 0.144030884f, -0.255838931f, 0.159319609f, -0.0232122932f,
                              0.10555248f,   0.119821295f, 0.139863521f,  0.139621302f};
  constexpr float kExp[] = {0.00139505591f, 0.00836892892f, 0.041666206f, 0.166665182f, 0.5f, 1, 1};
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    n[k] = y[k] * 1.44269504f + 12582912.0f - 12582912.0f;
    r[k] = (y[k] - n[k] * 0.693359375f) + n[k] * 2.12194440e-4f + error[k];
    p[k] = splat(kExp[0]);
    q[k] = splat(kRatio[0]);
  }
#pragma GCC unroll 8
  for (int i = 1; i < 9; ++i) {
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) {
      if (i < 7) p[k] = p[k] * r[k] + kExp[i];
      q[k] = q[k] * t[k] + kRatio[i];
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    ratio[k] = q[k] * t[k];
    density[k] = times_power_of_two(p[k], n[k]);
  }
}

INLINE V<float> tail_argument(V<float> x) {
  const V<float> z = absolute<float>(x);
  return z < splat(20.0f) ? z : splat(20.0f);
}
