// Optimizer updates in place, in PyTorch's order of operations. Included inside a level's namespace.

INLINE float root(float x) { return __builtin_sqrtf(x); }
INLINE double root(double x) { return __builtin_sqrt(x); }

// Kingma, Ba: Adam (2014); Loshchilov, Hutter: decoupled weight decay (2017); vmax: AMSGrad.
template <class T, bool kMax>
INLINE void adam_loop(T* __restrict p, const T* __restrict g, T* __restrict m, T* __restrict v, T* __restrict vmax,
                      int64_t n, const AdamRule<T>& rule) {
  const T b1 = rule.one_minus_beta1, b2 = rule.one_minus_beta2, beta2 = rule.beta2, eps = rule.eps;
  const T decay = rule.weight_decay, shrink = rule.shrink, step = rule.step_size;
  const T inverse = rule.inverse_correction2, sign = rule.maximize ? T(-1) : T(1);
  for (int64_t i = 0; i < n; ++i) {
    T x = p[i] * shrink, d = sign * g[i] + decay * p[i];
    T first = m[i] + b1 * (d - m[i]);
    T second = v[i] * beta2 + b2 * d * d;
    m[i] = first;
    v[i] = second;
    if (kMax) {
      second = vmax[i] > second ? vmax[i] : second;
      vmax[i] = second;
    }
    p[i] = x - step * (first / (root(second) * inverse + eps));
  }
}

template <class T>
void adam(T* p, const T* g, T* m, T* v, T* vmax, int64_t n, const AdamRule<T>& rule) {
  if (vmax) {
    adam_loop<T, true>(p, g, m, v, vmax, n, rule);
  } else {
    adam_loop<T, false>(p, g, m, v, vmax, n, rule);
  }
}

template <class T>
void sgd(T* __restrict p, const T* __restrict g, T* __restrict buffer, int64_t n, const SgdRule<T>& rule) {
  const T lr = rule.lr, momentum = rule.momentum, decay = rule.weight_decay;
  const T sign = rule.maximize ? T(-1) : T(1), one_minus_dampening = rule.one_minus_dampening;
  if (!buffer) {
    for (int64_t i = 0; i < n; ++i) p[i] -= lr * (sign * g[i] + decay * p[i]);
  } else if (rule.first) {
    const T factor = rule.nesterov ? 1 + momentum : T(1);
    for (int64_t i = 0; i < n; ++i) {
      T d = sign * g[i] + decay * p[i];
      buffer[i] = d;
      p[i] -= lr * (factor * d);
    }
  } else if (rule.nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      T d = sign * g[i] + decay * p[i];
      buffer[i] = momentum * buffer[i] + one_minus_dampening * d;
      p[i] -= lr * (d + momentum * buffer[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      T d = sign * g[i] + decay * p[i];
      buffer[i] = momentum * buffer[i] + one_minus_dampening * d;
      p[i] -= lr * buffer[i];
    }
  }
}
