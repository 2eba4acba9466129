// Elementwise kernels. Included inside a level's namespace, after vector.h.

// gx = f(i) for all i, whole vectors first, then the rest padded with zeros.
template <class T, class F>
INLINE void map1(const T* x, T* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store<T>(out + i, f(load(x + i)));
  if (i < n) store_part<T>(out + i, f(load_part<T>(x + i, n - i, T(0))), n - i);
}

template <class T, class F>
INLINE void map2(const T* x, const T* y, T* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store<T>(out + i, f(load(x + i), load(y + i)));
  if (i < n) store_part<T>(out + i, f(load_part<T>(x + i, n - i, T(0)), load_part<T>(y + i, n - i, T(0))), n - i);
}

template <class T>
void relu(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA { return v <= all(T(0)) ? all(T(0)) : v; });  // NaN stays
}

template <class T>
void relu_backward(const T* g, const T* out, T* gx, int64_t n) {
  map2(g, out, gx, n, [](V<T> a, V<T> y) INLINE_LAMBDA { return y <= all(T(0)) ? all(T(0)) : a; });
}

template <class T>
INLINE V<T> absolute(V<T> x) {
  return x < all(T(0)) ? -x : x;
}

// 1 / (1 + e^-x), by e^-|x| so that nothing overflows.
template <class T>
void sigmoid(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA {
    V<T> e = exp_nonpositive(-absolute<T>(v));
    V<T> d = T(1) / (T(1) + e);
    return v < all(T(0)) ? e * d : d;
  });
}

template <class T>
void sigmoid_backward(const T* g, const T* out, T* gx, int64_t n) {
  map2(g, out, gx, n, [](V<T> a, V<T> y) INLINE_LAMBDA { return a * y * (T(1) - y); });
}

template <class T>
void tanh_backward(const T* g, const T* out, T* gx, int64_t n) {
  map2(g, out, gx, n, [](V<T> a, V<T> y) INLINE_LAMBDA { return a * (T(1) - y * y); });
}

// The normal distribution function, and e^(-x^2/2).
INLINE void normal_distribution(V<float> x, V<float>* cdf, V<float>* bell) {
  // erfc as in Numerical Recipes 6.2 (erfcc): relative error below 1.2e-7 everywhere.
  V<float> z = absolute<float>(x) * 0.70710678f;
  V<float> t = 1.0f / (1.0f + 0.5f * z);
  V<float> p = all(0.17087277f);
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  V<float> half = 0.5f * t * exp_nonpositive(p - z * z);
  *cdf = x < all(0.0f) ? half : 1.0f - half;
  *bell = exp_nonpositive(-z * z);
}

INLINE void normal_distribution(V<double> x, V<double>* cdf, V<double>* bell) {
  for (int i = 0; i < kLanes<double>; ++i) (*cdf)[i] = 0.5 * __builtin_erfc(-0.70710678118654752440 * x[i]);
  *bell = exp_nonpositive(-0.5 * x * x);
}

// x Phi(x). At -inf the limit is 0, not the NaN of -inf * 0.
template <class T>
void gelu(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA {
    V<T> cdf, bell;
    normal_distribution(v, &cdf, &bell);
    return cdf == all(T(0)) ? all(T(0)) : v * cdf;
  });
}

template <class T>
void gelu_backward(const T* g, const T* x, T* gx, int64_t n) {
  map2(g, x, gx, n, [](V<T> a, V<T> v) INLINE_LAMBDA {
    V<T> cdf, bell;
    normal_distribution(v, &cdf, &bell);
    V<T> slope = bell == all(T(0)) ? all(T(0)) : v * bell * T(0.39894228040143267794);
    return a * (cdf + slope);
  });
}

constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kCube = 0.044715;

// (1 + tanh u) / 2 is the logistic function of 2u: no cancellation in its tail. The second value is its slope s (1 - s).
template <class T>
INLINE void logistic(V<T> u, V<T>* s, V<T>* slope) {
  V<T> e = exp_nonpositive(T(-2) * absolute<T>(u));
  V<T> d = T(1) / (T(1) + e);
  V<T> tail = e * d;
  *s = u < all(T(0)) ? tail : d;
  *slope = tail * d;
}

template <class T>
void gelu_tanh(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA {
    V<T> s, slope;
    logistic<T>(T(kRoot) * (v + T(kCube) * v * v * v), &s, &slope);
    return s == all(T(0)) ? all(T(0)) : v * s;
  });
}

template <class T>
void gelu_tanh_backward(const T* g, const T* x, T* gx, int64_t n) {
  map2(g, x, gx, n, [](V<T> a, V<T> v) INLINE_LAMBDA {
    V<T> s, slope;
    logistic<T>(T(kRoot) * (v + T(kCube) * v * v * v), &s, &slope);
    V<T> inner = T(2 * kRoot) * (T(1) + T(3 * kCube) * v * v);
    V<T> rest = slope == all(T(0)) ? all(T(0)) : v * slope * inner;
    return a * (s + rest);
  });
}

template <class T>
void scale(const T* x, T* out, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

// ---------------------------------------------------------------- random bits

// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). 16 counters at a time.
INLINE void philox_block(uint32_t* words, uint64_t seed, uint64_t counter) {
  uint32_t a[16], b[16], c[16], d[16];
  for (int j = 0; j < 16; ++j) {
    uint64_t at = counter + static_cast<uint64_t>(j);
    a[j] = static_cast<uint32_t>(at);
    b[j] = static_cast<uint32_t>(at >> 32);
    c[j] = d[j] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < 16; ++j) {
      uint64_t p = static_cast<uint64_t>(a[j]) * 0xD2511F53u, q = static_cast<uint64_t>(c[j]) * 0xCD9E8D57u;
      a[j] = static_cast<uint32_t>(q >> 32) ^ b[j] ^ k0;
      b[j] = static_cast<uint32_t>(q);
      c[j] = static_cast<uint32_t>(p >> 32) ^ d[j] ^ k1;
      d[j] = static_cast<uint32_t>(p);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int j = 0; j < 16; ++j) {
    words[4 * j] = a[j];
    words[4 * j + 1] = b[j];
    words[4 * j + 2] = c[j];
    words[4 * j + 3] = d[j];
  }
}

inline void philox_blocks(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter) {
  for (int64_t i = 0; i < blocks; ++i) philox_block(words + 64 * i, seed, counter + 16 * static_cast<uint64_t>(i));
}

// Keeps what draws at least `threshold` of 2^32; one word an element.
template <class T>
void dropout(const T* x, T* out, uint8_t* mask, int64_t n, T scale, uint32_t threshold, uint64_t seed,
             uint64_t counter) {
  uint32_t words[64];
  for (int64_t i = 0; i < n; i += 64, counter += 16) {
    philox_block(words, seed, counter);
    if (n - i >= 64) {
      for (int j = 0; j < 64; ++j) {
        bool keep = words[j] >= threshold;
        mask[i + j] = keep;
        out[i + j] = keep ? x[i + j] * scale : T(0);
      }
    } else {
      for (int64_t j = 0; j < n - i; ++j) {
        bool keep = words[j] >= threshold;
        mask[i + j] = keep;
        out[i + j] = keep ? x[i + j] * scale : T(0);
      }
    }
  }
}
