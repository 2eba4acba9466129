// The derivatives of the activations in silu_elu_shrink.simd.h. Included inside a level's namespace, after
// silu_elu_shrink.simd.h and exp_sin_lerp_float32.simd.h. p are the parameters.

// The sigmoid 1 / (1 + e^-x), and 1 minus it; neither is computed by a subtraction that cancels.
template <class T>
struct Logistic {
  V<T> value, complement;
  explicit INLINE Logistic(V<T> x) {
    const V<T> e = exp_nonpositive(-absolute<T>(x)), d = T(1) / (T(1) + e), tail = e * d;
    value = x < splat(T(0)) ? tail : d;
    complement = x < splat(T(0)) ? d : tail;
  }
};

// ---------------------------------------------------------------- gx, of g and x

struct SiluBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const Logistic<T> s(x);
    return g * (s.value * (T(1) + x * s.complement));
  }
};

struct SoftplusBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > splat(p[1]) ? g : g * Logistic<T>(z).value;
  }
};

struct LogSigmoidBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    return g * Logistic<T>(x).complement;
  }
};

// With u = e^x and n = u (u + 2), tanh(log(1 + u)) is t = n / (n + 2), and 1 - t^2 is
// 4 (n + 1) / (n + 2)^2. For x > 0 both are divided by u^2.
struct MishBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x)), one = splat(T(1));
    const auto low = x < splat(T(0));
    const V<T> square = low ? one : e * e;       // 1 for x < 0, else 1 / u^2
    const V<T> n = low ? e * (e + T(2)) : one + T(2) * e;
    const V<T> inverse = T(1) / (n + T(2) * square);
    const V<T> s = (low ? e : one) / (one + e);  // the sigmoid of x
    const V<T> derivative = T(4) * (n + square) * square * inverse * inverse;
    return g * (n * inverse + x * s * derivative);
  }
};

struct LeakyReluBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    return x > splat(T(0)) ? g : g * p[0];
  }
};

struct EluBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> low = x > splat(T(0)) ? splat(T(0)) : x;
    return x > splat(T(0)) ? g * p[1] : g * exp_nonpositive(low * p[2]) * (p[0] * p[2]);
  }
};

struct HardTanhBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> y = x > splat(p[0]) ? g : splat(T(0));
    return x < splat(p[1]) ? y : splat(T(0));
  }
};

struct HardSigmoidBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const T bounds[2] = {-3, 3};
    return HardTanhBackward::at<T>(g / T(6), x, bounds);
  }
};

struct HardSwishBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const V<T> y = x >= splat(T(3)) ? g : g * (x / T(3) + T(0.5));
    return x <= splat(T(-3)) ? splat(T(0)) : y;
  }
};

struct ShrinkBackward {  // of hardshrink and softshrink
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> y = x <= splat(p[0]) ? splat(T(0)) : g;
    return x >= splat(-p[0]) ? y : g;
  }
};

struct ThresholdBackward {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    return x <= splat(p[0]) ? splat(T(0)) : g;
  }
};

template <class T, class Backward>
void activation_backward(const T* g, const T* x, T* gx, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};
  map2(g, x, gx, n, [q](V<T> a, V<T> v) INLINE_LAMBDA { return Backward::template at<T>(a, v, q); });
}
