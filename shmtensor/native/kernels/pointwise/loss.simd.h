// Losses of two numbers, x and y, and their derivatives by x and by y. Included inside a level's namespace, after
// activation_backward.simd.h, whose Logistic it uses, and exp_sin_lerp_float32.simd.h. p are the parameters.

INLINE V<float> power_of_e(V<float> x) { return exp_any(x); }
INLINE V<float> logarithms(V<float> x) { return log_any(x); }
INLINE V<double> power_of_e(V<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}
INLINE V<double> logarithms(V<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_log(x[i]);
  return x;
}
// log(1 - x), near 0 by 2 artanh: what 1 swallows is not lost.
template <class T>
INLINE V<T> log_of_rest(V<T> x) {
  const V<T> s = x / (x - T(2));
  const V<T> near = T(2) * s * odd_series<T, sizeof(T) == 4 ? 5 : 12>(s * s);
  return x < all(T(0.25)) ? near : logarithms(T(1) - x);
}
// At least -100; NaN stays.
template <class T>
INLINE V<T> not_below(V<T> x) {
  return x < all(T(-100)) ? all(T(-100)) : x;
}

template <class T>
INLINE V<T> sign_of(V<T> x) {
  const V<T> y = x > all(T(0)) ? all(T(1)) : x * T(0);
  return x < all(T(0)) ? all(T(-1)) : y;
}

struct Squared {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return (x - y) * (x - y);
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    return T(2) * (x - y);
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    return T(2) * (y - x);
  }
};

struct Absolute {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return absolute<T>(x - y);
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    return sign_of<T>(x - y);
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    return sign_of<T>(y - x);
  }
};

struct Bent {  // p: knee, scale
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T* p) {
    const V<T> d = absolute<T>(x - y);
    const V<T> far = p[1] * (d - T(0.5) * p[0]);
    return d < all(p[0]) ? d * d * (T(0.5) * p[1] / p[0]) : far;
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T* p) {
    const T bounds[2] = {-1, 1};
    return p[1] * HardTanh::at<T>((x - y) / p[0], bounds);
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T* p) {
    return by_x<T>(y, x, p);
  }
};

struct Entropy {  // of the probability x
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return -(y * not_below<T>(logarithms(x)) + (T(1) - y) * not_below<T>(log_of_rest<T>(x)));
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    const V<T> d = (T(1) - x) * x;
    return (x - y) / (d < all(T(1e-12)) ? all(T(1e-12)) : d);
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T>, const T*) {
    return not_below<T>(log_of_rest<T>(x)) - not_below<T>(logarithms(x));
  }
};

struct Logit {  // the entropy of the logistic function of x
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    const V<T> part = x < all(T(0)) ? -y : T(1) - y;
    return part * x + log_one_plus<T>(exp_nonpositive(-absolute<T>(x)));
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    const Logistic<T> s(x);
    return s.up - y;
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T>, const T*) {
    return -x;
  }
};

struct SoftMargin {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return soft_plus<T>(-x * y);
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    return -y * Logistic<T>(x * y).down;
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    return -x * Logistic<T>(x * y).down;
  }
};

struct Divergence {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    const V<T> own = y == all(T(0)) ? all(T(0)) : y * logarithms(y);
    return own - y * x;
  }
  template <class T>
  static INLINE V<T> by_x(V<T>, V<T> y, const T*) {
    return -y;
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    return logarithms(y) + T(1) - x;
  }
};

struct LogDivergence {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return power_of_e(y) * (y - x);
  }
  template <class T>
  static INLINE V<T> by_x(V<T>, V<T> y, const T*) {
    return -power_of_e(y);
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    return power_of_e(y) * (y - x + T(1));
  }
};

struct Poisson {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return power_of_e(x) - y * x;
  }
  template <class T>
  static INLINE V<T> by_x(V<T> x, V<T> y, const T*) {
    return power_of_e(x) - y;
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T>, const T*) {
    return -x;
  }
};

struct Gated {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return x * Logistic<T>(y).up;
  }
  template <class T>
  static INLINE V<T> by_x(V<T>, V<T> y, const T*) {
    return Logistic<T>(y).up;
  }
  template <class T>
  static INLINE V<T> by_y(V<T> x, V<T> y, const T*) {
    const Logistic<T> s(y);
    return x * s.up * s.down;
  }
};

template <class T, class M>
void measure(const T* x, const T* y, T* out, int64_t n, const T* p) {
  T q[2] = {p[0], p[1]};
  map2(x, y, out, n, [q](V<T> a, V<T> b) INLINE_LAMBDA { return M::template at<T>(a, b, q); });
}

// The slope by x (side 0) or y times p[2].
template <class T, class M, int kSide>
void measure_slope(const T* x, const T* y, T* out, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};
  map2(x, y, out, n, [q](V<T> a, V<T> b) INLINE_LAMBDA {
    return q[2] * (kSide ? M::template by_y<T>(a, b, q) : M::template by_x<T>(a, b, q));
  });
}

template <class T>
void multiply(const T* g, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] *= g[i];
}

template <class T, class M>
constexpr MeasureKernels<T> measured = {
    measure<T, M>, {measure_slope<T, M, 0>, measure_slope<T, M, 1>}};
