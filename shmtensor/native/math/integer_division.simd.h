// Quotients and remainders of whole numbers. Included inside a level's namespace.
//
// A quotient of whole numbers below 2^53 is the quotient of them as doubles, cut off: what it lacks to
// the next whole number is 1 / y at least, more than rounding can add. Below 2^51 the rest is exact in
// double, too, and such numbers become doubles and whole again by an addition to 1.5 * 2^52, for which
// AVX2 has no instruction. So a block of such numbers is vector code; a block with a larger one is
// divided one by one. Over 0 all results are 0 (callers refuse it before), over -1 the quotient is the
// number with the other sign, wrapped.

enum Rest { kCut, kDown, kRestOfCut, kRestOfDown };

// The divisor, or 1 where the quotient has a rule of its own.
template <class T>
INLINE T plain_divisor(T y) {
  return (y == 0) | (y == static_cast<T>(-1) && static_cast<T>(-1) < 0) ? T(1) : y;
}

template <int kRest, class T>
INLINE T finished(T x, T y, T quotient) {
  const bool negates = static_cast<T>(-1) < 0 && y == static_cast<T>(-1);
  const T q = negates ? static_cast<T>(0 - static_cast<uint64_t>(x)) : quotient;
  const T r = static_cast<T>(static_cast<uint64_t>(x) - static_cast<uint64_t>(q) * static_cast<uint64_t>(y));
  const bool below = (r != 0) & ((r ^ y) < 0);
  T out = q;
  if (kRest == kDown) out = static_cast<T>(static_cast<uint64_t>(q) - (below ? 1 : 0));
  if (kRest == kRestOfCut) out = r;
  if (kRest == kRestOfDown) out = static_cast<T>(static_cast<uint64_t>(r) + static_cast<uint64_t>(below ? y : T(0)));
  return y == 0 ? T(0) : out;
}

// Of 8 and 16 bits: float holds them.
template <int kRest, class T>
void divide_few_bits(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = finished<kRest>(
        x[i], y[i], static_cast<T>(static_cast<float>(x[i]) / static_cast<float>(plain_divisor(y[i]))));
}

typedef int32_t FewInts __attribute__((vector_size(kWidth / 2)));
typedef int32_t LooseInts __attribute__((vector_size(kWidth / 2), aligned(4), may_alias));
typedef uint64_t LooseBits __attribute__((vector_size(kWidth), aligned(8), may_alias));
constexpr double kShift = 6755399441055744.0;          // 1.5 * 2^52
constexpr uint64_t kShiftBits = 0x4338000000000000ULL;  // its bits

// GCC 12 makes two halves and more of both conversions.
INLINE V<double> as_doubles(const int32_t* p) {
#if defined(__AVX512F__)
  return (V<double>)_mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (V<double>)_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  return __builtin_convertvector((FewInts)*reinterpret_cast<const LooseInts*>(p), V<double>);
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
  return (V<double>)((Bits)*reinterpret_cast<const LooseBits*>(p) + kShiftBits) - kShift;
}
INLINE void put_whole(int32_t* p, V<double> v) {  // the low half of a sum's bits: wraps round
  *reinterpret_cast<LooseInts*>(p) = low_halves((Longs)(v + kShift));
}
INLINE void put_whole(int64_t* p, V<double> v) {
  *reinterpret_cast<LooseBits*>(p) = (Bits)(v + kShift) - kShiftBits;
}

template <int kRest>
INLINE V<double> divided(V<double> x, V<double> y) {
  const V<double> q = x / y;
  V<double> n = whole(q);
  if (kRest == kDown || kRest == kRestOfDown) n = n > q ? n - 1.0 : n;
  const V<double> out = kRest == kCut || kRest == kDown ? n : x - n * y;
  return y == all(0.0) ? V<double>{} : out;
}

template <int kRest, class T>
void divide_small(const T* x, const T* y, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) put_whole(out + i, divided<kRest>(as_doubles(x + i), as_doubles(y + i)));
  if (i == n) return;
  T rest[kL], other[kL];
  for (int k = 0; k < kL; ++k) {
    rest[k] = i + k < n ? x[i + k] : T(1);
    other[k] = i + k < n ? y[i + k] : T(1);
  }
  put_whole(rest, divided<kRest>(as_doubles(rest), as_doubles(other)));
  for (int k = 0; i + k < n; ++k) out[i + k] = rest[k];
}

template <int kRest, class T>
void divide_whole(const T* x, const T* y, T* out, int64_t n) {
  if constexpr (sizeof(T) < 4) {
    divide_few_bits<kRest>(x, y, out, n);
  } else if constexpr (sizeof(T) == 4) {
    divide_small<kRest>(x, y, out, n);
  } else {
    constexpr int64_t kBlock = 256;
    constexpr uint64_t kMost = uint64_t{1} << 51;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = n - at < kBlock ? n - at : kBlock;
      uint64_t far = 0;
      for (int64_t i = at; i < at + m; ++i)
        far |= (static_cast<uint64_t>(x[i]) + kMost) | (static_cast<uint64_t>(y[i]) + kMost);
      if (far < 2 * kMost) {
        divide_small<kRest>(x + at, y + at, out + at, m);
        continue;
      }
      for (int64_t i = at; i < at + m; ++i)
        out[i] = finished<kRest>(x[i], y[i], static_cast<T>(x[i] / plain_divisor(y[i])));
    }
  }
}

template <class T>
constexpr WholeFunctions<T> whole_table = {
    {divide_whole<kRestOfCut, T>, divide_whole<kRestOfDown, T>, divide_whole<kDown, T>, divide_whole<kCut, T>}};
