// Losses of two numbers, x and y, and their derivatives by x and by y. Included inside a level's namespace, after
// activation_backward.simd.h, whose Logistic it uses, and exp_sin_lerp_float32.simd.h. p are the parameters.

INLINE V<float> vector_exp(V<float> x) { return exp_any(x); }
INLINE V<float> vector_log(V<float> x) { return log_any(x); }
INLINE V<double> vector_exp(V<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}
INLINE V<double> vector_log(V<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_log(x[i]);
  return x;
}
// log(1 - x); near 0 by 2 artanh, since 1 - x loses the digits of a small x.
template <class T>
INLINE V<T> log_one_minus(V<T> x) {
  const V<T> s = x / (x - T(2));
  const V<T> series = T(2) * s * odd_series<T, sizeof(T) == 4 ? 5 : 12>(s * s);
  return x < splat(T(0.25)) ? series : vector_log(T(1) - x);
}
// At least -100; NaN stays.
template <class T>
INLINE V<T> clamp_log(V<T> x) {
  return x < splat(T(-100)) ? splat(T(-100)) : x;
}

template <class T>
INLINE V<T> sign_of(V<T> x) {
  const V<T> y = x > splat(T(0)) ? splat(T(1)) : x * T(0);
  return x < splat(T(0)) ? splat(T(-1)) : y;
}

struct MseLoss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return (x - y) * (x - y);
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    return T(2) * (x - y);
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    return T(2) * (y - x);
  }
};

struct L1Loss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return absolute<T>(x - y);
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    return sign_of<T>(x - y);
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    return sign_of<T>(y - x);
  }
};

struct HuberLoss {  // p: delta, scale; smooth_l1 and huber
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T* p) {
    const V<T> d = absolute<T>(x - y);
    const V<T> linear = p[1] * (d - T(0.5) * p[0]);
    return d < splat(p[0]) ? d * d * (T(0.5) * p[1] / p[0]) : linear;
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T* p) {
    const T bounds[2] = {-1, 1};
    return p[1] * HardTanh::at<T>((x - y) / p[0], bounds);
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T* p) {
    return derivative_x<T>(y, x, p);
  }
};

struct BceLoss {  // x is a probability
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return -(y * clamp_log<T>(vector_log(x)) + (T(1) - y) * clamp_log<T>(log_one_minus<T>(x)));
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    const V<T> d = (T(1) - x) * x;
    return (x - y) / (d < splat(T(1e-12)) ? splat(T(1e-12)) : d);
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T>, const T*) {
    return clamp_log<T>(log_one_minus<T>(x)) - clamp_log<T>(vector_log(x));
  }
};

struct BceWithLogitsLoss {  // binary cross entropy of sigmoid(x)
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    const V<T> linear = x < splat(T(0)) ? -y : T(1) - y;
    return linear * x + log_one_plus<T>(exp_nonpositive(-absolute<T>(x)));
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    const Logistic<T> s(x);
    return s.value - y;
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T>, const T*) {
    return -x;
  }
};

struct SoftMarginLoss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return soft_plus<T>(-x * y);
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    return -y * Logistic<T>(x * y).complement;
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    return -x * Logistic<T>(x * y).complement;
  }
};

struct KlDivLoss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    const V<T> entropy = y == splat(T(0)) ? splat(T(0)) : y * vector_log(y);
    return entropy - y * x;
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T>, V<T> y, const T*) {
    return -y;
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    return vector_log(y) + T(1) - x;
  }
};

struct KlDivLogTargetLoss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return vector_exp(y) * (y - x);
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T>, V<T> y, const T*) {
    return -vector_exp(y);
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    return vector_exp(y) * (y - x + T(1));
  }
};

struct PoissonNllLoss {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return vector_exp(x) - y * x;
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T> x, V<T> y, const T*) {
    return vector_exp(x) - y;
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T>, const T*) {
    return -x;
  }
};

struct Glu {
  template <class T>
  static INLINE V<T> at(V<T> x, V<T> y, const T*) {
    return x * Logistic<T>(y).value;
  }
  template <class T>
  static INLINE V<T> derivative_x(V<T>, V<T> y, const T*) {
    return Logistic<T>(y).value;
  }
  template <class T>
  static INLINE V<T> derivative_y(V<T> x, V<T> y, const T*) {
    const Logistic<T> s(y);
    return x * s.value * s.complement;
  }
};

template <class T, class M>
void pointwise_loss(const T* x, const T* y, T* out, int64_t n, const T* p) {
  T q[2] = {p[0], p[1]};
  map2(x, y, out, n, [q](V<T> a, V<T> b) INLINE_LAMBDA { return M::template at<T>(a, b, q); });
}

// The derivative by x (side 0) or y (side 1) times p[2].
template <class T, class M, int kSide>
void pointwise_loss_backward(const T* x, const T* y, T* out, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};
  map2(x, y, out, n, [q](V<T> a, V<T> b) INLINE_LAMBDA {
    return q[2] * (kSide ? M::template derivative_y<T>(a, b, q) : M::template derivative_x<T>(a, b, q));
  });
}

template <class T>
void multiply(const T* g, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] *= g[i];
}

template <class T, class M>
constexpr PointwiseLossKernels<T> pointwise_loss_kernels = {
    .value = pointwise_loss<T, M>,
    .derivatives = {pointwise_loss_backward<T, M, 0>, pointwise_loss_backward<T, M, 1>},
};
