// The kernels of each instruction-set level: serial functions on contiguous memory, in tables.
//
// The callers (relu_sigmoid_gelu.cc, softmax_cross_entropy.cc, optimizer_step.cc, ...) parse arguments, divide the work into
// slices for the thread pool and call these. T is float or double.
#pragma once

#include <stdint.h>

namespace shmtensor {

template <class T>
struct AdamRule {
  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay;
  T step_size;  // lr / (1 - beta1^step)
  T inverse_correction2;  // 1 / sqrt(1 - beta2^step)
  T shrink;  // 1 - lr * weight_decay if the decay is decoupled, else 1
  bool maximize;
};

template <class T>
struct SgdRule {
  T lr, momentum, dampening, weight_decay, one_minus_dampening;
  bool nesterov, maximize, first;
};

// Lists of kernels that are chosen by number, a line each. The numbers k<Name>, the names that callers give, and the
// tables in kernel_table.simd.h and half_arithmetic.simd.h are made from them.
#define NUMBER(name, ...) k##name,

// Optimizers: X(name, the update by the rules of update_rules.simd.h).
#define OPTIMIZERS(X)                     \
  X(Adadelta, update<T, AdadeltaRule<T>>) \
  X(Adagrad, update<T, AdagradRule<T>>)   \
  X(Adamax, update<T, AdamaxRule<T>>)     \
  X(Asgd, asgd<T>)                        \
  X(NAdam, update<T, NAdamRule<T>>)       \
  X(RAdam, radam<T>)                      \
  X(RMSprop, rmsprop<T>)                  \
  X(Rprop, update<T, RpropRule<T>>)
enum Update { OPTIMIZERS(NUMBER) kUpdates };

// An activation of silu_elu_shrink.simd.h: its name, the number of its parameters, and its kernels. p are three numbers:
// the parameters, as `accept` has changed them.
template <class T>
struct ActivationKernels {
  void (*value)(const T* x, T* out, int64_t n, const T* p);
  void (*backward)(const T* g, const T* x, T* gx, int64_t n, const T* p);  // nullptr if there is none
};
struct Activation {
  const char* name;
  int parameters;
  bool (*accept)(double* p);  // whether the kernels take the parameters
  ActivationKernels<float> in_float32;
  ActivationKernels<double> in_float64;
  void (*in_halves[2])(const uint16_t* x, uint16_t* out, int64_t n, const float* p);  // float16, bfloat16; or nullptr

  template <class T>
  const ActivationKernels<T>& kernels() const {
    if constexpr (sizeof(T) == 4) return in_float32;
    else return in_float64;
  }
};

// Pointwise losses: X(name, Python's name, the loss).
#define POINTWISE_LOSSES(X)                                \
  X(Mse, mse, MseLoss)                                     \
  X(L1, l1, L1Loss)                                        \
  X(Huber, huber, HuberLoss)                               \
  X(Bce, bce, BceLoss)                                     \
  X(BceWithLogits, bce_with_logits, BceWithLogitsLoss)     \
  X(SoftMargin, soft_margin, SoftMarginLoss)               \
  X(KlDiv, kl_div, KlDivLoss)                              \
  X(KlDivLogTarget, kl_div_log_target, KlDivLogTargetLoss) \
  X(PoissonNll, poisson_nll, PoissonNllLoss)
enum PointwiseLoss {
  POINTWISE_LOSSES(NUMBER) kGlu,  // no loss, but of the same form: x * sigmoid(y)
  kPointwiseLosses
};

// p: two parameters, and the factor of the derivatives.
template <class T>
struct PointwiseLossKernels {
  void (*value)(const T* x, const T* y, T* out, int64_t n, const T* p);
  void (*derivatives[2])(const T* x, const T* y, T* out, int64_t n, const T* p);  // by x, by y
};

// The metrics of cdist: the number of nonzero differences (p = 0), the sum of absolute differences (1), the root of the
// sum of squares (2), the maximum (infinity).
#define METRICS(X) X(Count) X(Sum) X(Squares) X(Largest)
#define METRIC(name) name,
enum class Metric { METRICS(METRIC) kMetrics };
#undef METRIC

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
  void (*dropout)(const T* x, T* out, uint8_t* mask, int64_t n, T scale, uint32_t threshold, uint64_t seed,
                  uint64_t counter);
  void (*rsqrt)(const T* x, T* out, int64_t n);
  void (*clamp)(const T* x, T* out, int64_t n, T low, T high);
  void (*numbers)(const T* x, T* out, int64_t n, const T* p);  // p replace NaN, infinity, minus infinity
  PointwiseLossKernels<T> losses[kPointwiseLosses];
  void (*multiply)(const T* g, T* out, int64_t n);  // out *= g
  void (*addcmul)(const T* x, const T* a, const T* b, T* out, int64_t n, T value);
  void (*addcdiv)(const T* x, const T* a, const T* b, T* out, int64_t n, T value);
  void (*lerp)(const T* x, const T* end, T* out, int64_t n, T weight);
  void (*lerp_each)(const T* x, const T* end, const T* weight, T* out, int64_t n);
  void (*add_scaled)(const T* x, const T* y, T* out, int64_t n, T value);
  void (*cube)(const T* x, T* out, int64_t n);
  void (*masked_scale)(const T* x, const uint8_t* mask, T* out, int64_t n, T scale);
  void (*truncate_to_int64)(const T* x, int64_t* out, int64_t n);  // towards 0
  // Distances of a point of m coordinates from n columns, by metric.
  void (*distances[static_cast<int>(Metric::kMetrics)])(const T* x, const T* y, T* out, int64_t m, int64_t n,
                                                        int64_t stride);

  // Rows of m.
  void (*softmax)(const T* x, T* out, int64_t rows, int64_t m);
  void (*log_softmax)(const T* x, T* out, int64_t rows, int64_t m);
  void (*softmax_backward)(const T* g, const T* out, T* gx, int64_t rows, int64_t m);
  void (*log_softmax_backward)(const T* g, const T* out, T* gx, int64_t rows, int64_t m);
  // m rows of `width` columns, `stride` elements apart, normalised along the columns.
  void (*softmax_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  void (*log_softmax_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  void (*softmax_backward_columns)(const T* g, const T* out, T* gx, int64_t m, int64_t width, int64_t stride);
  void (*log_softmax_backward_columns)(const T* g, const T* out, T* gx, int64_t m, int64_t width, int64_t stride);
  void (*logsumexp_columns)(const T* x, T* out, int64_t m, int64_t width, int64_t stride);
  // A row of attention's scores (attention.simd.h): scaled and masked, the largest; e^(s - shift), the sum; gradients.
  T (*attention_scores)(T* s, const T* bias, const uint8_t* allowed, int64_t n, T scale);
  T (*attention_weights)(T* s, int64_t n, T shift);
  void (*attention_backward)(const T* p, T* dp, int64_t n, T d, T scale);
  T (*attention_dot)(const T* x, const T* y, int64_t n);
  // A row's largest element, and the logarithm of the sum of e^(x - that); then its softmax from these, times a factor.
  void (*logsumexp_row)(const T* x, int64_t m, T* max_value, T* log_total);
  void (*scaled_softmax_row)(const T* x, T* out, int64_t m, T max_value, T log_total, T factor);

  // Sums: of n elements, of n elements 2 apart, of short rows, and of each column (added to acc).
  double (*sum)(const T* x, int64_t n);
  double (*sum_every_second)(const T* x, int64_t n);
  void (*sum_rows)(const T* x, T* out, int64_t rows, int64_t m);
  void (*sum_columns)(const T* x, T* acc, int64_t m, int64_t width, int64_t stride);

  // Products of complex numbers: of n, and of each column (re and im are multiplied by it).
  void (*complex_prod)(const T* x, int64_t n, double* out);
  void (*complex_prod_columns)(const T* x, double* re, double* im, int64_t m, int64_t width, int64_t stride);

  // Updates in place.
  void (*adam)(T* p, const T* g, T* m, T* v, T* vmax, int64_t n, const AdamRule<T>& rule);
  void (*sgd)(T* p, const T* g, T* buffer, int64_t n, const SgdRule<T>& rule);
  void (*updates[kUpdates])(T* p, const T* g, T* const* state, int64_t n, const double* numbers, double weight_decay,
                            bool maximize);
};

enum Extreme { kMinimum, kMaximum };  // `largest` is one of both

// For every numeric type: integers of 1, 2, 4 and 8 bytes, float and double.
template <class T>
struct MinMaxKernels {
  // out[i] = c[i] ? x[i * xs] : y[i * ys]; the steps are 0 or 1.
  void (*where)(const uint8_t* c, const T* x, int64_t xs, const T* y, int64_t ys, T* out, int64_t n);
  // By Extreme; a NaN is both.
  T (*minmax[2])(const T* x, int64_t m);
  void (*minmax_columns[2])(const T* x, T* acc, int64_t m, int64_t width, int64_t stride);
  void (*argminmax_columns[2])(const T* x, T* acc, int32_t* rows, int64_t m, int64_t width, int64_t stride, int32_t first);
  int64_t (*find)(const T* x, int64_t m, T value);
  void (*clamp)(const T* x, T* out, int64_t n, T low, T high);
};

// The accumulator type of sums, products and counts: double for float and double, uint64_t for integers (the same bits
// as int64).
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

// X(name, the kernel of n elements, that of each column, combined with acc); Count: of the nonzero elements.
#define REDUCTIONS(X)                      \
  X(Sum, sum_wide<T>, sum_wide_columns<T>) \
  X(Prod, prod<T>, prod_columns<T>)        \
  X(Count, count<T>, count_columns<T>)
#define REDUCTION(name, ...) name,
enum class ReduceOp { REDUCTIONS(REDUCTION) kReductions };
#undef REDUCTION
constexpr int kReductions = static_cast<int>(ReduceOp::kReductions);
template <class T>
struct ReduceKernels {
  WideOf<T> (*rows[kReductions])(const T* x, int64_t n);
  void (*columns[kReductions])(const T* x, WideOf<T>* acc, int64_t m, int64_t width, int64_t stride);
};

// Sums of absolute [0] and squared [1] distances from a center, for var and norm.
template <class T>
struct MomentKernels {
  double (*rows[2])(const T* x, int64_t n, T point);
  void (*columns[2])(const T* x, const T* points, T* acc, int64_t m, int64_t width, int64_t stride);
};

// Elementary functions of float32, and cumulative sums.
struct ElementaryKernels {
  void (*exp)(const float* x, float* out, int64_t n);
  void (*log)(const float* x, float* out, int64_t n);
  void (*sin)(const float* x, float* out, int64_t n);
  void (*cos)(const float* x, float* out, int64_t n);
  // total + x[0], total + x[0] + x[1], ...
  void (*cumsum)(const float* x, float* out, int64_t n, double total);
};

// Kernels of one 16-bit format, without a float32 copy.
constexpr int64_t kHalfColumns = 2048;
// X(name, NumPy's name, number of inputs, the operation). relu is the maximum with the number 0.
#define HALF_BINARIES(X)                \
  X(Plus, add, 2, HalfSum)              \
  X(Minus, subtract, 2, HalfDifference) \
  X(Times, multiply, 2, HalfProduct)    \
  X(Over, divide, 2, HalfQuotient)      \
  X(NoLess, relu, 1, HalfBound)         \
  X(Greater, maximum, 2, HalfGreater)   \
  X(Lesser, minimum, 2, HalfLesser)     \
  X(Signed, copysign, 2, HalfSigned)
enum HalfBinary { HALF_BINARIES(NUMBER) kHalfBinaries };
// X(name, NumPy's name), with the operation of the same name.
#define HALF_UNARIES(X)      \
  X(HalfRoot, sqrt)          \
  X(HalfInverse, reciprocal) \
  X(HalfInverseRoot, rsqrt)  \
  X(HalfFloor, floor)        \
  X(HalfCeil, ceil)          \
  X(HalfTrunc, trunc)        \
  X(HalfRound, rint)         \
  X(HalfFraction, frac)
enum HalfUnary {
  kHalfClamp,  // p: min, max
  kHalfNumbers,  // p replace NaN, infinity, minus infinity
  HALF_UNARIES(NUMBER) kHalfUnaries
};
#undef NUMBER
struct HalfArithmetic {
  // If x or y is nullptr, the operand is the number. May run in place.
  void (*binary[kHalfBinaries])(const uint16_t* x, const uint16_t* y, const float* numbers, uint16_t* out, int64_t n);
  void (*unary[kHalfUnaries])(const uint16_t* x, uint16_t* out, int64_t n, const float* p);
  double (*sum)(const uint16_t* x, int64_t n);
  // acc[c] += the sum of column c of m rows, at most kHalfColumns wide.
  void (*sum_columns)(const uint16_t* x, float* acc, int64_t m, int64_t width, int64_t stride);
};

// 16-bit floats and float32: [0] float16, [1] bfloat16.
struct HalfKernels {
  void (*widen[2])(const uint16_t* x, float* out, int64_t n);
  void (*narrow[2])(const float* x, uint16_t* out, int64_t n);
  // out = (x & keep) ^ flip, for both formats.
  void (*change_bits)(const uint16_t* x, uint16_t* out, int64_t n, uint16_t masked_scale, uint16_t flip);
  HalfArithmetic arithmetic[2];
};

// Runs of n bytes or elements.
struct MemoryKernels {
  void (*copy)(char* to, const char* from, int64_t n);
  void (*fill)(char* to, int64_t n, uint64_t word);  // repeats eight bytes
  // to[i] = last[-i] of n elements, of 1, 2, 4 and 8 bytes
  void (*reverse[4])(char* to, const char* last, int64_t n);
};

// Random bits: Philox 4x32-10, 64 words for each block of 16 counters; the four words of a counter are adjacent.
using PhiloxBlocks = void (*)(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter);

template <class T>
const Kernels<T>& kernels();
template <class T>
const MinMaxKernels<T>& folds();
template <class T>
const ReduceKernels<T>& reduce_kernels();
template <class T>
const MomentKernels<T>& moment_kernels();
const ElementaryKernels& elementary_kernels();
const HalfKernels& half_kernels();
const MemoryKernels& memory_kernels();
PhiloxBlocks philox();
const Activation* activations();  // all of them, then one without a name
const Activation* find_activation(const char* name);  // nullptr if there is none

}  // namespace shmtensor
