// Poisson and binomial numbers by inversion where the mean is below 10, else by transformed rejection with squeeze
// (PTRS and BTRS of W. Hoermann: The transformed rejection method for generating Poisson random variables, 1993; The
// generation of binomial random variates, 1993).
//
// The CUDA kernels of ops/cuda/kernels/random.cu draw the same numbers by the same arithmetic. This file is compiled for
// the generic level only: fused multiply-add would change last bits.
#include <cmath>
#include <limits>

#include "kernels/random/rejection_uniforms.h"

namespace shmtensor {
namespace {

constexpr double kMinRejection = 10;  // the smallest mean for rejection
constexpr int kMaxSteps = 256;        // of inversion; rounding may leave some of the probability at the end
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// log(k!) without (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
double stirling_tail(double k) {
  static const double small[10] = {
      0.0810614667953272582, 0.0413406959554092941, 0.0276779256849983391, 0.0207906721037650931,  0.0166446911898211922,
      0.0138761288230707480, 0.0118967099458917701, 0.0104112652619720965, 0.00925546218271273292, 0.00833056343336287126};
  if (k < 10) return small[static_cast<int>(k)];
  const double n = k + 1, square = n * n;
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / n;
}

double poisson_number(double rate, Attempts draws) {
  if (!(rate >= 0 && rate < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::quiet_NaN();
  if (rate < kMinRejection) {
    double k = 0, p = std::exp(-rate), u = draws.u;
    while (u >= p && k < kMaxSteps) {
      u = u - p;
      k = k + 1;
      p = p * (rate / k);
    }
    return k;
  }
  const double root = std::sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;; draws.next()) {
    const double u = draws.u - 0.5, v = draws.v, us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + (rate + 0.43));
    if (us >= 0.07 && v <= squeeze) return k;
    if (!(k >= 0) || (us < 0.013 && v > us)) continue;
    const double difference = rate - (k + 1);
    const double bound =
        k * std::log1p(difference / (k + 1)) - difference - 0.5 * std::log(k + 1) - kHalfLogTwoPi - stirling_tail(k);
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

double binomial_number(double count, double chance, Attempts draws) {
  const double n = std::trunc(count);
  if (!(n >= 0 && n < std::numeric_limits<double>::infinity() && chance >= 0 && chance <= 1))
    return std::numeric_limits<double>::quiet_NaN();
  const bool flipped = chance > 0.5;
  const double p = flipped ? 1 - chance : chance, q = 1 - p, ratio = p / q;
  double k = 0;
  if (n * p < kMinRejection) {
    double left = std::exp(n * std::log1p(-p)), u = draws.u;
    while (u >= left && k < n && k < kMaxSteps) {
      u = u - left;
      k = k + 1;
      left = left * (((n + 1) - k) / k * ratio);
    }
    return flipped ? n - k : k;
  }
  const double deviation = std::sqrt(n * p * q), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, middle = n * p + 0.5, squeeze = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((n + 1) * p);
  for (;; draws.next()) {
    const double u = draws.u - 0.5, us = 0.5 - std::fabs(u);
    double v = draws.v;
    k = std::floor((2 * a / us + b) * u + middle);
    if (!(k >= 0 && k <= n)) continue;
    if (us >= 0.07 && v <= squeeze) break;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (ratio * (n - mode + 1))) +
                         (n + 1) * std::log((n - mode + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(ratio * (n - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (v <= bound) break;
  }
  return flipped ? n - k : k;
}

}  // namespace

PyObject* poisson(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("poisson", n, 3)) return nullptr;
  const Ref rates = floating_operand("poisson", "rates", args[0]);
  uint64_t seed, offset;
  if (!rates || !stream_arguments(args + 1, &seed, &offset)) return nullptr;
  const int type = PyArray_TYPE(rates.array());
  Ref out(new_array(PyArray_NDIM(rates.array()), PyArray_DIMS(rates.array()), type));
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(out.array());
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(rates);
    draw_each(data<T>(out), size, seed, offset,
              [&](int64_t i, const Attempts& draws) { return poisson_number(load_once(from + i), draws); });
  };
  Unlocked unlocked(size > kUnlock);
  type == NPY_FLOAT ? fill(float()) : fill(double());
  return out.release();
}

PyObject* binomial(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("binomial", n, 4)) return nullptr;
  const Ref counts = floating_operand("binomial", "counts", args[0]);
  if (!counts) return nullptr;
  const Ref chances = floating_operand("binomial", "chances", args[1]);
  uint64_t seed, offset;
  if (!chances || !stream_arguments(args + 2, &seed, &offset)) return nullptr;
  const int type = PyArray_TYPE(counts.array());
  if (!same_shape("binomial", "counts", counts.array(), "chances", chances.array())) return nullptr;
  if (PyArray_TYPE(chances.array()) != type)
    return raise("TypeError", "binomial: counts and chances differ in dtype: %s, %s", dtype_text(counts.array()).c_str(),
                 dtype_text(chances.array()).c_str());
  Ref out(new_array(PyArray_NDIM(counts.array()), PyArray_DIMS(counts.array()), type));
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(out.array());
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    const T *trials = data<T>(counts), *chance = data<T>(chances);
    draw_each(data<T>(out), size, seed, offset, [&](int64_t i, const Attempts& draws) {
      return binomial_number(load_once(trials + i), load_once(chance + i), draws);
    });
  };
  Unlocked unlocked(size > kUnlock);
  type == NPY_FLOAT ? fill(float()) : fill(double());
  return out.release();
}

}  // namespace shmtensor
