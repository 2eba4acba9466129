// Activations: functions of one element and up to three parameters, and their derivatives. Included inside a level's
// namespace, after vector.simd.h and relu_sigmoid_dropout.simd.h.
//
// An activation has the members of ActivationDefaults, its name in Python, `at`, which computes one vector, and
// `backward`, g times the derivative at x; p are the parameters. The list Activations at the end has all of them.

struct ActivationDefaults {
  static constexpr int parameters = 0;
  static constexpr bool has_backward = true;
  static constexpr bool in_halves = false;  // has a kernel without a float32 copy: no exponentials
  // Whether the kernel takes these parameters; it may change them to those of `at`.
  static bool accept(double*) { return true; }
};

// log(1 + e^x).
template <class T>
INLINE V<T> soft_plus(V<T> x) {
  const V<T> high = x < splat(T(0)) ? splat(T(0)) : x;
  return high + log_one_plus<T>(exp_nonpositive(-absolute<T>(x)));
}

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

struct Silu : ActivationDefaults {
  static constexpr const char* name = "silu";
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x));
    return x * (x < splat(T(0)) ? e : splat(T(1))) / (T(1) + e);
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
    const Logistic<T> s(x);
    return g * (s.value * (T(1) + x * s.complement));
  }
};

struct Softplus : ActivationDefaults {  // p: beta, threshold
  static constexpr const char* name = "softplus";
  static constexpr int parameters = 2;
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > splat(p[1]) ? x : soft_plus<T>(z) / p[0];
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    const V<T> z = x * p[0];
    return z > splat(p[1]) ? g : g * Logistic<T>(z).value;
  }
};

struct LogSigmoid : ActivationDefaults {
  static constexpr const char* name = "logsigmoid";
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    return -soft_plus<T>(-x);
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
    return g * Logistic<T>(x).complement;
  }
};

// tanh(log(1 + u)) is (u^2 + 2 u) / (u^2 + 2 u + 2), with u = e^x.
struct Mish : ActivationDefaults {
  static constexpr const char* name = "mish";
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const V<T> e = exp_nonpositive(-absolute<T>(x));
    const V<T> positive = T(1) + T(2) * e, negative = e * (e + T(2));
    const V<T> y = x < splat(T(0)) ? negative / (negative + T(2)) : positive / (positive + T(2) * e * e);
    return x * y;
  }
  // With u = e^x and n = u (u + 2), tanh(log(1 + u)) is t = n / (n + 2), and 1 - t^2 is
  // 4 (n + 1) / (n + 2)^2. For x > 0 both are divided by u^2.
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
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

struct LeakyRelu : ActivationDefaults {  // p: slope
  static constexpr const char* name = "leaky_relu";
  static constexpr int parameters = 1;
  static constexpr bool in_halves = true;
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x > splat(T(0)) ? x : x * p[0];
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    return x > splat(T(0)) ? g : g * p[0];
  }
};

// Is any element of a vector's comparison true?
template <class T>
INLINE bool any_lane(typename Vec<T>::bits mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
  int64_t words[kWidth / 8], any = 0;
  __builtin_memcpy(words, &mask, sizeof words);
  for (int i = 0; i < kWidth / 8; ++i) any |= words[i];
  return any != 0;
#endif
}

// Positive vectors, as a ReLU's results, need no exponential.
struct Elu : ActivationDefaults {  // p: alpha * scale, scale, input_scale (not negative)
  static constexpr const char* name = "elu";
  static constexpr int parameters = 3;
  static bool accept(double* p) {
    if (!(p[2] >= 0)) return false;
    p[0] *= p[1];
    return true;
  }
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> high = x * p[1];
    const auto positive = x > splat(T(0));
    if (!any_lane<T>((typename Vec<T>::bits) ~positive)) return high;
    const V<T> clamped = x < splat(T(0)) ? x : splat(T(0));
    const V<T> y = positive ? high : exp_minus_one(clamped * p[2]) * p[0];
    return x == x ? y : x;
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    const V<T> high = g * p[1];
    const auto positive = x > splat(T(0));
    if (!any_lane<T>((typename Vec<T>::bits) ~positive)) return high;
    const V<T> low = positive ? splat(T(0)) : x;
    return positive ? high : g * exp_nonpositive(low * p[2]) * (p[0] * p[2]);
  }
};

struct Softsign : ActivationDefaults {
  static constexpr const char* name = "softsign";
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    return x / (T(1) + absolute<T>(x));
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
    const V<T> d = T(1) + absolute<T>(x);
    return g / (d * d);
  }
};

struct HardTanh : ActivationDefaults {  // p: min, max
  static constexpr const char* name = "hardtanh";
  static constexpr int parameters = 2;
  static constexpr bool in_halves = true;
  static bool accept(double* p) { return p[0] <= p[1]; }
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(p[0]) ? splat(p[0]) : x;
    return y > splat(p[1]) ? splat(p[1]) : y;
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    const V<T> y = x > splat(p[0]) ? g : splat(T(0));
    return x < splat(p[1]) ? y : splat(T(0));
  }
};

struct HardSigmoid : ActivationDefaults {
  static constexpr const char* name = "hardsigmoid";
  static constexpr bool in_halves = true;
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const T bounds[2] = {0, 6};
    return HardTanh::at<T>(x + T(3), bounds) / T(6);
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
    const T bounds[2] = {-3, 3};
    return HardTanh::backward<T>(g / T(6), x, bounds);
  }
};

struct HardSwish : ActivationDefaults {
  static constexpr const char* name = "hardswish";
  static constexpr bool in_halves = true;
  template <class T>
  static INLINE V<T> at(V<T> x, const T*) {
    const T bounds[2] = {0, 6};
    return x * HardTanh::at<T>(x + T(3), bounds) / T(6);
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T*) {
    const V<T> y = x >= splat(T(3)) ? g : g * (x / T(3) + T(0.5));
    return x <= splat(T(-3)) ? splat(T(0)) : y;
  }
};

// The derivative of hardshrink and softshrink is 0 from -p[0] to p[0], else 1.
struct ShrinkBackward {
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    const V<T> y = x <= splat(p[0]) ? splat(T(0)) : g;
    return x >= splat(-p[0]) ? y : g;
  }
};

struct HardShrink : ActivationDefaults, ShrinkBackward {  // p: lambd
  static constexpr const char* name = "hardshrink";
  static constexpr int parameters = 1;
  static constexpr bool in_halves = true;
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(-p[0]) ? x : splat(T(0));
    const V<T> w = x > splat(p[0]) ? x : y;
    return x == x ? w : x;
  }
};

struct SoftShrink : ActivationDefaults, ShrinkBackward {  // p: lambd
  static constexpr const char* name = "softshrink";
  static constexpr int parameters = 1;
  static constexpr bool in_halves = true;
  static bool accept(double* p) { return p[0] >= 0; }
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x < splat(-p[0]) ? x + p[0] : splat(T(0));
    const V<T> w = x > splat(p[0]) ? x - p[0] : y;
    return x == x ? w : x;
  }
};

struct Threshold : ActivationDefaults {  // p: threshold, value
  static constexpr const char* name = "threshold";
  static constexpr int parameters = 2;
  static constexpr bool in_halves = true;
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    return x <= splat(p[0]) ? splat(p[1]) : x;
  }
  template <class T>
  static INLINE V<T> backward(V<T> g, V<T> x, const T* p) {
    return x <= splat(p[0]) ? splat(T(0)) : g;
  }
};

struct Numbers : ActivationDefaults {  // p: the replacements of NaN, infinity and minus infinity
  static constexpr const char* name = "numbers";
  static constexpr bool in_halves = true;
  static constexpr bool has_backward = false;
  static bool accept(double* p) {
    p[0] = 0, p[1] = __builtin_inf(), p[2] = -__builtin_inf();
    return true;
  }
  template <class T>
  static INLINE V<T> at(V<T> x, const T* p) {
    const V<T> y = x == splat(T(__builtin_inf())) ? splat(p[1]) : x;
    const V<T> z = x == splat(T(-__builtin_inf())) ? splat(p[2]) : y;
    return x == x ? z : splat(p[0]);
  }
};

template <class... A>
struct ActivationList {};
using Activations = ActivationList<Silu, Softplus, LogSigmoid, Mish, LeakyRelu, Elu, Softsign, HardTanh, HardSigmoid,
                                   HardSwish, HardShrink, SoftShrink, Threshold, Numbers>;

template <class T, class Function>
void activation(const T* x, T* out, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};  // a copy: the compiler must assume that out aliases p
  map1(x, out, n, [q](V<T> v) INLINE_LAMBDA { return Function::template at<T>(v, q); });
}

template <class T, class Function>
void activation_backward(const T* g, const T* x, T* gx, int64_t n, const T* p) {
  T q[3] = {p[0], p[1], p[2]};
  map2(g, x, gx, n, [q](V<T> a, V<T> v) INLINE_LAMBDA { return Function::template backward<T>(a, v, q); });
}
