// Activations with a parameter or two. Included inside a level's namespace, after vector.simd.h and
// relu_sigmoid_gelu.simd.h. Each at() computes one vector; p are the parameters.

// log(1 + e^x).
template <class T>
INLINE V<T> soft_plus(V<T> x) {
  const V<T> high = x < splat(T(0)) ? splat(T(0)) : x;
  return high + log_one_plus<T>(exp_nonpositive(-absolute<T>(x)));
}

struct Silu {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x));
    return x * (x < splat(T(0)) ? e : splat(T(1))) / (T(1) + e);
  }
};

struct Softplus {  // p: beta, threshold
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > splat(p[1]) ? x : soft_plus<T>(z) / p[0];
  }
};

struct LogSigmoid {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    return -soft_plus<T>(-x);
  }
};

// tanh(log(1 + u)) is (u^2 + 2 u) / (u^2 + 2 u + 2), with u = e^x.
struct Mish {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x));
    const V<T> positive = T(1) + T(2) * e, negative = e * (e + T(2));
    const V<T> y = x < splat(T(0)) ? negative / (negative + T(2)) : positive / (positive + T(2) * e * e);
    return x * y;
  }
};

struct LeakyRelu {  // p: slope
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x > splat(T(0)) ? x : x * p[0];
  }
};

struct Elu {  // p: alpha * scale, scale, input_scale (not negative)
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> clamped = x < splat(T(0)) ? x : splat(T(0));
    const V<T> y = x > splat(T(0)) ? x * p[1] : exp_minus_one<T>(clamped * p[2]) * p[0];
    return x == x ? y : x;
  }
};

struct HardTanh {  // p: min, max
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(p[0]) ? splat(p[0]) : x;
    return y > splat(p[1]) ? splat(p[1]) : y;
  }
};

struct HardSigmoid {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const T bounds[2] = {0, 6};
    return HardTanh::at<T>(x + T(3), bounds) / T(6);
  }
};

struct HardSwish {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const T bounds[2] = {0, 6};
    return x * HardTanh::at<T>(x + T(3), bounds) / T(6);
  }
};

struct HardShrink {  // p: lambd
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(-p[0]) ? x : splat(T(0));
    const V<T> w = x > splat(p[0]) ? x : y;
    return x == x ? w : x;
  }
};

struct SoftShrink {  // p: lambd
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(-p[0]) ? x + p[0] : splat(T(0));
    const V<T> w = x > splat(p[0]) ? x - p[0] : y;
    return x == x ? w : x;
  }
};

struct Threshold {  // p: threshold, value
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x <= splat(p[0]) ? splat(p[1]) : x;
  }
};

struct Numbers {  // p: the replacements of NaN, infinity and minus infinity
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x == splat(T(__builtin_inf())) ? splat(p[1]) : x;
    const V<T> z = x == splat(T(-__builtin_inf())) ? splat(p[2]) : y;
    return x == x ? z : splat(p[0]);
  }
};

template <class T, class Function>
void activation(const T* x, T* out, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};  // a copy: the compiler must assume that out aliases p
  map1(x, out, n, [q](V<T> v) INLINE_LAMBDA { return Function::template at<T>(v, q); });
}
