// The derivatives of the activations in silu_elu_shrink.simd.h. Included inside a level's namespace, after
// silu_elu_shrink.simd.h and exp_sin_lerp_float32.simd.h. p are the parameters.

// 1 / (1 + e^-x), and 1 minus it, neither by cancellation.
template <class T>
struct Logistic {
  V<T> up, down;
  explicit INLINE Logistic(V<T> x) {
    const V<T> e = exp_nonpositive(-absolute<T>(x)), d = T(1) / (T(1) + e), tail = e * d;
    up = x < all(T(0)) ? tail : d;
    down = x < all(T(0)) ? d : tail;
  }
};

// ---------------------------------------------------------------- gx, of g and x

struct SiluSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const Logistic<T> s(x);
    return g * (s.up * (T(1) + x * s.down));
  }
};

struct SoftplusSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > all(p[1]) ? g : g * Logistic<T>(z).up;
  }
};

struct LogSigmoidSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    return g * Logistic<T>(x).down;
  }
};

// With u = e^x and n = u (u + 2), tanh(log(1 + u)) is t = n / (n + 2), and 1 - t^2 is
// 4 (n + 1) / (n + 2)^2. For x > 0 all is taken over u^2.
struct MishSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x)), one = all(T(1));
    const auto low = x < all(T(0));
    const V<T> square = low ? one : e * e;       // u^2 over u^2, or 1
    const V<T> n = low ? e * (e + T(2)) : one + T(2) * e;
    const V<T> inverse = T(1) / (n + T(2) * square);
    const V<T> s = (low ? e : one) / (one + e);  // the logistic function
    const V<T> rise = T(4) * (n + square) * square * inverse * inverse;
    return g * (n * inverse + x * s * rise);
  }
};

struct LeakyReluSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    return x > all(T(0)) ? g : g * p[0];
  }
};

struct EluSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> low = x > all(T(0)) ? all(T(0)) : x;
    return x > all(T(0)) ? g * p[1] : g * exp_nonpositive(low * p[2]) * (p[0] * p[2]);
  }
};

struct HardTanhSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> y = x > all(p[0]) ? g : all(T(0));
    return x < all(p[1]) ? y : all(T(0));
  }
};

struct HardSigmoidSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const T bounds[2] = {-3, 3};
    return HardTanhSlope::at<T>(g / T(6), x, bounds);
  }
};

struct HardSwishSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T*) {
    const V<T> y = x >= all(T(3)) ? g : g * (x / T(3) + T(0.5));
    return x <= all(T(-3)) ? all(T(0)) : y;
  }
};

struct ShrinkSlope {  // of both
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    const V<T> y = x <= all(p[0]) ? all(T(0)) : g;
    return x >= all(-p[0]) ? y : g;
  }
};

struct ThresholdSlope {
  template <class T>
  static INLINE V<T> at(V<T> g, V<T> x, const T* p) {
    return x <= all(p[0]) ? all(T(0)) : g;
  }
};

template <class T, class Slope>
void slope(const T* g, const T* x, T* gx, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};
  map2(g, x, gx, n, [q](V<T> a, V<T> v) INLINE_LAMBDA { return Slope::template at<T>(a, v, q); });
}
