// Quotients and their remainders, lengths, neighbours; sums of exponentials. Included inside a level's
// namespace, after vector_float64.simd.h.
//
// fmod(x, y) is x - q y with q = trunc(x / y), exactly: in double for numbers of float32 and |q| < 2^28;
// for numbers of double by a fused multiply-add and |q| < 2^51, and where rounding has made q one too
// large the remainder has the other sign and y is added. All others are libm's (x / 0, infinity, NaN,
// quotients farther out), lane by lane.

template <bool kFine>
INLINE V<double> remainder_of(V<double> x, V<double> y) {
  const V<double> size = absolute<double>(x), by = absolute<double>(y), q = size / by;
  const Longs usual = (q < all(kFine ? 2251799813685248.0 : 268435456.0)) &
                      (by <= all(1.7976931348623157e308));
  const V<double> n = whole(pick(usual, q, V<double>{}));
  V<double> r = fused(-n, by, size);
  if (kFine) r = r < all(0.0) ? r + by : r;
  r = with_sign_of(r, x);
  if (__builtin_expect(somewhere(~usual), 0)) {
    for (int i = 0; i < kLanes<double>; ++i) r[i] = usual[i] ? r[i] : __builtin_fmod(x[i], y[i]);
  }
  return r;
}

struct Fmod {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    return remainder_of<kFine>(x, y);
  }
};

// The rest that has the sign of y, as Python's % and NumPy have it.
struct Remainder {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> r = remainder_of<kFine>(x, y);
    const Longs other = (Longs)((Bits)((Longs)r ^ (Longs)y) >> 63) != 0;
    const V<double> moved = pick(other, r + y, r);
    return r == all(0.0) ? with_sign_of(r, y) : moved;
  }
};

// Python's //, by way of the remainder, as NumPy does it (npy_divmod).
struct FloorDivide {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> r = remainder_of<kFine>(x, y), plain = x / y;
    const Longs other = (Longs)((Bits)((Longs)r ^ (Longs)y) >> 63) != 0;
    V<double> q = (x - r) / y;
    q = pick(other & (r != all(0.0)), q - 1.0, q);
    const Longs within = absolute<double>(q) < all(2251799813685248.0);
    const V<double> v = pick(within, q, V<double>{}), n = nearest(v);  // q is whole but for its rounding
    const V<double> down = n > v ? n - 1.0 : n, up = v - down > all(0.5) ? down + 1.0 : down;
    V<double> out = pick(within, up, q);
    out = q == all(0.0) ? with_sign_of(V<double>{}, plain) : out;
    return y == all(0.0) ? plain : out;
  }
};

// The hypotenuse, corrected once by what squares and root lost (Borges, 2019, algorithm 2); of float32
// the plain formula in double is as good.
struct Hypot {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> a = absolute<double>(x), b = absolute<double>(y);
    V<double> h;
    if constexpr (!kFine) {
      h = root(a * a + b * b);
    } else {
      const V<double> high = a > b ? a : b, low = a > b ? b : a, square = high * high;
      h = root(fused(high, high, low * low));
      const V<double> back = h * h;
      const V<double> lost = fused(-low, low, back - square) + fused(h, h, -back) -
                             fused(high, high, -square);
      h = h == all(0.0) ? h : h - lost / (2.0 * h);
      const Longs far = ~((high < all(1e150)) & (high > all(1e-120)));  // squares leave the range
      if (__builtin_expect(somewhere(far), 0)) {
        for (int i = 0; i < kLanes<double>; ++i) h[i] = far[i] ? __builtin_hypot(x[i], y[i]) : h[i];
      }
    }
    const V<double> infinite = all(__builtin_inf());
    return (a == infinite) | (b == infinite) ? infinite : h;
  }
};

// log(e^x + e^y), or in base 2: the larger one and log(1 + e^-|x - y|).
template <class T, bool kTwo>
INLINE V<T> log_of_sum(V<T> x, V<T> y) {
  constexpr T kLog2 = T(0.69314718055994530942);
  const V<T> high = x > y ? x : y, d = absolute<T>(x - y);
  const V<T> more = log_one_plus<T>(exp_nonpositive(kTwo ? -d * kLog2 : -d));
  const V<T> out = high + (kTwo ? more * (1 / kLog2) : more);
  const V<T> equal = x + (kTwo ? T(1) : kLog2);
  return x == y ? equal : ((x == x) & (y == y)) ? out : x + y;
}
