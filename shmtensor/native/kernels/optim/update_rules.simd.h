// The update rules of the other elementwise optimizers, for one element. `update` applies a rule to flat arrays.
// Included inside a level's namespace.
//
// A rule is constructed from the numbers that reference_updates.py names, in that order. It is called with the
// parameter x, its gradient d (weight decay and sign are already applied) and up to three state elements.

template <class T, class Rule>
INLINE void update_loop(T* __restrict p, const T* __restrict g, T* __restrict a, T* __restrict b, T* __restrict c, int64_t n,
                        const Rule rule, const T decay, const T sign) {
  for (int64_t i = 0; i < n; ++i) rule(p[i], sign * g[i] + decay * p[i], a + i, b + i, c + i);
}

template <class T, class Rule>
void update(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay, bool maximize) {
  update_loop<T, Rule>(p, g, state[0], state[1], state[2], n, Rule(numbers), static_cast<T>(weight_decay),
                       maximize ? T(-1) : T(1));
}

// Zeiler: ADADELTA (2012). lr, rho, 1 - rho, eps.
template <class T>
struct AdadeltaRule {
  T lr, rho, one_minus_rho, eps;
  explicit AdadeltaRule(const double* v) : lr(T(v[0])), rho(T(v[1])), one_minus_rho(T(v[2])), eps(T(v[3])) {}
  INLINE void operator()(T& x, T d, T* square_avg, T* acc_delta, T*) const {
    const T square = rho * *square_avg + one_minus_rho * d * d;
    const T delta = root(*acc_delta + eps) / root(square + eps) * d;
    *square_avg = square;
    *acc_delta = rho * *acc_delta + one_minus_rho * delta * delta;
    x -= lr * delta;
  }
};

// Duchi, Hazan, Singer: Adagrad (2011). lr, eps.
template <class T>
struct AdagradRule {
  T lr, eps;
  explicit AdagradRule(const double* v) : lr(T(v[0])), eps(T(v[1])) {}
  INLINE void operator()(T& x, T d, T* sum, T*, T*) const {
    const T total = *sum + d * d;
    *sum = total;
    x -= lr * d / (root(total) + eps);
  }
};

// Kingma, Ba: Adamax (2014). step_size, 1 - beta1, beta2, eps.
template <class T>
struct AdamaxRule {
  T step_size, one_minus_beta1, beta2, eps;
  explicit AdamaxRule(const double* v) : step_size(T(v[0])), one_minus_beta1(T(v[1])), beta2(T(v[2])), eps(T(v[3])) {}
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_inf, T*) const {
    const T average = *exp_avg + one_minus_beta1 * (d - *exp_avg);
    const T decayed = beta2 * *exp_inf, magnitude = (d < 0 ? -d : d) + eps;
    // a NaN stays; `|` keeps the loop vectorized
    const T norm = (decayed > magnitude) | (decayed != decayed) ? decayed : magnitude;
    *exp_avg = average;
    *exp_inf = norm;
    x -= step_size * average / norm;
  }
};

// Polyak, Juditsky: averaging (1992). eta, mu, 1 - lambd * eta.
template <class T, bool kAverages>
struct AsgdRule {
  T eta, mu, shrink;
  explicit AsgdRule(const double* v) : eta(T(v[0])), mu(T(v[1])), shrink(T(v[2])) {}
  INLINE void operator()(T& x, T d, T* ax, T*, T*) const {
    x = x * shrink - eta * d;
    *ax = kAverages ? *ax + mu * (x - *ax) : x;
  }
};

// Dozat: Nesterov momentum in Adam (2016). gradient_size, average_size, 1 - beta1, beta2, 1 - beta2,
// correction, eps, shrink.
template <class T>
struct NAdamRule {
  T gradient_size, average_size, one_minus_beta1, beta2, one_minus_beta2, correction, eps, shrink;
  explicit NAdamRule(const double* v)
      : gradient_size(T(v[0])),
        average_size(T(v[1])),
        one_minus_beta1(T(v[2])),
        beta2(T(v[3])),
        one_minus_beta2(T(v[4])),
        correction(T(v[5])),
        eps(T(v[6])),
        shrink(T(v[7])) {}
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_avg_sq, T*) const {
    const T average = *exp_avg + one_minus_beta1 * (d - *exp_avg);
    const T square = beta2 * *exp_avg_sq + one_minus_beta2 * d * d;
    *exp_avg = average;
    *exp_avg_sq = square;
    const T denominator = root(square) * correction + eps;
    x = x * shrink - (gradient_size * d + average_size * average) / denominator;
  }
};

// Liu et al.: RAdam (2019). step_size, rectification, 1 - beta1, beta2, 1 - beta2, eps, shrink.
template <class T, bool kRectified>
struct RAdamRule {
  T step_size, rectification, one_minus_beta1, beta2, one_minus_beta2, eps, shrink;
  explicit RAdamRule(const double* v)
      : step_size(T(v[0])),
        rectification(T(v[1])),
        one_minus_beta1(T(v[2])),
        beta2(T(v[3])),
        one_minus_beta2(T(v[4])),
        eps(T(v[5])),
        shrink(T(v[6])) {}
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_avg_sq, T*) const {
    const T average = *exp_avg + one_minus_beta1 * (d - *exp_avg);
    const T square = beta2 * *exp_avg_sq + one_minus_beta2 * d * d;
    *exp_avg = average;
    *exp_avg_sq = square;
    const T scale = kRectified ? rectification / (root(square) + eps) : T(1);
    x = x * shrink - step_size * average * scale;
  }
};

// Tieleman, Hinton: RMSprop (2012); centered: Graves (2013). lr, alpha, 1 - alpha, eps, momentum.
template <class T, bool kMomentum, bool kCentered>
struct RMSpropRule {
  T lr, alpha, one_minus_alpha, eps, momentum;
  explicit RMSpropRule(const double* v)
      : lr(T(v[0])), alpha(T(v[1])), one_minus_alpha(T(v[2])), eps(T(v[3])), momentum(T(v[4])) {}
  INLINE void operator()(T& x, T d, T* square_avg, T* momentum_buffer, T* grad_avg) const {
    T square = alpha * *square_avg + one_minus_alpha * d * d;
    *square_avg = square;
    if (kCentered) {
      const T average = *grad_avg + one_minus_alpha * (d - *grad_avg);
      *grad_avg = average;
      square -= average * average;
    }
    T delta = d / (root(square) + eps);
    if (kMomentum) {
      delta += momentum * *momentum_buffer;
      *momentum_buffer = delta;
    }
    x -= lr * delta;
  }
};

// Riedmiller, Braun: RPROP (1993). eta_minus, eta_plus, smallest, largest.
template <class T>
struct RpropRule {
  T eta_minus, eta_plus, smallest, largest;
  explicit RpropRule(const double* v) : eta_minus(T(v[0])), eta_plus(T(v[1])), smallest(T(v[2])), largest(T(v[3])) {}
  INLINE void operator()(T& x, T d, T* prev, T* step_size, T*) const {
    const T sign_product = d * *prev;
    const T factor = sign_product > 0 ? eta_plus : sign_product < 0 ? eta_minus : T(1);
    T step = *step_size * factor;
    step = step < smallest ? smallest : step;
    step = step > largest ? largest : step;
    d = sign_product < 0 ? T(0) : d;
    *step_size = step;
    *prev = d;
    x -= d > 0 ? step : d < 0 ? -step : T(0);
  }
};

template <class T>
void asgd(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay, bool maximize) {
  const auto rule = numbers[1] != 1 ? update<T, AsgdRule<T, true>> : update<T, AsgdRule<T, false>>;
  rule(p, g, state, n, numbers, weight_decay, maximize);
}

template <class T>
void radam(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay, bool maximize) {
  const auto rule = numbers[1] != 0 ? update<T, RAdamRule<T, true>> : update<T, RAdamRule<T, false>>;
  rule(p, g, state, n, numbers, weight_decay, maximize);
}

template <class T>
void rmsprop(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay, bool maximize) {
  const auto without_momentum = state[2] ? update<T, RMSpropRule<T, false, true>> : update<T, RMSpropRule<T, false, false>>;
  const auto with_momentum = state[2] ? update<T, RMSpropRule<T, true, true>> : update<T, RMSpropRule<T, true, false>>;
  (state[1] ? with_momentum : without_momentum)(p, g, state, n, numbers, weight_decay, maximize);
}
