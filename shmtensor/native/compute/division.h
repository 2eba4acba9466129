// Quotients and remainders of whole numbers. Included inside a level's namespace.
//
// A quotient of whole numbers below 2^53 is the quotient of them as doubles, cut off: what it lacks to
// the next whole number is 1 / y at least, more than rounding can add. So a block of such numbers
// becomes vector code; a block with a larger one is divided one by one. Over 0 all results are 0
// (callers refuse it before), over -1 the quotient is the number with the other sign, wrapped.

enum Rest { kCut, kDown, kRestOfCut, kRestOfDown };

template <class T>
struct Quotients {  // what is divided in
  typedef double type;
};
template <>
struct Quotients<int8_t> {
  typedef float type;
};
template <>
struct Quotients<uint8_t> {
  typedef float type;
};
template <>
struct Quotients<int16_t> {
  typedef float type;
};

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

template <int kRest, class T>
void divide_small(const T* x, const T* y, T* out, int64_t n) {
  typedef typename Quotients<T>::type F;
  for (int64_t i = 0; i < n; ++i)
    out[i] = finished<kRest>(x[i], y[i],
                             static_cast<T>(static_cast<F>(x[i]) / static_cast<F>(plain_divisor(y[i]))));
}

template <int kRest, class T>
void divide_whole(const T* x, const T* y, T* out, int64_t n) {
  if constexpr (sizeof(T) < 8) {
    divide_small<kRest>(x, y, out, n);
  } else {
    constexpr int64_t kBlock = 256;
    constexpr uint64_t kMost = uint64_t{1} << 52;
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
