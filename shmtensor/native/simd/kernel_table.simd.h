// One instruction-set level: the kernel headers in the namespace SHMTENSOR_LEVEL, and its tables.
//
// Included by kernel_table.simd.cc, kernel_table.simd.cc, kernel_table.simd.cc, each of which defines SHMTENSOR_LEVEL first.
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
#include "kernels/pointwise/activation_backward.simd.h"
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
    {curve<T, Silu>, curve<T, Softplus>, curve<T, LogSigmoid>, curve<T, Mish>,
     curve<T, LeakyRelu>, curve<T, Elu>, curve<T, HardTanh>, curve<T, HardSigmoid>,
     curve<T, HardSwish>, curve<T, HardShrink>, curve<T, SoftShrink>, curve<T, Threshold>,
     curve<T, Numbers>},
    {slope<T, SiluSlope>, slope<T, SoftplusSlope>, slope<T, LogSigmoidSlope>, slope<T, MishSlope>,
     slope<T, LeakyReluSlope>, slope<T, EluSlope>, slope<T, HardTanhSlope>,
     slope<T, HardSigmoidSlope>, slope<T, HardSwishSlope>, slope<T, ShrinkSlope>,
     slope<T, ShrinkSlope>, slope<T, ThresholdSlope>},
    {measured<T, Squared>, measured<T, Absolute>, measured<T, Bent>, measured<T, Entropy>,
     measured<T, Logit>, measured<T, SoftMargin>, measured<T, Divergence>,
     measured<T, LogDivergence>, measured<T, Poisson>, measured<T, Gated>},
    multiply<T>,
    addcmul<T>,
    addcdiv<T>,
    lerp<T>,
    lerp_each<T>,
    add_scaled<T>,
    cube<T>,
    keep<T>,
    cut_off<T>,
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
    log_sum_columns<T>,
    cross_entropy_row<T>,
    scale<T>,
    sum<T, 1>,
    sum<T, 2>,
    sum_rows<T>,
    sum_columns<T>,
    complex_product<T>,
    complex_product_columns<T>,
    adam<T>,
    sgd<T>,
    {update<T, AdadeltaRule<T>>, update<T, AdagradRule<T>>, update<T, AdamaxRule<T>>,
     asgd<T>, update<T, NAdamRule<T>>, radam<T>, rmsprop<T>,
     update<T, RpropRule<T>>},
};

template <class T>
constexpr Folds<T> folds = {
    choose<T>,
    {extreme<T, false>, extreme<T, true>},
    {extreme_columns<T, false>, extreme_columns<T, true>},
    {place_columns<T, false>, place_columns<T, true>},
    find<T>,
    bound<T>,
};

template <class T>
constexpr Moments<T> moments = {{distant<T, 1>, distant<T, 2>},
                                {distant_columns<T, 1>, distant_columns<T, 2>}};

template <class T>
constexpr Tallies<T> tallies = {
    {add_up<T>, product<T>, count<T>},
    {add_up_columns<T>, product_columns<T>, count_columns<T>},
};

#define FOLDS(T)                                      \
  const Folds<T>& folds_of(T) { return folds<T>; } \
  const Tallies<T>& tallies_of(T) { return tallies<T>; }
FOLDS(float)
FOLDS(double)
FOLDS(int8_t)
FOLDS(uint8_t)
FOLDS(int16_t)
FOLDS(uint16_t)
FOLDS(int32_t)
FOLDS(uint32_t)
FOLDS(int64_t)
FOLDS(uint64_t)
#undef FOLDS
const Moments<float>& moments_of(float) { return moments<float>; }
const Moments<double>& moments_of(double) { return moments<double>; }

constexpr Elementary functions = {exp_floats, log_floats, waves<0>, waves<1>, running_sums};
const Elementary& functions_of() { return functions; }
constexpr Halves halves = {{widen_float16, widen_bfloat16}, {narrow_float16, narrow_bfloat16}, change_bits,
                           {half_arithmetic<false>, half_arithmetic<true>}};
const Halves& halves_of() { return halves; }

constexpr Moves moves = {copy_run, fill_run,
                         {reverse_run<uint8_t>, reverse_run<uint16_t>, reverse_run<uint32_t>,
                          reverse_run<uint64_t>}};
const Moves& moves_of() { return moves; }

const Kernels<float>& floats() { return table<float>; }
const Kernels<double>& doubles() { return table<double>; }
void random_words(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter) {
  philox_blocks(words, blocks, seed, counter);
}

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
