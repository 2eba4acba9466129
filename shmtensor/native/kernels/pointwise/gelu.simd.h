// gelu, and the normal distribution. Included inside a level's namespace, after relu_sigmoid_dropout.simd.h and
// erf.simd.h.

// x P(X <= x) is max(x, 0) - |x| P(X > |x|): nothing cancels, and at -inf the limit is 0.
template <int K>
INLINE void gelu_vectors(const float* x, float* out) {
  V<float> z[K], ratio[K], density[K];
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) z[k] = tail_argument(load(x + k * kLanes<float>));
  normal_tail<K>(z, ratio, density);
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    const V<float> v = load(x + k * kLanes<float>);
    store<float>(out + k * kLanes<float>, (v < splat(0.0f) ? splat(0.0f) : v) - ratio[k] * z[k] * density[k]);
  }
}

// g times P(X <= x) + x density(x), which is 1 + w or -w with w = z density(z) - P(X > z).
template <int K>
INLINE void gelu_backward_vectors(const float* g, const float* x, float* gx) {
  V<float> z[K], ratio[K], density[K];
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) z[k] = tail_argument(load(x + k * kLanes<float>));
  normal_tail<K>(z, ratio, density);
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    const V<float> v = load(x + k * kLanes<float>);
    const V<float> w = (z[k] * 0.39894228f - ratio[k]) * density[k];
    const V<float> derivative = v < splat(0.0f) ? -w : 1.0f + w;
    store<float>(gx + k * kLanes<float>, load(g + k * kLanes<float>) * (v == v ? derivative : v));
  }
}

#if defined(__AVX512F__)
// P(X > z) of the normal distribution for z within 11/128 of 11/64 i, as a polynomial in the distance:
// the coefficients of each power, from the sixth down, for i = 0 to 31; relative error 7e-9.
alignas(64) constexpr float kNormalTail[7][32] = {
    {0.000357311743f, 0.00138066802f,  0.00248131063f,   0.00310008205f,   0.00315075088f,   0.00267916243f,
     0.00183920562f,  0.000842405192f, -0.000100832694f, -0.000830269943f, -0.00126293045f,  -0.0013951523f,
     -0.00128330698f, -0.00101700728f, -0.000688612927f, -0.000373179559f, -0.000118044103f, 5.75068007e-05f,
     0.000155993373f, 0.000192877778f, 0.000188265767f,  0.000160976851f,  0.00012541558f,   9.07793801e-05f,
     6.17354381e-05f, 3.9726754e-05f,  2.43073737e-05f,  1.4190915e-05f,   7.92552601e-06f,  4.24288146e-06f,
     2.18070386e-06f, 1.07743529e-06f},
    {-0.0100158732f,   -0.00923578721f,  -0.00721378904f,  -0.004290991f,    -0.00101944478f,  0.00202808552f,
     0.00438472396f,   0.00577649986f,   0.00615160586f,   0.00565274898f,   0.00454953732f,   0.00315593858f,
     0.00175681338f,   0.000559469161f,  -0.000324467808f, -0.000871164724f, -0.00112045987f,  -0.00114643469f,
     -0.0010313075f,   -0.000847394404f, -0.000648121582f, -0.000466474681f, -0.000318125851f, -0.000206541576f,
     -0.000128089203f, -7.60676994e-05f, -4.33416753e-05f, -2.37294062e-05f, -1.24989583e-05f, -6.34017078e-06f,
     -3.0997719e-06f,  -1.46172204e-06f},
    {2.48769857e-06f, -0.0083622206f,  -0.0155221513f,  -0.0205172412f,   -0.0228033736f,  -0.0223307591f,  -0.0195053276f,
     -0.0150561566f,  -0.00985221937f, -0.0047192499f,  -0.000299384323f, 0.00302259414f,  0.00512426673f,  0.00609738147f,
     0.00617101695f,  0.0056309998f,   0.00475397334f,  0.00376529247f,   0.00282133697f,  0.002011006f,    0.00136878178f,
     0.000892123266f, 0.000557949417f, 0.000335389224f, 0.000194020133f,  0.000108128523f, 5.81033855e-05f, 3.01259242e-05f,
     1.508061e-05f,   7.29222984e-06f, 3.40766587e-06f, 1.53948633e-06f},
    {0.0664903075f,    0.0635800585f,    0.0552697293f,    0.0427365452f,    0.0276832301f,    0.0120176785f,
     -0.00247990247f,  -0.0144290384f,   -0.0230096001f,   -0.0279936418f,   -0.0296640731f,   -0.0286589786f,
     -0.0257893261f,   -0.02187277f,     -0.0176119395f,   -0.013528116f,    -0.00994609296f,  -0.00701641524f,
     -0.004758019f,    -0.00310602412f,  -0.00195407681f,  -0.00118585641f,  -0.000694704941f, -0.000393111521f,
     -0.000214983273f, -0.000113673566f, -5.81360109e-05f, -2.87676612e-05f, -1.37772249e-05f, -6.3874254e-06f,
     -2.86743079e-06f, -1.24666099e-06f},
    {1.08228204e-09f, 0.0337814316f,   0.0646344051f,   0.0900494978f,   0.10827215f,     0.118493363f,    0.120868474f,
     0.116377242f,    0.106570929f,    0.0932696909f,   0.0782740414f,   0.0631394386f,   0.0490399487f,   0.0367234424f,
     0.0265417658f,   0.0185295679f,   0.0125036482f,   0.00815978926f,  0.00515212351f,  0.00314863003f,  0.00186304247f,
     0.00106759695f,  0.00059262017f,  0.000318726263f, 0.000166114667f, 8.39100467e-05f, 4.10861139e-05f, 1.95031025e-05f,
     8.9760797e-06f,  4.00576891e-06f, 1.73355988e-06f, 7.27577856e-07f},
    {-0.398942292f,    -0.39309302f,     -0.376054734f,   -0.349282891f,    -0.314973533f,    -0.275766373f,
     -0.234411582f,    -0.193458274f,    -0.155012265f,   -0.120591119f,    -0.0910825282f,   -0.0667921305f,
     -0.0475538895f,   -0.032871332f,    -0.0220606886f,  -0.0143744526f,   -0.00909356214f,  -0.00558531005f,
     -0.00333066587f,  -0.00192834751f,  -0.00108395203f, -0.000591568882f, -0.000313452008f, -0.000161252814f,
     -8.05404488e-05f, -3.90563182e-05f, -1.8388193e-05f, -8.40537905e-06f, -3.7303198e-06f,  -1.607331e-06f,
     -6.72411375e-07f, -2.73108554e-07f},
    {0.5f,
     0.431767911f,
     0.365517139f,
     0.303058177f,
     0.245883852f,
     0.195066825f,
     0.151211798f,
     0.114463978f,
     0.0845657215f,
     0.0609466955f,
     0.0428299531f,
     0.0293372106f,
     0.0195800792f,
     0.0127292043f,
     0.00805861596f,
     0.00496690301f,
     0.00297976332f,
     0.00173965574f,
     0.000988219748f,
     0.000546113937f,
     0.000293555349f,
     0.000153467816f,
     7.80214395e-05f,
     3.85685562e-05f,
     1.85367371e-05f,
     8.66114078e-06f,
     3.9339011e-06f,
     1.73678495e-06f,
     7.45269347e-07f,
     3.10812084e-07f,
     1.25972235e-07f,
     4.96159132e-08f},
};

constexpr float kNear = 5.4f;

INLINE V<float> near_tail(V<float> z) {
  const V<float> m = z * (64.0f / 11) + 12582912.0f;
  const V<float> s = z - (m - 12582912.0f) * (11.0f / 64);
  const auto lookup = [&](int power) INLINE_LAMBDA {
    return (V<float>)_mm512_permutex2var_ps(_mm512_load_ps(kNormalTail[power]), (__m512i)m,
                                            _mm512_load_ps(kNormalTail[power] + 16));
  };
  V<float> p = lookup(0);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = p * s + lookup(i);
  return p;
}

// gelu of four vectors, by the table; false if an element is out of its range.
INLINE bool gelu_near(const float* x, float* out) {
  V<float> v[4], z[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    v[k] = load(x + k * kLanes<float>);
    z[k] = absolute<float>(v[k]);
  }
  const __m512 far = _mm512_max_ps(_mm512_max_ps((__m512)z[0], (__m512)z[1]), _mm512_max_ps((__m512)z[2], (__m512)z[3]));
  if (_mm512_cmp_ps_mask(far, _mm512_set1_ps(kNear), _CMP_GT_OQ)) return false;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const V<float> high = (V<float>)_mm512_max_ps(_mm512_setzero_ps(), (__m512)v[k]);
    store<float>(out + k * kLanes<float>, high - near_tail(z[k]) * z[k]);
  }
  return true;
}
#endif

void gelu(const float* x, float* out, int64_t n) {
  constexpr int64_t kL = kLanes<float>;
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 4 * kL <= n; i += 4 * kL) {
    if (gelu_near(x + i, out + i)) continue;
    gelu_vectors<2>(x + i, out + i);
    gelu_vectors<2>(x + i + 2 * kL, out + i + 2 * kL);
  }
#endif
  for (; i + 2 * kL <= n; i += 2 * kL) gelu_vectors<2>(x + i, out + i);
  for (; i < n; i += kL) {
    float padded[kL] = {};
    const int64_t m = n - i < kL ? n - i : kL;
    store<float>(padded, load_part(x + i, m, 0.0f));
    gelu_vectors<1>(padded, padded);
    store_part(out + i, load(padded), m);
  }
}

void gelu_backward(const float* g, const float* x, float* gx, int64_t n) {
  constexpr int64_t kL = kLanes<float>;
  int64_t i = 0;
  for (; i + 2 * kL <= n; i += 2 * kL) gelu_backward_vectors<2>(g + i, x + i, gx + i);
  for (; i < n; i += kL) {
    float padded[kL] = {}, gradients[kL];
    const int64_t m = n - i < kL ? n - i : kL;
    store<float>(padded, load_part(x + i, m, 0.0f));
    store<float>(gradients, load_part(g + i, m, 0.0f));
    gelu_backward_vectors<1>(gradients, padded, gradients);
    store_part(gx + i, load(gradients), m);
  }
}

// The normal distribution function, and e^(-x^2/2).
INLINE void normal_distribution(V<double> x, V<double>* cdf, V<double>* density) {
  *cdf = 0.5 * Erfc::at<true>(-0.70710678118654752440 * x);
  *density = exp_nonpositive(-0.5 * x * x);
}

// At -inf the limit is 0, not the NaN of -inf * 0.
void gelu(const double* x, double* out, int64_t n) {
  map1(x, out, n, [](V<double> v) INLINE_LAMBDA {
    V<double> cdf, density;
    normal_distribution(v, &cdf, &density);
    return cdf == splat(0.0) ? splat(0.0) : v * cdf;
  });
}

void gelu_backward(const double* g, const double* x, double* gx, int64_t n) {
  map2(g, x, gx, n, [](V<double> a, V<double> v) INLINE_LAMBDA {
    V<double> cdf, density;
    normal_distribution(v, &cdf, &density);
    V<double> derivative = density == splat(0.0) ? splat(0.0) : v * density * 0.39894228040143267794;
    return a * (cdf + derivative);
  });
}

// ---------------------------------------------------------------- gelu(x, approximate="tanh")

constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kCube = 0.044715;

// s = (1 + tanh u) / 2 is the sigmoid of 2u, computed without cancellation in its tail; slope = s (1 - s).
template <class T>
INLINE void logistic(V<T> u, V<T>* s, V<T>* activation_backward) {
  V<T> e = exp_nonpositive(T(-2) * absolute<T>(u));
  V<T> d = T(1) / (T(1) + e);
  V<T> complement = e * d;
  *s = u < splat(T(0)) ? complement : d;
  *activation_backward = complement * d;
}

template <class T>
void gelu_tanh(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA {
    V<T> s, activation_backward;
    logistic<T>(T(kRoot) * (v + T(kCube) * v * v * v), &s, &activation_backward);
    return s == splat(T(0)) ? splat(T(0)) : v * s;
  });
}

template <class T>
void gelu_tanh_backward(const T* g, const T* x, T* gx, int64_t n) {
  map2(g, x, gx, n, [](V<T> a, V<T> v) INLINE_LAMBDA {
    V<T> s, activation_backward;
    logistic<T>(T(kRoot) * (v + T(kCube) * v * v * v), &s, &activation_backward);
    V<T> inner = T(2 * kRoot) * (T(1) + T(3 * kCube) * v * v);
    V<T> tail_term = activation_backward == splat(T(0)) ? splat(T(0)) : v * activation_backward * inner;
    return a * (s + tail_term);
  });
}
