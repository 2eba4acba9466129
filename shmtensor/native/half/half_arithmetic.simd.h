// Arithmetic and sums of 16-bit floats in registers. Included inside a level's namespace, after
// half_conversion.simd.h and vector_float64.simd.h.
//
// One vector of 16-bit floats is computed as two vectors of float32. For bfloat16 these are the even and the odd
// elements, each the upper half of a 32-bit word after the other is masked or shifted out, so that nothing moves
// between lanes; for float16 they are consecutive.

template <bool kBfloat>
struct FloatPair;

template <>
struct FloatPair<true> {
  typedef uint32_t Words __attribute__((vector_size(kWidth)));
  typedef uint32_t Loose __attribute__((vector_size(kWidth), aligned(1), may_alias));
  V<float> first, second;

  static INLINE FloatPair widen(const uint16_t* x) {
    const Words w = *reinterpret_cast<const Loose*>(x);
    return {(V<float>)(w << 16), (V<float>)(w & 0xffff0000u)};
  }
  // Rounds to nearest, ties to even; a NaN stays a NaN with its sign.
  static INLINE Words rounded(V<float> x) {
    const Words b = (Words)x;
    return x == x ? b + 0x7fffu + (b >> 16 & 1u) : b | 0x400000u;
  }
  INLINE void store_narrow(uint16_t* out) const {
    *reinterpret_cast<Loose*>(out) = rounded(first) >> 16 | (rounded(second) & 0xffff0000u);
  }
  static constexpr int64_t first_index(int64_t i) { return 2 * i; }  // the index of lane i of `first`
  static constexpr int64_t second_index(int64_t i) { return 2 * i + 1; }
};

#if defined(__F16C__)
#define CONVERSION INLINE
#else  // without instructions for it a conversion is long: not a copy for each operation
#define CONVERSION __attribute__((noinline))
#endif

template <>
struct FloatPair<false> {
  static constexpr int kL = kLanes<float>;
  V<float> first, second;

  static CONVERSION FloatPair widen(const uint16_t* x) {
    alignas(64) float wide[2 * kL];
    for (int i = 0; i < 2 * kL; i += kHalves) widen_block(x + i, wide + i);
    return {load(wide), load(wide + kL)};
  }
  CONVERSION void store_narrow(uint16_t* out) const {
    alignas(64) float wide[2 * kL];
    store<float>(wide, first);
    store<float>(wide + kL, second);
    for (int i = 0; i < 2 * kL; i += kHalves) narrow_block(wide + i, out + i);
  }
  static constexpr int64_t first_index(int64_t i) { return i / kL * 2 * kL + i % kL; }
  static constexpr int64_t second_index(int64_t i) { return first_index(i) + kL; }
};
#undef CONVERSION

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

// The maximum; a NaN on the left stays. With 0 on the right: relu.
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
  static INLINE V<float> of(V<float> a, V<float> b) { return copy_sign_of(a, b); }
};

// The nearest integer, ties to even; from 2^23 on all floats are integers.
INLINE V<float> round_to_integer(V<float> x) {
  const V<float> size = absolute<float>(x), n = (size + 8388608.0f) - 8388608.0f;
  return size < splat(8388608.0f) ? copy_sign_of(n, x) : x;
}
struct HalfRound {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return round_to_integer(x);
  }
};

// Truncates through int32; kStep is added if the result is above x (floor, -1) or below x (ceil, 1).
template <int kStep>
INLINE V<float> round_by(V<float> x) {
  typedef Vec<float>::bits I;
  const I small = absolute<float>(x) < splat(8388608.0f);
  const V<float> c = (V<float>)((I)x & small), n = __builtin_convertvector(__builtin_convertvector(c, I), V<float>);
  const V<float> adjusted = kStep < 0 ? (n > c ? n - 1.0f : n) : kStep > 0 ? (n < c ? n + 1.0f : n) : n;
  return small ? copy_sign_of(adjusted, x) : x;
}
struct HalfFloor {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return round_by<-1>(x);
  }
};
struct HalfCeil {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return round_by<1>(x);
  }
};
struct HalfTrunc {
  template <class T>
  static INLINE V<float> at(V<float> x, const T*) {
    return round_by<0>(x);
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

// out = Op(x, p); may run in place.
template <bool kBfloat, class Op>
void half_unary(const uint16_t* x, uint16_t* out, int64_t n, const float* p) {
  using C = FloatPair<kBfloat>;
  constexpr int64_t kStep = 2 * kLanes<float>;
  const float q[3] = {p[0], p[1], p[2]};  // a copy: the compiler must assume that out aliases p
  const auto block = [&q](const uint16_t* from, uint16_t* to) INLINE_LAMBDA {
    const C v = C::widen(from);
    C{Op::template at<float>(v.first, q), Op::template at<float>(v.second, q)}.store_narrow(to);
  };
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) block(x + i, out + i);
  if (i == n) return;
  uint16_t tail[kStep] = {};
  __builtin_memcpy(tail, x + i, static_cast<size_t>(n - i) * 2);
  block(tail, tail);
  __builtin_memcpy(out + i, tail, static_cast<size_t>(n - i) * 2);
}

// out = Op(x, y); a nullptr operand is replaced by its number. May run in place.
template <bool kBfloat, class Op>
void half_binary(const uint16_t* x, const uint16_t* y, const float* numbers, uint16_t* out, int64_t n) {
  using C = FloatPair<kBfloat>;
  constexpr int64_t kStep = 2 * kLanes<float>;
  const V<float> a = splat(numbers[0]), b = splat(numbers[1]);
  const auto block = [](C p, C q, uint16_t* to)
                         INLINE_LAMBDA { C{Op::of(p.first, q.first), Op::of(p.second, q.second)}.store_narrow(to); };
  const auto run = [&](const uint16_t* p, const uint16_t* q, uint16_t* to, int64_t count) INLINE_LAMBDA {
    if (p && q) {
      for (int64_t i = 0; i < count; i += kStep) block(C::widen(p + i), C::widen(q + i), to + i);
    } else if (p) {
      for (int64_t i = 0; i < count; i += kStep) block(C::widen(p + i), C{b, b}, to + i);
    } else {
      for (int64_t i = 0; i < count; i += kStep) block(C{a, a}, C::widen(q + i), to + i);
    }
  };
  const int64_t full = n / kStep * kStep, tail = n - full;
  run(x, y, out, full);
  if (tail == 0) return;
  uint16_t p[kStep] = {}, q[kStep] = {};
  if (x) __builtin_memcpy(p, x + full, static_cast<size_t>(tail) * 2);
  if (y) __builtin_memcpy(q, y + full, static_cast<size_t>(tail) * 2);
  run(x ? p : nullptr, y ? q : nullptr, p, kStep);
  __builtin_memcpy(out + full, p, static_cast<size_t>(tail) * 2);
}

// 64 accumulators of at most 32 terms, added pairwise, then in double: the same result at every level.
template <bool kBfloat>
double half_sum(const uint16_t* x, int64_t n) {
  using C = FloatPair<kBfloat>;
  constexpr int kL = kLanes<float>, kV = 32 / kL;
  double total = 0;
  while (n > 0) {
    const int64_t m = n < 2048 ? n : 2048;
    V<float> t[2][kV];
    for (int j = 0; j < kV; ++j) t[0][j] = t[1][j] = splat(0.0f);
    const auto add = [&t](const uint16_t* from) INLINE_LAMBDA {
      for (int j = 0; j < kV; ++j) {
        const C c = C::widen(from + 2 * j * kL);
        t[0][j] += c.first;
        t[1][j] += c.second;
      }
    };
    int64_t i = 0;
    for (; i + 64 <= m; i += 64) add(x + i);
    if (i < m) {
      uint16_t tail[64] = {};
      __builtin_memcpy(tail, x + i, static_cast<size_t>(m - i) * 2);
      add(tail);
    }
    // The lane of an element depends on format and level, so the accumulators are ordered by element index.
    float chains[64];
    for (int j = 0; j < kV; ++j) {
      for (int l = 0; l < kL; ++l) {
        chains[C::first_index(j * kL + l)] = t[0][j][l];
        chains[C::second_index(j * kL + l)] = t[1][j][l];
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

// acc[c] += the sum of column c of m rows, `stride` apart, added row by row; width is at most kHalfColumns.
template <bool kBfloat>
void half_sum_columns(const uint16_t* x, float* acc, int64_t m, int64_t width, int64_t stride) {
  using C = FloatPair<kBfloat>;
  constexpr int kL = kLanes<float>;
  constexpr int64_t kStep = 2 * kL, kRowsAtOnce = 8;
  float sums[2][kHalfColumns / 2 + kL];
  const int64_t full = width / kStep * kStep, tail = width - full;
  const int64_t half = (width + kStep - 1) / kStep * kL;
  for (int64_t i = 0; i < half; ++i) {
    sums[0][i] = C::first_index(i) < width ? acc[C::first_index(i)] : 0;
    sums[1][i] = C::second_index(i) < width ? acc[C::second_index(i)] : 0;
  }
  for (int64_t k = 0; k < m; k += kRowsAtOnce) {
    const int64_t rows = m - k < kRowsAtOnce ? m - k : kRowsAtOnce;
    const uint16_t* from = x + k * stride;
    const auto add = [&](const uint16_t* at, int64_t step, int64_t c) INLINE_LAMBDA {
      V<float> s = load(sums[0] + c / 2), t = load(sums[1] + c / 2);
      for (int64_t r = 0; r < rows; ++r) {
        const C v = C::widen(at + r * step);
        s += v.first;
        t += v.second;
      }
      store<float>(sums[0] + c / 2, s);
      store<float>(sums[1] + c / 2, t);
    };
    for (int64_t c = 0; c < full; c += kStep) add(from + c, stride, c);
    if (tail == 0) continue;
    uint16_t padded_rows[kRowsAtOnce * kStep] = {};
    for (int64_t r = 0; r < rows; ++r)
      __builtin_memcpy(padded_rows + r * kStep, from + r * stride + full, static_cast<size_t>(tail) * 2);
    add(padded_rows, kStep, full);
  }
  for (int64_t i = 0; i < half; ++i) {
    if (C::first_index(i) < width) acc[C::first_index(i)] = sums[0][i];
    if (C::second_index(i) < width) acc[C::second_index(i)] = sums[1][i];
  }
}

#define BINARY(name, numpy_name, inputs, operation) half_binary<kBfloat, operation>,
#define UNARY(name, numpy_name) half_unary<kBfloat, name>,
template <bool kBfloat>
constexpr HalfArithmetic half_arithmetic = {
    .binary = {HALF_BINARIES(BINARY)},
    .unary = {half_unary<kBfloat, HardTanh>, half_unary<kBfloat, Numbers>, HALF_UNARIES(UNARY)},
    .sum = half_sum<kBfloat>,
    .sum_columns = half_sum_columns<kBfloat>,
};
#undef BINARY
#undef UNARY
