// fmod, remainder, floor_divide, hypot and logaddexp. Included inside a level's namespace, after vector_float64.simd.h.
//
// fmod(x, y) is x - q y with q = trunc(x / y), computed exactly: for float32 in double if |q| < 2^28; for double by a
// fused multiply-add if |q| < 2^51, where a q that rounding made one too large gives a remainder of the wrong sign, and
// y is added. libm computes all others (x / 0, infinity, NaN, larger quotients), lane by lane.

template <bool kFine>
INLINE V<double> remainder_of(V<double> x, V<double> y) {
  const V<double> dividend = absolute<double>(x), divisor = absolute<double>(y), q = dividend / divisor;
  const Longs regular = (q < splat(kFine ? 2251799813685248.0 : 268435456.0)) & (divisor <= splat(1.7976931348623157e308));
  const V<double> n = truncate(select(regular, q, V<double>{}));
  V<double> r = fused(-n, divisor, dividend);
  if (kFine) r = r < splat(0.0) ? r + divisor : r;
  r = copy_sign_of(r, x);
  if (__builtin_expect(any_lane(~regular), 0)) {
    for (int i = 0; i < kLanes<double>; ++i) r[i] = regular[i] ? r[i] : __builtin_fmod(x[i], y[i]);
  }
  return r;
}

struct Fmod {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    return remainder_of<kFine>(x, y);
  }
};

// The remainder with the sign of y, as Python's % and NumPy.
struct Remainder {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> r = remainder_of<kFine>(x, y);
    const Longs sign_differs = (Longs)((Bits)((Longs)r ^ (Longs)y) >> 63) != 0;
    const V<double> adjusted = select(sign_differs, r + y, r);
    return r == splat(0.0) ? copy_sign_of(r, y) : adjusted;
  }
};

// Python's //, by way of the remainder, as NumPy does it (npy_divmod).
struct FloorDivide {
  template <bool kFine>
  static INLINE V<double> at(V<double> x, V<double> y) {
    const V<double> r = remainder_of<kFine>(x, y), quotient = x / y;
    const Longs sign_differs = (Longs)((Bits)((Longs)r ^ (Longs)y) >> 63) != 0;
    V<double> q = (x - r) / y;
    q = select(sign_differs & (r != splat(0.0)), q - 1.0, q);
    const Longs in_range = absolute<double>(q) < splat(2251799813685248.0);
    const V<double> v = select(in_range, q, V<double>{}), n = nearest(v);  // q is an integer up to rounding
    const V<double> down = n > v ? n - 1.0 : n, up = v - down > splat(0.5) ? down + 1.0 : down;
    V<double> out = select(in_range, up, q);
    out = q == splat(0.0) ? copy_sign_of(V<double>{}, quotient) : out;
    return y == splat(0.0) ? quotient : out;
  }
};

// The hypotenuse, with a correction of the rounding errors of squares and root (Borges, 2019, algorithm 2); for float32
// the direct formula in double is as accurate.
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
      const V<double> square_of_h = h * h;
      const V<double> error =
          fused(-low, low, square_of_h - square) + fused(h, h, -square_of_h) - fused(high, high, -square);
      h = h == splat(0.0) ? h : h - error / (2.0 * h);
      const Longs far = ~((high < splat(1e150)) & (high > splat(1e-120)));  // the squares overflow or underflow
      if (__builtin_expect(any_lane(far), 0)) {
        for (int i = 0; i < kLanes<double>; ++i) h[i] = far[i] ? __builtin_hypot(x[i], y[i]) : h[i];
      }
    }
    const V<double> infinite = splat(__builtin_inf());
    return (a == infinite) | (b == infinite) ? infinite : h;
  }
};

// log(e^x + e^y), or in base 2: the larger one and log(1 + e^-|x - y|).
template <class T, bool kTwo>
INLINE V<T> log_of_sum(V<T> x, V<T> y) {
  constexpr T kLog2 = T(0.69314718055994530942);
  const V<T> high = x > y ? x : y, d = absolute<T>(x - y);
  const V<T> log_term = log_one_plus<T>(exp_nonpositive(kTwo ? -d * kLog2 : -d));
  const V<T> out = high + (kTwo ? log_term * (1 / kLog2) : log_term);
  const V<T> equal = x + (kTwo ? T(1) : kLog2);
  return x == y ? equal : ((x == x) & (y == y)) ? out : x + y;
}
