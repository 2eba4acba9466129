// Arithmetic and sums of 16-bit floats in registers. Included inside a level's namespace, after
// half_conversion.simd.h and vector_float64.simd.h.
//
// Two vectors of float32 at a time, of as many bits as one vector of 16-bit floats. Those of bfloat16
// are the even and the odd ones, each the upper half of a 32-bit word once the other is masked or
// shifted away, so that nothing moves between lanes; those of float16 lie one after the other.

template <bool kBfloat>
struct Couple;

template <>
struct Couple<true> {
  typedef uint32_t Words __attribute__((vector_size(kWidth)));
  typedef uint32_t Loose __attribute__((vector_size(kWidth), aligned(1), may_alias));
  V<float> first, second;

  static INLINE Couple from(const uint16_t* x) {
    const Words w = *reinterpret_cast<const Loose*>(x);
    return {(V<float>)(w << 16), (V<float>)(w & 0xffff0000u)};
  }
  // To nearest, ties to even; a NaN stays one, with its sign.
  static INLINE Words rounded(V<float> x) {
    const Words b = (Words)x;
    return x == x ? b + 0x7fffu + (b >> 16 & 1u) : b | 0x400000u;
  }
  INLINE void put(uint16_t* out) const {
    *reinterpret_cast<Loose*>(out) = rounded(first) >> 16 | (rounded(second) & 0xffff0000u);
  }
  static constexpr int64_t place(int64_t i) { return 2 * i; }  // of lane i of `first`
  static constexpr int64_t other(int64_t i) { return 2 * i + 1; }
};

template <>
struct Couple<false> {
  static constexpr int kL = kLanes<float>;
  V<float> first, second;

  static INLINE Couple from(const uint16_t* x) {
    alignas(64) float wide[2 * kL];
    for (int i = 0; i < 2 * kL; i += kHalves) widen_block(x + i, wide + i);
    return {load(wide), load(wide + kL)};
  }
  INLINE void put(uint16_t* out) const {
    alignas(64) float wide[2 * kL];
    store<float>(wide, first);
    store<float>(wide + kL, second);
    for (int i = 0; i < 2 * kL; i += kHalves) narrow_block(wide + i, out + i);
  }
  static constexpr int64_t place(int64_t i) { return i / kL * 2 * kL + i % kL; }
  static constexpr int64_t other(int64_t i) { return place(i) + kL; }
};

struct HalfSum {
  static INLINE V<float> of(V<float> a, V<float> b) { return a + b; }
};
struct HalfDifference {
  static INLINE V<float> of(V<float> a, V<float> b) { return a - b; }
};
struct HalfProduct {
  static INLINE V<float> of(V<float> a, V<float> b) { return a * b; }
};
struct HalfQuotient {
  static INLINE V<float> of(V<float> a, V<float> b) { return a / b; }
};

// The greater one; a NaN on the left stays. With 0 on the right: relu.
struct HalfBound {
  static INLINE V<float> of(V<float> a, V<float> b) { return a <= b ? b : a; }
};

// A NaN on either side stays.
struct HalfGreater {
  static INLINE V<float> of(V<float> a, V<float> b) { return (a >= b) | (a != a) ? a : b; }
};
struct HalfLesser {
  static INLINE V<float> of(V<float> a, V<float> b) { return (a <= b) | (a != a) ? a : b; }
};
struct HalfSigned {
  static INLINE V<float> of(V<float> a, V<float> b) { return with_sign_of(a, b); }
};

// The nearest whole number, ties to even; from 2^23 on all are whole.
INLINE V<float> whole_nearest(V<float> x) {
  const V<float> size = absolute<float>(x), n = (size + 8388608.0f) - 8388608.0f;
  return size < all(8388608.0f) ? with_sign_of(n, x) : x;
}
struct HalfRound {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return whole_nearest(x);
  }
};

// Without the fraction, by way of whole numbers; kStep is what is added where that is above (floor) or
// below x (ceil).
template <int kStep>
INLINE V<float> whole_beside(V<float> x) {
  typedef Vec<float>::bits I;
  const I small = absolute<float>(x) < all(8388608.0f);
  const V<float> c = (V<float>)((I)x & small), n = __builtin_convertvector(__builtin_convertvector(c, I), V<float>);
  const V<float> moved = kStep < 0 ? (n > c ? n - 1.0f : n) : kStep > 0 ? (n < c ? n + 1.0f : n) : n;
  return small ? with_sign_of(moved, x) : x;
}
struct HalfFloor {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return whole_beside<-1>(x);
  }
};
struct HalfCeil {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return whole_beside<1>(x);
  }
};
struct HalfTrunc {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return whole_beside<0>(x);
  }
};
struct HalfFraction {
  template <class T>
  static INLINE V<float> at(V<float> x, const T* p) {
    return x - HalfTrunc::at(x, p);
  }
};
struct HalfRoot {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return root(x);
  }
};
struct HalfInverse {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return 1.0f / x;
  }
};
struct HalfInverseRoot {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return 1.0f / root(x);
  }
};

// out = Op(x, p), in place, too.
template <bool kBfloat, class Op>
void half_unary(const uint16_t* x, uint16_t* out, int64_t n, const float* p) {
  using C = Couple<kBfloat>;
  constexpr int64_t kStep = 2 * kLanes<float>;
  const float q[3] = {p[0], p[1], p[2]};  // out could be p, for all the compiler knows
  const auto block = [&q](const uint16_t* from, uint16_t* to) INLINE_LAMBDA {
    const C v = C::from(from);
    C{Op::template at<float>(v.first, q), Op::template at<float>(v.second, q)}.put(to);
  };
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) block(x + i, out + i);
  if (i == n) return;
  uint16_t rest[kStep] = {};
  __builtin_memcpy(rest, x + i, static_cast<size_t>(n - i) * 2);
  block(rest, rest);
  __builtin_memcpy(out + i, rest, static_cast<size_t>(n - i) * 2);
}

// out = Op(x, y); a nullptr stands for its number. In place, too.
template <bool kBfloat, class Op>
void half_binary(const uint16_t* x, const uint16_t* y, const float* numbers, uint16_t* out, int64_t n) {
  using C = Couple<kBfloat>;
  constexpr int64_t kStep = 2 * kLanes<float>;
  const V<float> a = all(numbers[0]), b = all(numbers[1]);
  const auto block = [](C p, C q, uint16_t* to) INLINE_LAMBDA {
    C{Op::of(p.first, q.first), Op::of(p.second, q.second)}.put(to);
  };
  const auto run = [&](const uint16_t* p, const uint16_t* q, uint16_t* to, int64_t count) INLINE_LAMBDA {
    if (p && q) {
      for (int64_t i = 0; i < count; i += kStep) block(C::from(p + i), C::from(q + i), to + i);
    } else if (p) {
      for (int64_t i = 0; i < count; i += kStep) block(C::from(p + i), C{b, b}, to + i);
    } else {
      for (int64_t i = 0; i < count; i += kStep) block(C{a, a}, C::from(q + i), to + i);
    }
  };
  const int64_t whole = n / kStep * kStep, rest = n - whole;
  run(x, y, out, whole);
  if (rest == 0) return;
  uint16_t p[kStep] = {}, q[kStep] = {};
  if (x) __builtin_memcpy(p, x + whole, static_cast<size_t>(rest) * 2);
  if (y) __builtin_memcpy(q, y + whole, static_cast<size_t>(rest) * 2);
  run(x ? p : nullptr, y ? q : nullptr, p, kStep);
  __builtin_memcpy(out + whole, p, static_cast<size_t>(rest) * 2);
}

// 64 chains of at most 32 terms, joined two by two, then double: the same on every level.
template <bool kBfloat>
double half_sum(const uint16_t* x, int64_t n) {
  using C = Couple<kBfloat>;
  constexpr int kL = kLanes<float>, kV = 32 / kL;
  double total = 0;
  while (n > 0) {
    const int64_t m = n < 2048 ? n : 2048;
    V<float> t[2][kV];
    for (int j = 0; j < kV; ++j) t[0][j] = t[1][j] = all(0.0f);
    const auto add = [&t](const uint16_t* from) INLINE_LAMBDA {
      for (int j = 0; j < kV; ++j) {
        const C c = C::from(from + 2 * j * kL);
        t[0][j] += c.first;
        t[1][j] += c.second;
      }
    };
    int64_t i = 0;
    for (; i + 64 <= m; i += 64) add(x + i);
    if (i < m) {
      uint16_t rest[64] = {};
      __builtin_memcpy(rest, x + i, static_cast<size_t>(m - i) * 2);
      add(rest);
    }
    // What an element's lane is differs by format and level where float16 lies in two vectors: by
    // place, then.
    float chains[64];
    for (int j = 0; j < kV; ++j) {
      for (int l = 0; l < kL; ++l) {
        chains[C::place(j * kL + l)] = t[0][j][l];
        chains[C::other(j * kL + l)] = t[1][j][l];
      }
    }
    for (int k = 32; k; k /= 2) {
      for (int j = 0; j < k; ++j) chains[j] += chains[j + k];
    }
    total += static_cast<double>(chains[0]);
    x += m;
    n -= m;
  }
  return total;
}

// acc[c] += the sums of the columns of m rows of `width`, `stride` apart, one row after the other;
// at most kHalfColumns of them.
template <bool kBfloat>
void half_sum_columns(const uint16_t* x, float* acc, int64_t m, int64_t width, int64_t stride) {
  using C = Couple<kBfloat>;
  constexpr int kL = kLanes<float>;
  constexpr int64_t kStep = 2 * kL, kTogether = 8;
  float sums[2][kHalfColumns / 2 + kL];
  const int64_t whole = width / kStep * kStep, rest = width - whole;
  const int64_t half = (width + kStep - 1) / kStep * kL;
  for (int64_t i = 0; i < half; ++i) {
    sums[0][i] = C::place(i) < width ? acc[C::place(i)] : 0;
    sums[1][i] = C::other(i) < width ? acc[C::other(i)] : 0;
  }
  for (int64_t k = 0; k < m; k += kTogether) {
    const int64_t rows = m - k < kTogether ? m - k : kTogether;
    const uint16_t* from = x + k * stride;
    const auto add = [&](const uint16_t* at, int64_t step, int64_t c) INLINE_LAMBDA {
      V<float> s = load(sums[0] + c / 2), t = load(sums[1] + c / 2);
      for (int64_t r = 0; r < rows; ++r) {
        const C v = C::from(at + r * step);
        s += v.first;
        t += v.second;
      }
      store<float>(sums[0] + c / 2, s);
      store<float>(sums[1] + c / 2, t);
    };
    for (int64_t c = 0; c < whole; c += kStep) add(from + c, stride, c);
    if (rest == 0) continue;
    uint16_t few[kTogether * kStep] = {};
    for (int64_t r = 0; r < rows; ++r)
      __builtin_memcpy(few + r * kStep, from + r * stride + whole, static_cast<size_t>(rest) * 2);
    add(few, kStep, whole);
  }
  for (int64_t i = 0; i < half; ++i) {
    if (C::place(i) < width) acc[C::place(i)] = sums[0][i];
    if (C::other(i) < width) acc[C::other(i)] = sums[1][i];
  }
}

template <bool kBfloat>
constexpr HalfArithmetic half_arithmetic = {
    {half_binary<kBfloat, HalfSum>, half_binary<kBfloat, HalfDifference>, half_binary<kBfloat, HalfProduct>,
     half_binary<kBfloat, HalfQuotient>, half_binary<kBfloat, HalfBound>, half_binary<kBfloat, HalfGreater>,
     half_binary<kBfloat, HalfLesser>, half_binary<kBfloat, HalfSigned>},
    {nullptr, nullptr, nullptr, nullptr, half_unary<kBfloat, LeakyRelu>, nullptr, half_unary<kBfloat, HardTanh>,
     half_unary<kBfloat, HardSigmoid>, half_unary<kBfloat, HardSwish>, half_unary<kBfloat, HardShrink>,
     half_unary<kBfloat, SoftShrink>, half_unary<kBfloat, Threshold>, half_unary<kBfloat, Numbers>,
     half_unary<kBfloat, HalfRoot>, half_unary<kBfloat, HalfInverse>, half_unary<kBfloat, HalfInverseRoot>,
     half_unary<kBfloat, HalfFloor>, half_unary<kBfloat, HalfCeil>, half_unary<kBfloat, HalfTrunc>,
     half_unary<kBfloat, HalfRound>, half_unary<kBfloat, HalfFraction>},
    half_sum<kBfloat>,
    half_sum_columns<kBfloat>,
};
