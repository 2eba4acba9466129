// Gamma numbers of rate 1, and their derivative by the shape.
//
// The numbers: G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables (2000); below the shape 1
// those of shape + 1 times u^(1 / shape), as logarithms, since they may be smaller than any float.
//
// The derivative is the one that leaves P(a, x) unchanged (M. Figurnov, S. Mohamed, A. Mnih: Implicit
// reparameterization gradients, 2018): dx/da = -(dP/da) / (dP/dx). The CUDA kernels of ops/cuda/kernels/random.cu have
// the same arithmetic.
#include <cmath>
#include <limits>

#include "kernels/random/rejection_uniforms.h"

namespace shmtensor {
namespace {

constexpr double kTiny = 0x1p-53;         // keeps the logarithm of a uniform number finite
constexpr double kAsymptotic = 10;        // from here on digamma is its asymptotic series
constexpr double kMaxSeriesShape = 100;   // above, the series of P would need hundreds of terms
constexpr double kDecay = 38;             // the integrals end where their integrand has fallen by e^-38
constexpr int64_t kGradientsPerSlice = 64;

// A gamma number, or its logarithm.
double gamma_number(double shape, bool is_log, Attempts draws) {
  if (!(shape >= 0 && shape < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::quiet_NaN();
  const bool boosted = shape < 1;
  const double d = (boosted ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;; draws.next()) {
    // Box and Muller (1958)
    const double z = std::sqrt(-2 * std::log(draws.u + kTiny)) * std::cos(6.28318530717958647693 * draws.v), t = 1 + c * z;
    draws.next();
    if (t <= 0) continue;
    const double cube = t * t * t, square = z * z, u = draws.u + kTiny;
    if (u >= 1 - 0.0331 * square * square && std::log(u) >= 0.5 * square + d * (1 - cube + std::log(cube))) continue;
    const double value = d * cube, boost = boosted ? std::log(draws.v + kTiny) / shape : 0;
    return is_log ? std::log(value) + boost : value * std::exp(boost);
  }
}

// log(y) - digamma(y) for y >= 10; the coefficients are Bernoulli numbers over 2 k.
double digamma_tail(double y) {
  const double z = 1 / (y * y);
  const double series =
      1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760)))));
  return 0.5 / y + z * series;
}

// log(x) - digamma(a) from log(x), exact near x = a where it cancels.
double log_minus_digamma(double a, double x, double log_x) {
  if (a >= kAsymptotic) {
    const double m = (x - a) / a;
    return (std::fabs(m) < 0.5 ? std::log1p(m) : log_x - std::log(a)) + digamma_tail(a);
  }
  double y = a, total = log_x;
  for (; y < kAsymptotic; y += 1) total += 1 / y;
  return total - std::log(y) + digamma_tail(y);
}

// The derivative from the power series P(a, x) = x^a e^-x / gamma(a + 1) (1 + x / (a + 1) + ...), term by term. Both
// parts have one sign for x < a.
double slope_by_series(double a, double x, double log_x) {
  double term = 1, harmonic = 0, sum = 1, weighted = 0, last;
  double k = a;
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

// -dP/da = dQ/da is the integral of (log t - digamma(a)) t^(a-1) e^-t / gamma(a) over t > x, and of its negative over
// t < x: the side is taken on which the factor keeps its sign. With t = x e^s, it is over x dP/dx the integral of
// (log x - digamma(a) + s) exp(a s - x (e^s - 1)) ds, whose integrand only falls: by Gauss and Legendre's rule, with
// full precision.
double slope_by_integral(double a, double x, double log_x) {
  constexpr int kNodes = 12;  // of each half
  static const double nodes[kNodes] = {0.06405689286260562609, 0.1911188674736163092, 0.3150426796961633744,
                                       0.4337935076260451385,  0.5454214713888395357, 0.6480936519369755693,
                                       0.7401241915785543642,  0.820001985973902922,  0.8864155270044010342,
                                       0.9382745520027327585,  0.9747285559713094982, 0.9951872199970213602};
  static const double weights[kNodes] = {0.127938195346752157,   0.1258374563468282961,  0.1216704729278033912,
                                         0.1155056680537256014,  0.1074442701159656348,  0.09761865210411388827,
                                         0.08619016153195327592, 0.07334648141108030573, 0.05929858491543678075,
                                         0.04427743881741980617, 0.02853138862893366318, 0.01234122979998719955};
  const double side = x >= a ? 1 : -1, slope = std::fabs(x - a), first = log_minus_digamma(a, x, log_x);
  // Newton's method for the end: slope s + x (e^s - 1 - s) = kDecay, from where a parabola reaches it
  double end = 2 * kDecay / (slope + std::sqrt(slope * slope + 2 * x * kDecay));
  for (int i = 0; i < 6; ++i) {
    const double growth = std::expm1(side * end);
    end -= (slope * end + x * (growth - side * end) - kDecay) / (slope + side * x * growth);
  }
  double total = 0;
  for (int i = 0; i < 2 * kNodes; ++i) {
    const double node = i < kNodes ? nodes[i] : -nodes[i - kNodes], s = 0.5 * end * (1 + node);
    const double exponent = slope * s + x * (std::expm1(side * s) - side * s);
    total += weights[i % kNodes] * (side * first + s) * std::exp(-exponent);
  }
  return 0.5 * end * total;
}

// d(log x) / da of a gamma number x of the shape a.
double log_gamma_slope(double a, double log_x) {
  const double end = std::numeric_limits<double>::infinity(), x = std::exp(log_x);
  if (!(a > 0 && a < end && x < end)) return std::numeric_limits<double>::quiet_NaN();
  if (log_x == -end) return end;
  return x < 1 || (x < a && a < kMaxSeriesShape) ? slope_by_series(a, x, log_x) : slope_by_integral(a, x, log_x);
}

double gamma_slope(double a, double x) { return x == 0 && a > 0 ? 0 : x * log_gamma_slope(a, std::log(x)); }

}  // namespace

PyObject* standard_gamma(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("standard_gamma", n, 4)) return nullptr;
  const Ref shapes = floating_operand("standard_gamma", "shapes", args[0]);
  uint64_t seed, offset;
  if (!shapes || !stream_arguments(args + 1, &seed, &offset)) return nullptr;
  const int is_log = PyObject_IsTrue(args[3]);
  if (is_log < 0) return nullptr;
  const int type = PyArray_TYPE(shapes.array());
  Ref out(new_array(PyArray_NDIM(shapes.array()), PyArray_DIMS(shapes.array()), type));
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(out.array());
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(shapes);
    draw_each(data<T>(out), size, seed, offset, [&](int64_t i, const Attempts& draws) {
      const double value = gamma_number(load_once(from + i), is_log, draws);
      return is_log ? value : std::max<double>(value, std::numeric_limits<T>::min());
    });
  };
  Unlocked unlocked(size > kUnlock);
  type == NPY_FLOAT ? fill(float()) : fill(double());
  return out.release();
}

PyObject* standard_gamma_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("standard_gamma_grad", n, 3)) return nullptr;
  const Ref shapes = floating_operand("standard_gamma_grad", "shapes", args[0]);
  if (!shapes) return nullptr;
  const Ref samples = floating_operand("standard_gamma_grad", "samples", args[1]);
  if (!samples || !same_shape("standard_gamma_grad", "shapes", shapes.array(), "samples", samples.array())) return nullptr;
  const int type = PyArray_TYPE(shapes.array()), is_log = PyObject_IsTrue(args[2]);
  if (is_log < 0) return nullptr;
  if (PyArray_TYPE(samples.array()) != type)
    return raise("TypeError", "standard_gamma_grad: shapes and samples differ in dtype: %s, %s",
                 dtype_text(shapes.array()).c_str(), dtype_text(samples.array()).c_str());
  Ref out(new_array(PyArray_NDIM(shapes.array()), PyArray_DIMS(shapes.array()), type));
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(out.array());
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    const T *a = data<T>(shapes), *x = data<T>(samples);
    T* to = data<T>(out);
    ranges(size, kGradientsPerSlice, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const double shape = load_once(a + i), sample = load_once(x + i);
        to[i] = static_cast<T>(is_log ? log_gamma_slope(shape, sample) : gamma_slope(shape, sample));
      }
    });
  };
  Unlocked unlocked(size > kUnlock);
  type == NPY_FLOAT ? fill(float()) : fill(double());
  return out.release();
}

}  // namespace shmtensor
