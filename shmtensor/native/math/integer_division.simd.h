// Quotients and remainders of integers. Included inside a level's namespace.
//
// For integers below 2^53 the truncated quotient of doubles is exact: the true quotient is at least 1 / y below the
// next integer, which is more than the rounding error. Below 2^51 the remainder is exact in double, too, and integers
// are converted to double and back by adding 1.5 * 2^52, since AVX2 has no instruction for it. So a block of such
// integers is vectorised; a block with a larger one is divided element by element. Division by 0 gives 0 (callers
// reject it before), division by -1 the wrapped negative.

enum Division { kTruncQuotient, kFloorQuotient, kTruncRemainder, kFloorRemainder };

// The divisor, or 1 for the special cases 0 and -1.
template <class T>
INLINE T safe_divisor(T y) {
  return (y == 0) | (y == static_cast<T>(-1) && static_cast<T>(-1) < 0) ? T(1) : y;
}

template <int kDivision, class T>
INLINE T finish_division(T x, T y, T quotient) {
  const bool negates = static_cast<T>(-1) < 0 && y == static_cast<T>(-1);
  const T q = negates ? static_cast<T>(0 - static_cast<uint64_t>(x)) : quotient;
  const T r = static_cast<T>(static_cast<uint64_t>(x) - static_cast<uint64_t>(q) * static_cast<uint64_t>(y));
  const bool below = (r != 0) & ((r ^ y) < 0);
  T out = q;
  if (kDivision == kFloorQuotient) out = static_cast<T>(static_cast<uint64_t>(q) - (below ? 1 : 0));
  if (kDivision == kTruncRemainder) out = r;
  if (kDivision == kFloorRemainder) out = static_cast<T>(static_cast<uint64_t>(r) + static_cast<uint64_t>(below ? y : T(0)));
  return y == 0 ? T(0) : out;
}

// Integers of 8 and 16 bits, which are exact in float.
template <int kDivision, class T>
void divide_narrow(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = finish_division<kDivision>(x[i], y[i],
                                        static_cast<T>(static_cast<float>(x[i]) / static_cast<float>(safe_divisor(y[i]))));
}

typedef int32_t FewInts __attribute__((vector_size(kWidth / 2)));
typedef int32_t LooseInts __attribute__((vector_size(kWidth / 2), aligned(4), may_alias));
typedef uint64_t LooseBits __attribute__((vector_size(kWidth), aligned(8), may_alias));
constexpr double kShift = 6755399441055744.0;          // 1.5 * 2^52
constexpr uint64_t kShiftBits = 0x4338000000000000ULL;  // its bits

// GCC 12 splits both conversions into halves or smaller parts.
INLINE V<double> as_doubles(const int32_t* p) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (V<double>)_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  return __builtin_convertvector((FewInts) * reinterpret_cast<const LooseInts*>(p), V<double>);
#endif
}
INLINE FewInts low_halves(Longs v) {
#if defined(__AVX512F__)
  return (FewInts)_mm512_cvtepi64_epi32((__m512i)v);
#elif defined(__AVX2__)
  const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  return (FewInts)_mm256_castsi256_si128(_mm256_permutevar8x32_epi32((__m256i)v, low));
#else
  return __builtin_convertvector(v, FewInts);
#endif
}
INLINE V<double> as_doubles(const int64_t* p) {
  return (V<double>)((Bits) * reinterpret_cast<const LooseBits*>(p) + kShiftBits) - kShift;
}
INLINE void store_integers(int32_t* p, V<double> v) {  // the low half of the sum's bits: wraps around
  *reinterpret_cast<LooseInts*>(p) = low_halves((Longs)(v + kShift));
}
INLINE void store_integers(int64_t* p, V<double> v) { *reinterpret_cast<LooseBits*>(p) = (Bits)(v + kShift) - kShiftBits; }

template <int kDivision>
INLINE V<double> divide_vectors(V<double> x, V<double> y) {
  const V<double> q = x / y;
  V<double> n = truncate(q);
  if (kDivision == kFloorQuotient || kDivision == kFloorRemainder) n = n > q ? n - 1.0 : n;
  const V<double> out = kDivision == kTruncQuotient || kDivision == kFloorQuotient ? n : x - n * y;
  return y == splat(0.0) ? V<double>{} : out;
}

template <int kDivision, class T>
void divide_small(const T* x, const T* y, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store_integers(out + i, divide_vectors<kDivision>(as_doubles(x + i), as_doubles(y + i)));
  if (i == n) return;
  T tail[kL], tail_divisors[kL];
  for (int k = 0; k < kL; ++k) {
    tail[k] = i + k < n ? x[i + k] : T(1);
    tail_divisors[k] = i + k < n ? y[i + k] : T(1);
  }
  store_integers(tail, divide_vectors<kDivision>(as_doubles(tail), as_doubles(tail_divisors)));
  for (int k = 0; i + k < n; ++k) out[i + k] = tail[k];
}

template <int kDivision, class T>
void divide_integers(const T* x, const T* y, T* out, int64_t n) {
  if constexpr (sizeof(T) < 4) {
    divide_narrow<kDivision>(x, y, out, n);
  } else if constexpr (sizeof(T) == 4) {
    divide_small<kDivision>(x, y, out, n);
  } else {
    constexpr int64_t kBlock = 256;
    constexpr uint64_t kMaxExact = uint64_t{1} << 51;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = n - at < kBlock ? n - at : kBlock;
      uint64_t out_of_range = 0;
      for (int64_t i = at; i < at + m; ++i)
        out_of_range |= (static_cast<uint64_t>(x[i]) + kMaxExact) | (static_cast<uint64_t>(y[i]) + kMaxExact);
      if (out_of_range < 2 * kMaxExact) {
        divide_small<kDivision>(x + at, y + at, out + at, m);
        continue;
      }
      for (int64_t i = at; i < at + m; ++i)
        out[i] = finish_division<kDivision>(x[i], y[i], static_cast<T>(x[i] / safe_divisor(y[i])));
    }
  }
}
