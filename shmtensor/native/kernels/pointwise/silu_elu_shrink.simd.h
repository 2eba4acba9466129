// Activations with a parameter or two. Included inside a level's namespace, after vector.simd.h and
// relu_sigmoid_gelu.simd.h. Each is a value at one vector; p are its parameters.

// log(1 + e^x).
template <class T>
INLINE V<T> soft_plus(V<T> x) {
  const V<T> high = x < all(T(0)) ? all(T(0)) : x;
  return high + log_one_plus<T>(exp_nonpositive(-absolute<T>(x)));
}

struct Silu {
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x));
    return x * (x < all(T(0)) ? e : all(T(1))) / (T(1) + e);
  }
};

struct Softplus {  // p: beta, threshold
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > all(p[1]) ? x : soft_plus<T>(z) / p[0];
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
    const V<T> up = T(1) + T(2) * e, down = e * (e + T(2));
    const V<T> y = x < all(T(0)) ? down / (down + T(2)) : up / (up + T(2) * e * e);
    return x * y;
  }
};

struct LeakyRelu {  // p: slope
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x > all(T(0)) ? x : x * p[0];
  }
};

struct Elu {  // p: alpha * scale, scale, input_scale (not negative)
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> low = x < all(T(0)) ? x : all(T(0));
    const V<T> y = x > all(T(0)) ? x * p[1] : exp_minus_one<T>(low * p[2]) * p[0];
    return x == x ? y : x;
  }
};

struct HardTanh {  // p: at least, at most
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < all(p[0]) ? all(p[0]) : x;
    return y > all(p[1]) ? all(p[1]) : y;
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

struct HardShrink {  // p: half the width
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < all(-p[0]) ? x : all(T(0));
    const V<T> w = x > all(p[0]) ? x : y;
    return x == x ? w : x;
  }
};

struct SoftShrink {  // p: half the width
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < all(-p[0]) ? x + p[0] : all(T(0));
    const V<T> w = x > all(p[0]) ? x - p[0] : y;
    return x == x ? w : x;
  }
};

struct Threshold {  // p: limit, what stands below
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x <= all(p[0]) ? all(p[1]) : x;
  }
};

struct Numbers {  // p: what stands for NaN, for infinity, for minus infinity
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x == all(T(__builtin_inf())) ? all(p[1]) : x;
    const V<T> z = x == all(T(-__builtin_inf())) ? all(p[2]) : y;
    return x == x ? z : all(p[0]);
  }
};

template <class T, class Curve>
void curve(const T* x, T* out, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};  // out could be p, for all the compiler knows
  map1(x, out, n, [q](V<T> v) INLINE_LAMBDA { return Curve::template at<T>(v, q); });
}
