// One instruction-set level: the kernel headers in the namespace SHMTENSOR_LEVEL, and its tables.
//
// kernel_table.simd.cc includes it; setup.py compiles that once per level, with SHMTENSOR_LEVEL defined.
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // GCC 12 warns inside its own AVX-512 header
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
#include "kernels/pointwise/relu_sigmoid_gelu.simd.h"
#include "simd/vector_float64.simd.h"

#include "simd/float_to_int64.simd.h"
//
#include "math/normal_tail.simd.h"
//
#include "math/erf.simd.h"
//
#include "math/gelu.simd.h"
//
#include "kernels/pointwise/silu_elu_shrink.simd.h"
#include "kernels/reduce/where_clamp_minmax.simd.h"
#include "half/half_conversion.simd.h"
#include "math/log_float32.simd.h"
#include "math/exp_sin_lerp_float32.simd.h"
#include "half/half_arithmetic.simd.h"
#include "kernels/nn/softmax_logsumexp.simd.h"
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

template <class T>
constexpr Kernels<T> table = {
    relu<T>,
    relu_backward<T>,
    sigmoid<T>,
    sigmoid_backward<T>,
    tanh_backward<T>,
    gelu,
    gelu_backward,
    gelu_tanh<T>,
    gelu_tanh_backward<T>,
    dropout<T>,
    rsqrt,
    clamp<T>,
    activation<T, Numbers>,
    {pointwise_loss_kernels<T, MseLoss>, pointwise_loss_kernels<T, L1Loss>, pointwise_loss_kernels<T, HuberLoss>,
     pointwise_loss_kernels<T, BceLoss>, pointwise_loss_kernels<T, BceWithLogitsLoss>,
     pointwise_loss_kernels<T, SoftMarginLoss>, pointwise_loss_kernels<T, KlDivLoss>,
     pointwise_loss_kernels<T, KlDivLogTargetLoss>, pointwise_loss_kernels<T, PoissonNllLoss>,
     pointwise_loss_kernels<T, Glu>},
    multiply<T>,
    addcmul<T>,
    addcdiv<T>,
    lerp<T>,
    lerp_each<T>,
    add_scaled<T>,
    cube<T>,
    masked_scale<T>,
    truncate_to_int64<T>,
    {distances<T, Metric::Count>, distances<T, Metric::Sum>, distances<T, Metric::Squares>,
     distances<T, Metric::Largest>},
    softmax<T>,
    log_softmax<T>,
    softmax_backward<T>,
    log_softmax_backward<T>,
    softmax_columns<T>,
    log_softmax_columns<T>,
    softmax_backward_columns<T>,
    log_softmax_backward_columns<T>,
    logsumexp_columns<T>,
    cross_entropy_row<T>,
    scale<T>,
    sum<T, 1>,
    sum<T, 2>,
    sum_rows<T>,
    sum_columns<T>,
    complex_prod<T>,
    complex_prod_columns<T>,
    adam<T>,
    sgd<T>,
    {update<T, AdadeltaRule<T>>, update<T, AdagradRule<T>>, update<T, AdamaxRule<T>>,
     asgd<T>, update<T, NAdamRule<T>>, radam<T>, rmsprop<T>,
     update<T, RpropRule<T>>},
};

template <class T>
constexpr MinMaxKernels<T> folds = {
    where<T>,
    {minmax<T, false>, minmax<T, true>},
    {minmax_columns<T, false>, minmax_columns<T, true>},
    {argminmax_columns<T, false>, argminmax_columns<T, true>},
    find<T>,
    clamp_any<T>,
};

template <class T>
constexpr MomentKernels<T> moment_kernels = {{moment<T, 1>, moment<T, 2>},
                                             {moment_columns<T, 1>, moment_columns<T, 2>}};

template <class T>
constexpr ReduceKernels<T> reduce_kernels = {
    {sum_wide<T>, prod<T>, count<T>},
    {sum_wide_columns<T>, prod_columns<T>, count_columns<T>},
};

#define TABLES(T)                                      \
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

constexpr ElementaryKernels functions = {exp_floats, log_floats, sin_cos_floats<0>, sin_cos_floats<1>, cumsum};
const ElementaryKernels& functions_of() { return functions; }
constexpr HalfKernels halves = {{widen_float16, widen_bfloat16}, {narrow_float16, narrow_bfloat16}, change_bits,
                                {half_arithmetic<false>, half_arithmetic<true>}};
const HalfKernels& half_kernels_of() { return halves; }

constexpr MemoryKernels memory_kernels = {copy_bytes, fill_bytes,
                                          {reverse_elements<uint8_t>, reverse_elements<uint16_t>,
                                           reverse_elements<uint32_t>,
                                           reverse_elements<uint64_t>}};
const MemoryKernels& memory_kernels_of() { return memory_kernels; }

const Kernels<float>& float_kernels() { return table<float>; }
const Kernels<double>& double_kernels() { return table<double>; }
void random_words(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter) {
  philox_blocks(words, blocks, seed, counter);
}

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
