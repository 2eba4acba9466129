// One instruction-set level: the kernel headers in the namespace SHMTENSOR_LEVEL, and its tables.
//
// kernel_table.simd.cc includes it; setup.py compiles that once per level, with SHMTENSOR_LEVEL defined.
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns inside its own AVX-512 header
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "simd/flush_denormals.h"
#include "simd/kernel_table.h"

#define INLINE_LAMBDA __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

#include "simd/vector.simd.h"
//
#include "kernels/shape/memcpy.simd.h"
#include "kernels/pointwise/relu_sigmoid_dropout.simd.h"
#include "simd/vector_float64.simd.h"

#include "simd/float_to_int64.simd.h"
//
#include "math/normal_tail.simd.h"
//
#include "math/erf.simd.h"
//
#include "kernels/pointwise/gelu.simd.h"
//
#include "kernels/pointwise/silu_elu_shrink.simd.h"
#include "kernels/pointwise/where_clamp.simd.h"
#include "kernels/reduce/minmax.simd.h"
#include "kernels/reduce/moments.simd.h"
#include "half/half_conversion.simd.h"
#include "math/log_float32.simd.h"
#include "math/exp_sin_lerp_float32.simd.h"
#include "half/half_arithmetic.simd.h"
#include "kernels/nn/softmax_logsumexp.simd.h"
#include "kernels/nn/attention.simd.h"
//
#include "kernels/reduce/complex_prod.simd.h"
#include "kernels/linalg/cdist.simd.h"
#include "kernels/reduce/cumsum.simd.h"
#include "kernels/pointwise/loss.simd.h"
//
#include "kernels/reduce/prod_float32.simd.h"
#include "kernels/reduce/prod_count.simd.h"
#include "kernels/optim/adam_sgd.simd.h"
//
#include "kernels/optim/update_rules.simd.h"

// A table without an entry does not compile, nor does one whose entries are not in the order of the struct.
#pragma GCC diagnostic error "-Wmissing-field-initializers"
#define KERNEL(name) .name = name<T>
#define LOSS(name, python_name, loss) pointwise_loss_kernels<T, loss>,
#define DISTANCE(name) distances<T, Metric::name>,
#define OPTIMIZER(name, ...) __VA_ARGS__,
template <class T>
constexpr Kernels<T> table = {
    KERNEL(relu),
    KERNEL(relu_backward),
    KERNEL(sigmoid),
    KERNEL(sigmoid_backward),
    KERNEL(tanh_backward),
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    KERNEL(gelu_tanh),
    KERNEL(gelu_tanh_backward),
    KERNEL(dropout),
    .rsqrt = rsqrt,
    KERNEL(clamp),
    .numbers = activation<T, Numbers>,
    .losses = {POINTWISE_LOSSES(LOSS) pointwise_loss_kernels<T, Glu>},
    KERNEL(multiply),
    KERNEL(addcmul),
    KERNEL(addcdiv),
    KERNEL(lerp),
    KERNEL(lerp_each),
    KERNEL(add_scaled),
    KERNEL(cube),
    KERNEL(masked_scale),
    KERNEL(truncate_to_int64),
    .distances = {METRICS(DISTANCE)},
    KERNEL(softmax),
    KERNEL(log_softmax),
    KERNEL(softmax_backward),
    KERNEL(log_softmax_backward),
    KERNEL(softmax_columns),
    KERNEL(log_softmax_columns),
    KERNEL(softmax_backward_columns),
    KERNEL(log_softmax_backward_columns),
    KERNEL(logsumexp_columns),
    KERNEL(attention_scores),
    KERNEL(attention_weights),
    KERNEL(attention_backward),
    KERNEL(attention_dot),
    KERNEL(logsumexp_row),
    KERNEL(scaled_softmax_row),
    .sum = sum<T, 1>,
    .sum_every_second = sum<T, 2>,
    KERNEL(sum_rows),
    KERNEL(sum_columns),
    KERNEL(complex_prod),
    KERNEL(complex_prod_columns),
    KERNEL(adam),
    KERNEL(sgd),
    .updates = {OPTIMIZERS(OPTIMIZER)},
};
#undef LOSS
#undef DISTANCE
#undef OPTIMIZER

template <class T>
constexpr MinMaxKernels<T> folds = {
    KERNEL(where),
    .minmax = {minmax<T, false>, minmax<T, true>},
    .minmax_columns = {minmax_columns<T, false>, minmax_columns<T, true>},
    .argminmax_columns = {argminmax_columns<T, false>, argminmax_columns<T, true>},
    KERNEL(find),
    .clamp = clamp_any<T>,
};
#undef KERNEL

template <class T>
constexpr MomentKernels<T> moment_kernels = {
    .rows = {moment<T, 1>, moment<T, 2>},
    .columns = {moment_columns<T, 1>, moment_columns<T, 2>},
};

#define ROWS(name, rows, columns) rows,
#define COLUMNS(name, rows, columns) columns,
template <class T>
constexpr ReduceKernels<T> reduce_kernels = {.rows = {REDUCTIONS(ROWS)}, .columns = {REDUCTIONS(COLUMNS)}};
#undef ROWS
#undef COLUMNS

#define TABLES(T)                                                   \
  const MinMaxKernels<T>& minmax_kernels_of(T) { return folds<T>; } \
  const ReduceKernels<T>& reduce_kernels_of(T) { return reduce_kernels<T>; }
TABLES(float)
TABLES(double)
TABLES(int8_t)
TABLES(uint8_t)
TABLES(int16_t)
TABLES(uint16_t)
TABLES(int32_t)
TABLES(uint32_t)
TABLES(int64_t)
TABLES(uint64_t)
#undef TABLES
const MomentKernels<float>& moment_kernels_of(float) { return moment_kernels<float>; }
const MomentKernels<double>& moment_kernels_of(double) { return moment_kernels<double>; }

template <class T, class A>
constexpr ActivationKernels<T> activation_kernels() {
  if constexpr (A::has_backward) return {activation<T, A>, activation_backward<T, A>};
  else return {activation<T, A>, nullptr};
}
template <class A>
constexpr Activation activation_of() {
  Activation a = {A::name, A::parameters, A::accept, activation_kernels<float, A>(), activation_kernels<double, A>(), {}};
  if constexpr (A::in_halves) a.in_halves[0] = half_unary<false, A>, a.in_halves[1] = half_unary<true, A>;
  return a;
}
template <class... A>
const Activation* table_of(ActivationList<A...>) {
  static constexpr Activation entries[] = {activation_of<A>()..., {}};
  return entries;
}
const Activation* activations_of() { return table_of(Activations()); }

constexpr ElementaryKernels functions = {
    .exp = exp_floats,
    .log = log_floats,
    .sin = sin_cos_floats<0>,
    .cos = sin_cos_floats<1>,
    .cumsum = cumsum,
};
const ElementaryKernels& functions_of() { return functions; }
constexpr HalfKernels halves = {
    .widen = {widen_float16, widen_bfloat16},
    .narrow = {narrow_float16, narrow_bfloat16},
    .change_bits = change_bits,
    .arithmetic = {half_arithmetic<false>, half_arithmetic<true>},
};
const HalfKernels& half_kernels_of() { return halves; }

constexpr MemoryKernels memory_kernels = {
    .copy = copy_bytes,
    .fill = fill_bytes,
    .reverse = {reverse_elements<uint8_t>, reverse_elements<uint16_t>, reverse_elements<uint32_t>,
                reverse_elements<uint64_t>},
};
const MemoryKernels& memory_kernels_of() { return memory_kernels; }

const Kernels<float>& float_kernels() { return table<float>; }
const Kernels<double>& double_kernels() { return table<double>; }
void random_words(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter) {
  philox_blocks(words, blocks, seed, counter);
}

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
