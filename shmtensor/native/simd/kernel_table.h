// What each instruction-set level offers: serial kernels on contiguous memory, as a table of
// functions.
//
// The Python faces (relu_sigmoid_gelu.cc, softmax_cross_entropy.cc, adam_sgd.cc, ...) check arguments, cut the work into
// slices for the pool and call these. T is float or double.
#pragma once

#include <stdint.h>

namespace shmtensor {

template <class T>
struct AdamRule {
  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay;
  T step_size;            // lr / (1 - beta1^step)
  T inverse_correction2;  // 1 / sqrt(1 - beta2^step)
  T shrink;               // 1 - lr * weight_decay where the decay is decoupled, else 1
  bool maximize;
};

template <class T>
struct SgdRule {
  T lr, momentum, dampening, weight_decay, one_minus_dampening;
  bool nesterov, maximize, first;
};

// Optimizers whose rules are in update_rules.simd.h.
enum Update { kAdadelta, kAdagrad, kAdamax, kAsgd, kNAdam, kRAdam, kRMSprop, kRprop, kUpdates };

// Functions of one number with up to three parameters: silu, softplus, ...
enum Curve {
  kSilu,
  kSoftplus,
  kLogSigmoid,
  kMish,
  kLeakyRelu,
  kElu,
  kHardTanh,
  kHardSigmoid,
  kHardSwish,
  kHardShrink,
  kSoftShrink,
  kThreshold,
  kNumbers,
  kCurves
};
constexpr int kSlopes = kThreshold + 1;  // those before erf have kernels of their slopes, too

// Losses of two numbers: squared_error, ...
enum Measure {
  kSquared,
  kAbsolute,
  kBent,
  kEntropy,
  kLogit,
  kSoftMargin,
  kDivergence,
  kLogDivergence,
  kPoisson,
  kGated,  // no loss, but of the same form: glu's x times the logistic function of y
  kMeasures
};

// p: two parameters, and what slopes are multiplied by.
template <class T>
struct MeasureKernels {
  void (*value)(const T* x, const T* y, T* out, int64_t n, const T* p);
  void (*slopes[2])(const T* x, const T* y, T* out, int64_t n, const T* p);  // by x, by y
};

// How differences are put together: those that are not 0 counted, their sizes added, their squares
// added under a root, the largest taken.
enum class Metric { Count, Sum, Squares, Largest };

template <class T>
struct Kernels {
  // Elementwise over n.
  void (*relu)(const T* x, T* out, int64_t n);
  void (*relu_backward)(const T* g, const T* out, T* gx, int64_t n);
  void (*sigmoid)(const T* x, T* out, int64_t n);
  void (*sigmoid_backward)(const T* g, const T* out, T* gx, int64_t n);
  void (*tanh_backward)(const T* g, const T* out, T* gx, int64_t n);
  void (*gelu)(const T* x, T* out, int64_t n);
  void (*gelu_backward)(const T* g, const T* x, T* gx, int64_t n);
  void (*gelu_tanh)(const T* x, T* out, int64_t n);
  void (*gelu_tanh_backward)(const T* g, const T* x, T* gx, int64_t n);
  void (*dropout)(const T* x, T* out, uint8_t* mask, int64_t n, T scale, uint32_t threshold,
                  uint64_t seed, uint64_t counter);
  void (*rsqrt)(const T* x, T* out, int64_t n);
  void (*clamp)(const T* x, T* out, int64_t n, T low, T high);
  void (*curves[kCurves])(const T* x, T* out, int64_t n, const T* p);
  void (*slopes[kSlopes])(const T* g, const T* x, T* gx, int64_t n, const T* p);
  MeasureKernels<T> measures[kMeasures];
  void (*multiply)(const T* g, T* out, int64_t n);  // out *= g
  void (*addcmul)(const T* x, const T* a, const T* b, T* out, int64_t n, T value);
  void (*addcdiv)(const T* x, const T* a, const T* b, T* out, int64_t n, T value);
  void (*lerp)(const T* x, const T* end, T* out, int64_t n, T weight);
  void (*lerp_each)(const T* x, const T* end, const T* weight, T* out, int64_t n);
  void (*add_scaled)(const T* x, const T* y, T* out, int64_t n, T value);
  void (*cube)(const T* x, T* out, int64_t n);
  void (*keep)(const T* x, const uint8_t* mask, T* out, int64_t n, T scale);
  void (*cut_off)(const T* x, int64_t* out, int64_t n);  // towards 0
  // Distances of m numbers from each of n columns, by metric.
  void (*distances[4])(const T* x, const T* y, T* out, int64_t m, int64_t n, int64_t stride);

  // Rows of m.
  void (*softmax)(const T* x, T* out, int64_t rows, int64_t m);
  void (*log_softmax)(const T* x, T* out, int64_t rows, int64_t m);
  void (*softmax_backward)(const T* g, const T* out, T* gx, int64_t rows, int64_t m);
  void (*log_softmax_backward)(const T* g, const T* out, T* gx, int64_t rows, int64_t m);
  // m rows of `width` columns, `stride` elements apart, normalised down the columns.
  void (*softmax_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  void (*log_softmax_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  void (*softmax_backward_columns)(const T* g, const T* out, T* gx, int64_t m, int64_t width,
                                   int64_t stride);
  void (*log_softmax_backward_columns)(const T* g, const T* out, T* gx, int64_t m, int64_t width,
                                       int64_t stride);
  void (*log_sum_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  // One row of cross entropy: probabilities, and -log of the target's.
  T (*cross_entropy_row)(const T* x, T* probabilities, int64_t m, int64_t target);
  void (*scale)(const T* x, T* out, int64_t n, T factor);

  // Sums: of n, of n of which each is the second after the one before, of short rows, and of each column (added to
  // acc).
  double (*sum)(const T* x, int64_t n);
  double (*sum_seconds)(const T* x, int64_t n);
  void (*sum_rows)(const T* x, T* out, int64_t rows, int64_t m);
  void (*sum_columns)(const T* x, T* acc, int64_t m, int64_t width, int64_t stride);

  // Products of complex numbers: of n, and of each column (joined to re and im).
  void (*complex_product)(const T* x, int64_t n, double* out);
  void (*complex_product_columns)(const T* x, double* re, double* im, int64_t m, int64_t width,
                                  int64_t stride);

  // Updates in place.
  void (*adam)(T* p, const T* g, T* m, T* v, T* vmax, int64_t n, const AdamRule<T>& rule);
  void (*sgd)(T* p, const T* g, T* buffer, int64_t n, const SgdRule<T>& rule);
  void (*updates[kUpdates])(T* p, const T* g, T* const* state, int64_t n, const double* numbers,
                            double weight_decay, bool maximize);
};

// For every type of number: 1, 2, 4 and 8 bytes wide integers, float and double.
template <class T>
struct Folds {
  // out[i] = c[i] ? x[i * xs] : y[i * ys]; the steps are 0 or 1.
  void (*choose)(const uint8_t* c, const T* x, int64_t xs, const T* y, int64_t ys, T* out,
                 int64_t n);
  // [0] the smallest, [1] the largest; a NaN is both.
  T (*extreme[2])(const T* x, int64_t m);
  void (*extreme_columns[2])(const T* x, T* acc, int64_t m, int64_t width, int64_t stride);
  void (*place_columns[2])(const T* x, T* acc, int32_t* places, int64_t m, int64_t width,
                           int64_t stride, int32_t first);
  int64_t (*find)(const T* x, int64_t m, T value);
  void (*bound)(const T* x, T* out, int64_t n, T low, T high);
};

// What sums, products and counts are made in: float and double as double, whole numbers as int64,
// whose bits are those of uint64_t.
template <class T>
struct Widened {
  typedef uint64_t type;
};
template <>
struct Widened<float> {
  typedef double type;
};
template <>
struct Widened<double> {
  typedef double type;
};
template <class T>
using WideOf = typename Widened<T>::type;

// [0] sums, [1] products, [2] how many are not 0; of n, and of each column, joined to acc.
template <class T>
struct Tallies {
  WideOf<T> (*rows[3])(const T* x, int64_t n);
  void (*columns[3])(const T* x, WideOf<T>* acc, int64_t m, int64_t width, int64_t stride);
};

// Sums of distances [0] and of squared ones [1], for var and norm.
template <class T>
struct Moments {
  double (*rows[2])(const T* x, int64_t n, T point);
  void (*columns[2])(const T* x, const T* points, T* acc, int64_t m, int64_t width,
                     int64_t stride);
};

// Elementary functions of float32, and running sums.
struct Elementary {
  void (*exp)(const float* x, float* out, int64_t n);
  void (*log)(const float* x, float* out, int64_t n);
  void (*sin)(const float* x, float* out, int64_t n);
  void (*cos)(const float* x, float* out, int64_t n);
  // total + x[0], total + x[0] + x[1], ...
  void (*running_sums)(const float* x, float* out, int64_t n, double total);
};

// Of one 16-bit format, without a copy in float32.
constexpr int64_t kHalfColumns = 2048;
enum HalfPair { kPlus, kMinus, kTimes, kOver, kNoLess, kGreater, kLesser, kSigned, kHalfPairs };
// Besides those curves that take no exponential (nullptr: the others).
enum HalfUnary {
  kHalfRoot = kCurves,
  kHalfInverse,
  kHalfInverseRoot,
  kHalfFloor,
  kHalfCeil,
  kHalfTrunc,
  kHalfRound,
  kHalfFraction,
  kHalfUnaries
};
struct HalfArithmetic {
  // A nullptr stands for its number. In place, too.
  void (*binary[kHalfPairs])(const uint16_t* x, const uint16_t* y, const float* numbers, uint16_t* out, int64_t n);
  void (*unary[kHalfUnaries])(const uint16_t* x, uint16_t* out, int64_t n, const float* p);
  double (*sum)(const uint16_t* x, int64_t n);
  // acc[c] += the sum of column c of m rows, at most kHalfColumns wide.
  void (*sum_columns)(const uint16_t* x, float* acc, int64_t m, int64_t width, int64_t stride);
};

// 16-bit floats and float32: [0] float16, [1] bfloat16.
struct Halves {
  void (*widen[2])(const uint16_t* x, float* out, int64_t n);
  void (*narrow[2])(const float* x, uint16_t* out, int64_t n);
  // Bits of either format: `keep` of them stay, `flip` are turned.
  void (*change_bits)(const uint16_t* x, uint16_t* out, int64_t n, uint16_t keep, uint16_t flip);
  HalfArithmetic arithmetic[2];
};

// Runs of bytes, `n` of them.
struct Moves {
  void (*copy)(char* to, const char* from, int64_t n);
  void (*fill)(char* to, int64_t n, uint64_t word);  // eight bytes again and again
  // to[i] = last[-i] of n elements, of 1, 2, 4 and 8 bytes
  void (*reverse[4])(char* to, const char* last, int64_t n);
};

// Random bits: Philox 4x32-10, 64 words for each block of 16 counters, the four outputs of a
// counter side by side.
using PhiloxBlocks = void (*)(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter);

template <class T>
const Kernels<T>& kernels();
template <class T>
const Folds<T>& folds();
template <class T>
const Tallies<T>& tallies();
template <class T>
const Moments<T>& moments();
const Elementary& elementary();
const Halves& kernels_of_halves();
const Moves& moves();
PhiloxBlocks philox();

}  // namespace shmtensor
