// relu, sigmoid, dropout and other elementwise kernels. Included inside a level's namespace, after vector.simd.h.

// out = f(x): full vectors first, then the tail, padded with zeros.
template <class T, class F>
INLINE void map1(const T* x, T* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store<T>(out + i, f(load(x + i)));
  if (i < n) store_part(out + i, f(load_part(x + i, n - i, T(0))), n - i);
}

template <class T, class F>
INLINE void map2(const T* x, const T* y, T* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store<T>(out + i, f(load(x + i), load(y + i)));
  if (i < n) store_part(out + i, f(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

template <class T>
void relu(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA { return v <= splat(T(0)) ? splat(T(0)) : v; });  // NaN stays
}

template <class T>
void relu_backward(const T* g, const T* out, T* gx, int64_t n) {
  map2(g, out, gx, n, [](V<T> a, V<T> y) INLINE_LAMBDA { return y <= splat(T(0)) ? splat(T(0)) : a; });
}

// 1 / (1 + e^-x), from e^-|x| so that nothing overflows.
template <class T>
void sigmoid(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA {
    V<T> e = exp_nonpositive(-absolute<T>(v));
    V<T> d = T(1) / (T(1) + e);
    return v < splat(T(0)) ? e * d : d;
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

template <class T>
void scale(const T* x, T* out, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

template <class T>
void add_scaled(const T* x, const T* y, T* out, int64_t n, T value) {
  map2(x, y, out, n, [=](V<T> a, V<T> b) INLINE_LAMBDA { return a + value * b; });
}

template <class T>
void cube(const T* x, T* out, int64_t n) {
  map1(x, out, n, [](V<T> v) INLINE_LAMBDA { return v * v * v; });
}

template <class T>
void masked_scale(const T* __restrict x, const uint8_t* __restrict mask, T* __restrict out, int64_t n, T scale) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i] * scale;
    out[i] = mask[i] ? v : T(0);
  }
}

// ---------------------------------------------------------------- random bits

// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). 16 counters at a
// time, each of its four words in the low half of a 64-bit lane; the high halves hold garbage that
// no product reads.
INLINE void philox_block(uint32_t* words, uint64_t seed, uint64_t counter) {
  constexpr int kL = kWidth / 8, kV = 16 / kL;
  Wide a[kV], b[kV], c[kV], d[kV];
  static const uint64_t steps[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int v = 0; v < kV; ++v) {
    a[v] = (Wide)(*reinterpret_cast<const Vec<double>::loose*>(steps + v * kL)) + counter;
    b[v] = a[v] >> 32;
    c[v] = d[v] = Wide{};
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) {
      Wide p = multiply_low(a[v], 0xD2511F53u), q = multiply_low(c[v], 0xCD9E8D57u);
      a[v] = (q >> 32) ^ b[v] ^ k0;
      b[v] = q;
      c[v] = (p >> 32) ^ d[v] ^ k1;
      d[v] = p;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  uint64_t low_words[16], high_words[16];
  for (int v = 0; v < kV; ++v) {
    *reinterpret_cast<Vec<double>::loose*>(low_words + v * kL) = (V<double>)((a[v] & 0xffffffffu) | b[v] << 32);
    *reinterpret_cast<Vec<double>::loose*>(high_words + v * kL) = (V<double>)((c[v] & 0xffffffffu) | d[v] << 32);
  }
  for (int j = 0; j < 16; ++j) {
    __builtin_memcpy(words + 4 * j, low_words + j, 8);  // little-endian, as both architectures are
    __builtin_memcpy(words + 4 * j + 2, high_words + j, 8);
  }
}

inline void philox_blocks(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter) {
  for (int64_t i = 0; i < blocks; ++i) philox_block(words + 64 * i, seed, counter + 16 * static_cast<uint64_t>(i));
}

// Keeps the elements whose random word is at least `threshold`; one word an element.
template <class T>
void dropout(const T* x, T* out, uint8_t* mask, int64_t n, T scale, uint32_t threshold, uint64_t seed, uint64_t counter) {
  uint32_t words[64];
  for (int64_t i = 0; i < n; i += 64, counter += 16) {
    philox_block(words, seed, counter);
    if (n - i >= 64) {
      for (int j = 0; j < 64; ++j) {
        bool masked_scale = words[j] >= threshold;
        mask[i + j] = masked_scale;
        out[i + j] = masked_scale ? x[i + j] * scale : T(0);
      }
    } else {
      for (int64_t j = 0; j < n - i; ++j) {
        bool masked_scale = words[j] >= threshold;
        mask[i + j] = masked_scale;
        out[i + j] = masked_scale ? x[i + j] * scale : T(0);
      }
    }
  }
}
