// Random numbers from Philox 4x32-10 words, in the layout of ops/random/philox.py: an element depends on the seed, the
// offset and its index alone, so that the numbers are the CPU's. A thread computes the elements of one counter at a time.

struct Words {
  uint32 at[4];
  __device__ __forceinline__ uint64 wide(int i) const {
    return static_cast<uint64>(at[2 * i + 1]) << 32 | at[2 * i];
  }
};

__device__ __forceinline__ Words philox(uint64 seed, uint64 counter, uint32 attempt = 0) {
  uint32 c0 = static_cast<uint32>(counter), c1 = static_cast<uint32>(counter >> 32), c2 = attempt, c3 = 0;
  uint32 k0 = static_cast<uint32>(seed), k1 = static_cast<uint32>(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0);
    const uint32 low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Words{{c0, c1, c2, c3}};
}

// Products and sums are not fused: the uniform numbers have the CPU's bits.
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double sum(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float sum(float a, float b) { return __fadd_rn(a, b); }

// Uniform in [0, 1): 2 numbers of float64, or 4 of float32, a counter.
__device__ __forceinline__ void to_unit_interval(const Words& w, double* u) {
  for (int i = 0; i < 2; i++) u[i] = static_cast<double>(w.wide(i) >> 11) * 1.1102230246251565e-16;
}
__device__ __forceinline__ void to_unit_interval(const Words& w, float* u) {
  for (int i = 0; i < 4; i++) u[i] = static_cast<float>(w.at[i] >> 8) * 5.9604644775390625e-8f;
}
constexpr int kNumbers = 16 / sizeof(acc_t);

// Box and Muller (1958): elements 2 k and 2 k + 1 are a pair. log(0) has no value: the smallest number is added.
__device__ __forceinline__ void to_normal(double* u) {
  const double radius = sqrt(-2 * log(u[0] + 1.1102230246251565e-16)), angle = 2 * u[1];
  u[0] = radius * cospi(angle);
  u[1] = radius * sinpi(angle);
}
__device__ __forceinline__ void to_normal(float* u) {
  for (int i = 0; i < 4; i += 2) {
    const float radius = sqrtf(-2 * logf(u[i] + 5.9604644775390625e-8f)), angle = 2 * u[i + 1];
    u[i] = radius * cospif(angle);
    u[i + 1] = radius * sinpif(angle);
  }
}

// Stores the numbers of one counter: at once, or one by one at the end.
__device__ __forceinline__ void store(scalar_t* out, index_t block, index_t n, const acc_t* v) {
  const index_t first = block * kNumbers;
  if (first + kNumbers <= n && is_aligned<kNumbers>(out)) {
    pack_t<kNumbers> pack;
    for (int i = 0; i < kNumbers; i++) pack.at[i] = to_scalar(v[i]);
    *reinterpret_cast<pack_t<kNumbers>*>(out + first) = pack;
  } else {
    for (int i = 0; i < kNumbers && first + i < n; i++) out[first + i] = to_scalar(v[i]);
  }
}

#define FOR_EACH_COUNTER(block, blocks)                                              \
  for (index_t block = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;  \
       block < (blocks); block += static_cast<index_t>(gridDim.x) * blockDim.x)

// low + (high - low) * u, below high. A float16 that is rounded to `bound` or more becomes `below`, the next smaller one.
extern "C" __global__ void uniform(scalar_t* __restrict__ out, index_t n, uint64 seed, uint64 offset, acc_t low, acc_t high,
                                   acc_t bound, acc_t below) {
  FOR_EACH_COUNTER(block, (n + kNumbers - 1) / kNumbers) {
    acc_t u[kNumbers];
    to_unit_interval(philox(seed, offset + static_cast<uint64>(block)), u);
    for (int i = 0; i < kNumbers; i++) {
      const acc_t v = sum(low, product(u[i], high - low));
      u[i] = v < high ? v : low;
#ifdef SCALAR_FLOAT16
      if (to_acc(to_scalar(u[i])) >= bound) u[i] = below;
#endif
    }
    store(out, block, n, u);
  }
}

extern "C" __global__ void normal(scalar_t* __restrict__ out, index_t n, uint64 seed, uint64 offset, acc_t mean, acc_t std) {
  FOR_EACH_COUNTER(block, (n + kNumbers - 1) / kNumbers) {
    acc_t u[kNumbers];
    to_unit_interval(philox(seed, offset + static_cast<uint64>(block)), u);
    to_normal(u);
    for (int i = 0; i < kNumbers; i++) u[i] = mean + std * u[i];
    store(out, block, n, u);
  }
}

// x * scale where the element's word is at least `threshold`, else 0; whether it is, in `mask`.
extern "C" __global__ void dropout(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, bool* __restrict__ mask,
                                   index_t n, acc_t scale, uint32 threshold, uint64 seed, uint64 offset) {
  const bool aligned = is_aligned<4>(x) && is_aligned<4>(out) && reinterpret_cast<uint64>(mask) % 4 == 0;
  FOR_EACH_COUNTER(block, (n + 3) / 4) {
    const Words w = philox(seed, offset + static_cast<uint64>(block));
    const index_t first = 4 * block;
    if (aligned && first + 4 <= n) {
      pack_t<4> pack = *reinterpret_cast<const pack_t<4>*>(x + first);
      uint32 bits = 0;
      for (int i = 0; i < 4; i++) {
        const bool kept = w.at[i] >= threshold;
        pack.at[i] = to_scalar(kept ? to_acc(pack.at[i]) * scale : acc_t(0));
        bits |= static_cast<uint32>(kept) << (8 * i);
      }
      *reinterpret_cast<pack_t<4>*>(out + first) = pack;
      *reinterpret_cast<uint32*>(mask + first) = bits;
    } else {
      for (int i = 0; i < 4 && first + i < n; i++) {
        mask[first + i] = w.at[i] >= threshold;
        out[first + i] = to_scalar(mask[first + i] ? to_acc(x[first + i]) * scale : acc_t(0));
      }
    }
  }
}

// 1 where a uniform number, always float64, is less than the probability x, else 0.
extern "C" __global__ void bernoulli(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t n, uint64 seed,
                                     uint64 offset) {
  FOR_EACH_COUNTER(block, (n + 1) / 2) {
    const Words w = philox(seed, offset + static_cast<uint64>(block));
    for (int i = 0; i < 2 && 2 * block + i < n; i++) {
      const double u = static_cast<double>(w.wide(i) >> 11) * 1.1102230246251565e-16;
      out[2 * block + i] = to_scalar(u < static_cast<double>(to_acc(x[2 * block + i])) ? acc_t(1) : acc_t(0));
    }
  }
}

// The words themselves: low + word % span. A span of 2**32 or more takes two words an element, and span 0 is 2**64.
extern "C" __global__ void integers(uint64* __restrict__ out, index_t n, uint64 seed, uint64 offset, uint64 low, uint64 span) {
  const bool narrow = span && span >> 32 == 0;
  const int count = narrow ? 4 : 2;
  FOR_EACH_COUNTER(block, (n + count - 1) / count) {
    const Words w = philox(seed, offset + static_cast<uint64>(block));
    for (int i = 0; i < count && count * block + i < n; i++) {
      uint64 v = 0;
      if (narrow) {
        v = w.at[i] % static_cast<uint32>(span);
      } else {
        v = span ? w.wide(i & 1) % span : w.wide(i & 1);
      }
      out[count * block + i] = low + v;
    }
  }
}

// Numbers of a distribution from uniform float64 numbers; the names are those of ops/random/normal_uniform_inplace.py.
enum Distribution { kBernoulli, kExponential, kCauchy, kGeometric, kLogNormal };

extern "C" __global__ void distribution(double* __restrict__ out, index_t n, uint64 seed, uint64 offset, int which, double a,
                                        double b) {
  FOR_EACH_COUNTER(block, (n + 1) / 2) {
    double u[2];
    to_unit_interval(philox(seed, offset + static_cast<uint64>(block)), u);
    if (which == kLogNormal) to_normal(u);
    for (int i = 0; i < 2; i++) {
      switch (which) {
        case kBernoulli: u[i] = u[i] < a ? 1 : 0; break;
        case kExponential: u[i] = (0.0 - log(1.0 - u[i])) / a; break;
        case kCauchy: u[i] = a + b * tan(3.14159265358979323846 * (u[i] - 0.5)); break;
        case kGeometric: u[i] = fmax(ceil(log1p(-u[i]) / a), 1.0); break;
        default: u[i] = exp(a + b * u[i]);
      }
    }
    for (int i = 0; i < 2 && 2 * block + i < n; i++) out[2 * block + i] = u[i];
  }
}

// The position of u * (the last sum) among the cumulative sums of a row: the first sum above it.
extern "C" __global__ void multinomial(const double* __restrict__ ends, const double* __restrict__ u,
                                       index_t* __restrict__ out, index_t n, index_t samples, index_t columns) {
  FOR_EACH_COUNTER(i, n) {
    const double* row = ends + i / samples * columns;
    const double total = row[columns - 1];
    double v = u[i] * total;
    if (v >= total) v = nextafter(total, 0.0);
    index_t low = 0, high = columns - 1;
    while (low < high) {
      const index_t middle = (low + high) / 2;
      if (row[middle] > v) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    out[i] = low;
  }
}

// Poisson and binomial numbers: the arithmetic of native/kernels/random/poisson_binomial.cc. Element e draws from the
// counters (offset + e, attempt), two uniform numbers each.
class Attempts {
 public:
  __device__ __forceinline__ Attempts(uint64 seed, uint64 counter) : seed_(seed), counter_(counter) { draw(); }
  __device__ __forceinline__ void next() {
    attempt_++;
    draw();
  }
  double u, v;  // in [0, 1)

 private:
  __device__ __forceinline__ void draw() {
    double numbers[2];
    to_unit_interval(philox(seed_, counter_, attempt_), numbers);
    u = numbers[0];
    v = numbers[1];
  }
  uint64 seed_, counter_;
  uint32 attempt_ = 0;
};

constexpr double kMinRejection = 10;  // the smallest mean for rejection
constexpr int kMaxSteps = 256;        // of inversion; rounding may leave some of the probability at the end

__device__ const double stirling_tails[10] = {
    0.0810614667953272582, 0.0413406959554092941, 0.0276779256849983391, 0.0207906721037650931, 0.0166446911898211922,
    0.0138761288230707480, 0.0118967099458917701, 0.0104112652619720965, 0.00925546218271273292, 0.00833056343336287126};

// log(k!) without (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
__device__ __forceinline__ double stirling_tail(double k) {
  if (k < 10) return stirling_tails[static_cast<int>(k)];
  const double n = k + 1, square = n * n;
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / n;
}

__device__ double poisson_number(double rate, Attempts draws) {
  if (!(rate >= 0 && isfinite(rate))) return nan("");
  if (rate < kMinRejection) {
    double k = 0, p = exp(-rate), u = draws.u;
    while (u >= p && k < kMaxSteps) {
      u = sum(u, -p);
      k += 1;
      p = product(p, rate / k);
    }
    return k;
  }
  const double root = sqrt(rate), b = sum(0.931, product(2.53, root)), a = sum(-0.059, product(0.02483, b));
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;; draws.next()) {
    const double u = draws.u - 0.5, v = draws.v, us = 0.5 - fabs(u);
    const double k = floor(sum(product(2 * a / us + b, u), rate + 0.43));
    if (us >= 0.07 && v <= squeeze) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    const double difference = rate - (k + 1);
    const double bound = k * log1p(difference / (k + 1)) - difference - 0.5 * log(k + 1) - 0.91893853320467274178 -
                         stirling_tail(k);
    if (log(v * inverse_alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

__device__ double binomial_number(double count, double chance, Attempts draws) {
  const double n = trunc(count);
  if (!(n >= 0 && isfinite(n) && chance >= 0 && chance <= 1)) return nan("");
  const bool flipped = chance > 0.5;
  const double p = flipped ? 1 - chance : chance, q = 1 - p, ratio = p / q;
  double k = 0;
  if (n * p < kMinRejection) {
    double left = exp(n * log1p(-p)), u = draws.u;
    while (u >= left && k < n && k < kMaxSteps) {
      u = sum(u, -left);
      k += 1;
      left = product(left, product(((n + 1) - k) / k, ratio));
    }
    return flipped ? n - k : k;
  }
  const double deviation = sqrt(n * p * q), b = sum(1.15, product(2.53, deviation));
  const double a = sum(sum(-0.0873, product(0.0248, b)), product(0.01, p)), middle = sum(product(n, p), 0.5);
  const double squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation, mode = floor(product(n + 1, p));
  for (;; draws.next()) {
    const double u = draws.u - 0.5, us = 0.5 - fabs(u);
    double v = draws.v;
    k = floor(sum(product(2 * a / us + b, u), middle));
    if (!(k >= 0 && k <= n)) continue;
    if (us >= 0.07 && v <= squeeze) break;
    v = log(v * alpha / (a / (us * us) + b));
    const double bound = (mode + 0.5) * log((mode + 1) / (ratio * (n - mode + 1))) +
                         (n + 1) * log((n - mode + 1) / (n - k + 1)) + (k + 0.5) * log(ratio * (n - k + 1) / (k + 1)) +
                         stirling_tail(mode) + stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (v <= bound) break;
  }
  return flipped ? n - k : k;
}

// Gamma numbers of rate 1 and their derivative: the arithmetic of native/kernels/random/standard_gamma.cc, which explains
// it. An attempt takes two counters.
constexpr double kTiny = 1.1102230246251565e-16;  // keeps the logarithm of a uniform number finite
constexpr double kAsymptotic = 10;                // from here on digamma is its asymptotic series
constexpr double kMaxSeriesShape = 100;           // above, the series of P would need hundreds of terms
constexpr double kDecay = 38;                     // the integrals end where their integrand has fallen by e^-38

__device__ double gamma_number(double shape, int is_log, Attempts draws) {
  if (!(shape >= 0 && isfinite(shape))) return nan("");
  const bool boosted = shape < 1;
  const double d = (boosted ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;; draws.next()) {
    const double z = sqrt(-2 * log(draws.u + kTiny)) * cospi(2 * draws.v), t = 1 + c * z;
    draws.next();
    if (t <= 0) continue;
    const double cube = t * t * t, square = z * z, u = draws.u + kTiny;
    if (u >= 1 - 0.0331 * square * square && log(u) >= 0.5 * square + d * (1 - cube + log(cube))) continue;
    const double value = d * cube, boost = boosted ? log(draws.v + kTiny) / shape : 0;
    return is_log ? log(value) + boost : value * exp(boost);
  }
}

// log(y) - digamma(y) for y >= 10; the coefficients are Bernoulli numbers over 2 k.
__device__ __forceinline__ double digamma_tail(double y) {
  const double z = 1 / (y * y);
  const double series =
      1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760)))));
  return 0.5 / y + z * series;
}

// log(x) - digamma(a) from log(x), exact near x = a where it cancels.
__device__ double log_minus_digamma(double a, double x, double log_x) {
  if (a >= kAsymptotic) {
    const double m = (x - a) / a;
    return (fabs(m) < 0.5 ? log1p(m) : log_x - log(a)) + digamma_tail(a);
  }
  double y = a, total = log_x;
  for (; y < kAsymptotic; y += 1) total += 1 / y;
  return total - log(y) + digamma_tail(y);
}

__device__ double slope_by_series(double a, double x, double log_x) {
  double term = 1, harmonic = 0, sum = 1, weighted = 0, last, k = a;
  do {
    k += 1;
    term *= x / k;
    harmonic += 1 / k;
    last = term * harmonic;
    sum += term;
    weighted += last;
  } while (last > 1e-17 * weighted);
  return (weighted - log_minus_digamma(a + 1, x, log_x) * sum) / a;
}

__device__ const double legendre_nodes[12] = {
    0.06405689286260562609, 0.1911188674736163092, 0.3150426796961633744, 0.4337935076260451385,
    0.5454214713888395357,  0.6480936519369755693, 0.7401241915785543642, 0.820001985973902922,
    0.8864155270044010342,  0.9382745520027327585, 0.9747285559713094982, 0.9951872199970213602};
__device__ const double legendre_weights[12] = {
    0.127938195346752157,   0.1258374563468282961,  0.1216704729278033912,  0.1155056680537256014,
    0.1074442701159656348,  0.09761865210411388827, 0.08619016153195327592, 0.07334648141108030573,
    0.05929858491543678075, 0.04427743881741980617, 0.02853138862893366318, 0.01234122979998719955};

__device__ double slope_by_integral(double a, double x, double log_x) {
  const double side = x >= a ? 1 : -1, slope = fabs(x - a), first = log_minus_digamma(a, x, log_x);
  double end = 2 * kDecay / (slope + sqrt(slope * slope + 2 * x * kDecay));
  for (int i = 0; i < 6; i++) {
    const double growth = expm1(side * end);
    end -= (slope * end + x * (growth - side * end) - kDecay) / (slope + side * x * growth);
  }
  double total = 0;
  for (int i = 0; i < 24; i++) {
    const double node = i < 12 ? legendre_nodes[i] : -legendre_nodes[i - 12], s = 0.5 * end * (1 + node);
    const double exponent = slope * s + x * (expm1(side * s) - side * s);
    total += legendre_weights[i % 12] * (side * first + s) * exp(-exponent);
  }
  return 0.5 * end * total;
}

__device__ double log_gamma_slope(double a, double log_x) {
  const double x = exp(log_x);
  if (!(a > 0 && isfinite(a) && isfinite(x))) return nan("");
  if (isinf(log_x)) return -log_x;
  return x < 1 || (x < a && a < kMaxSeriesShape) ? slope_by_series(a, x, log_x) : slope_by_integral(a, x, log_x);
}

// A gamma number of each shape x, at least the smallest normal one, or its logarithm; NaN for a shape that is negative,
// NaN or infinite.
extern "C" __global__ void standard_gamma(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t n, uint64 seed,
                                          uint64 offset, int is_log) {
  const double smallest = sizeof(acc_t) == 8 ? 2.2250738585072014e-308 : 1.1754943508222875e-38;
  FOR_EACH_COUNTER(i, n) {
    const Attempts draws(seed, offset + static_cast<uint64>(i));
    const double value = gamma_number(static_cast<double>(to_acc(x[i])), is_log, draws);
    out[i] = to_scalar(static_cast<acc_t>(is_log || !(value < smallest) ? value : smallest));
  }
}

// The derivatives of gamma numbers y, or of their logarithms, by their shapes x.
extern "C" __global__ void standard_gamma_grad(const scalar_t* __restrict__ x, const scalar_t* __restrict__ y,
                                               scalar_t* __restrict__ out, index_t n, int is_log) {
  FOR_EACH_COUNTER(i, n) {
    const double a = static_cast<double>(to_acc(x[i])), v = static_cast<double>(to_acc(y[i]));
    double slope = 0;
    if (is_log) {
      slope = log_gamma_slope(a, v);
    } else if (!(v == 0 && a > 0)) {
      slope = v * log_gamma_slope(a, log(v));
    }
    out[i] = to_scalar(static_cast<acc_t>(slope));
  }
}

// A Poisson number for each rate x; NaN for a rate that is negative, NaN or infinite.
extern "C" __global__ void poisson(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t n, uint64 seed,
                                   uint64 offset) {
  FOR_EACH_COUNTER(i, n) {
    const Attempts draws(seed, offset + static_cast<uint64>(i));
    out[i] = to_scalar(static_cast<acc_t>(poisson_number(static_cast<double>(to_acc(x[i])), draws)));
  }
}

// The number of successes in x trials (truncated) of probability y; NaN if there is none.
extern "C" __global__ void binomial(const scalar_t* __restrict__ x, const scalar_t* __restrict__ y,
                                    scalar_t* __restrict__ out, index_t n, uint64 seed, uint64 offset) {
  FOR_EACH_COUNTER(i, n) {
    const Attempts draws(seed, offset + static_cast<uint64>(i));
    const double count = static_cast<double>(to_acc(x[i])), chance = static_cast<double>(to_acc(y[i]));
    out[i] = to_scalar(static_cast<acc_t>(binomial_number(count, chance, draws)));
  }
}
