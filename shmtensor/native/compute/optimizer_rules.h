// The rules of the other elementwise optimizers: what one step does to one element. `update` applies
// a rule to flat arrays. Included inside a level's namespace.
//
// A rule is made from the numbers that reference_updates.py names, in that order, and is called
// with the parameter x, its gradient d (weight decay and sign already in it) and up to three numbers
// of state.

template <class T, class Rule>
void update(T* __restrict p, const T* __restrict g, T* const* state, int64_t n, const double* numbers,
            double weight_decay, bool maximize) {
  const Rule rule(numbers);
  const T sign = maximize ? T(-1) : T(1), decay = static_cast<T>(weight_decay);
  T* __restrict a = state[0];
  T* __restrict b = state[1];
  T* __restrict c = state[2];
  for (int64_t i = 0; i < n; ++i) rule(p[i], sign * g[i] + decay * p[i], a + i, b + i, c + i);
}

// Numbers of type T from doubles, in order.
template <class T, int kCount>
struct RuleNumbers {
  T v[kCount];
  explicit RuleNumbers(const double* from) {
    for (int i = 0; i < kCount; ++i) v[i] = static_cast<T>(from[i]);
  }
};

// Zeiler: ADADELTA (2012). lr, rho, 1 - rho, eps.
template <class T>
struct AdadeltaRule : RuleNumbers<T, 4> {
  using RuleNumbers<T, 4>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* square_avg, T* acc_delta, T*) const {
    const T lr = this->v[0], rho = this->v[1], fresh = this->v[2], eps = this->v[3];
    const T square = rho * *square_avg + fresh * d * d;
    const T delta = root(*acc_delta + eps) / root(square + eps) * d;
    *square_avg = square;
    *acc_delta = rho * *acc_delta + fresh * delta * delta;
    x -= lr * delta;
  }
};

// Duchi, Hazan, Singer: Adagrad (2011). lr, eps.
template <class T>
struct AdagradRule : RuleNumbers<T, 2> {
  using RuleNumbers<T, 2>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* sum, T*, T*) const {
    const T total = *sum + d * d;
    *sum = total;
    x -= this->v[0] * d / (root(total) + this->v[1]);
  }
};

// Kingma, Ba: Adamax (2014). step_size, 1 - beta1, beta2, eps.
template <class T>
struct AdamaxRule : RuleNumbers<T, 4> {
  using RuleNumbers<T, 4>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_inf, T*) const {
    const T average = *exp_avg + this->v[1] * (d - *exp_avg);
    const T old = this->v[2] * *exp_inf, size = (d < 0 ? -d : d) + this->v[3];
    const T norm = old > size || old != old ? old : size;  // a NaN stays
    *exp_avg = average;
    *exp_inf = norm;
    x -= this->v[0] * average / norm;
  }
};

// Polyak, Juditsky: averaging (1992). eta, mu, 1 - lambd * eta.
template <class T>
struct AsgdRule : RuleNumbers<T, 3> {
  using RuleNumbers<T, 3>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* ax, T*, T*) const {
    const T mu = this->v[1];
    x = x * this->v[2] - this->v[0] * d;
    *ax = mu == 1 ? x : *ax + mu * (x - *ax);
  }
};

// Dozat: Nesterov momentum in Adam (2016). gradient_size, average_size, 1 - beta1, beta2, 1 - beta2,
// correction, eps, shrink.
template <class T>
struct NAdamRule : RuleNumbers<T, 8> {
  using RuleNumbers<T, 8>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_avg_sq, T*) const {
    const T average = *exp_avg + this->v[2] * (d - *exp_avg);
    const T square = this->v[3] * *exp_avg_sq + this->v[4] * d * d;
    *exp_avg = average;
    *exp_avg_sq = square;
    const T denominator = root(square) * this->v[5] + this->v[6];
    x = x * this->v[7] - (this->v[0] * d + this->v[1] * average) / denominator;
  }
};

// Liu et al.: RAdam (2019). step_size, rectification, 1 - beta1, beta2, 1 - beta2, eps, shrink.
template <class T, bool kRectified>
struct RAdamRule : RuleNumbers<T, 7> {
  using RuleNumbers<T, 7>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* exp_avg, T* exp_avg_sq, T*) const {
    const T average = *exp_avg + this->v[2] * (d - *exp_avg);
    const T square = this->v[3] * *exp_avg_sq + this->v[4] * d * d;
    *exp_avg = average;
    *exp_avg_sq = square;
    const T length = kRectified ? this->v[1] / (root(square) + this->v[5]) : T(1);
    x = x * this->v[6] - this->v[0] * average * length;
  }
};

// Tieleman, Hinton: RMSprop (2012); centered: Graves (2013). lr, alpha, 1 - alpha, eps, momentum.
template <class T, bool kMomentum, bool kCentered>
struct RMSpropRule : RuleNumbers<T, 5> {
  using RuleNumbers<T, 5>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* square_avg, T* momentum_buffer, T* grad_avg) const {
    const T fresh = this->v[2];
    T square = this->v[1] * *square_avg + fresh * d * d;
    *square_avg = square;
    if (kCentered) {
      const T average = *grad_avg + fresh * (d - *grad_avg);
      *grad_avg = average;
      square -= average * average;
    }
    T move = d / (root(square) + this->v[3]);
    if (kMomentum) {
      move += this->v[4] * *momentum_buffer;
      *momentum_buffer = move;
    }
    x -= this->v[0] * move;
  }
};

// Riedmiller, Braun: RPROP (1993). eta_minus, eta_plus, smallest, largest.
template <class T>
struct RpropRule : RuleNumbers<T, 4> {
  using RuleNumbers<T, 4>::RuleNumbers;
  INLINE void operator()(T& x, T d, T* prev, T* step_size, T*) const {
    const T agreement = d * *prev;
    const T factor = agreement > 0 ? this->v[1] : agreement < 0 ? this->v[0] : T(1);
    T size = *step_size * factor;
    size = size < this->v[2] ? this->v[2] : size;
    size = size > this->v[3] ? this->v[3] : size;
    d = agreement < 0 ? T(0) : d;
    *step_size = size;
    *prev = d;
    x -= d > 0 ? size : d < 0 ? -size : T(0);
  }
};

template <class T>
void radam(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay,
           bool maximize) {
  const auto rule = numbers[1] != 0 ? update<T, RAdamRule<T, true>> : update<T, RAdamRule<T, false>>;
  rule(p, g, state, n, numbers, weight_decay, maximize);
}

template <class T>
void rmsprop(T* p, const T* g, T* const* state, int64_t n, const double* numbers,
             double weight_decay, bool maximize) {
  const auto plain = state[2] ? update<T, RMSpropRule<T, false, true>> : update<T, RMSpropRule<T, false, false>>;
  const auto moving = state[2] ? update<T, RMSpropRule<T, true, true>> : update<T, RMSpropRule<T, true, false>>;
  (state[1] ? moving : plain)(p, g, state, n, numbers, weight_decay, maximize);
}
