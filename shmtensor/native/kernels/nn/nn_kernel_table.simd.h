// One instruction-set level of nn_kernel_table.h. nn_kernel_table.simd.cc includes it; setup.py compiles that once per
// level, with SHMTENSOR_LEVEL defined. It uses no inline code of the standard library (cpu_capability.h).
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/nn/nn_kernel_table.h"

#define INLINE_LAMBDA __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wunused-function"

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

#include "simd/vector.simd.h"
//
#include "kernels/loss/ctc_loss.simd.h"
#include "kernels/nn/conv_depthwise.simd.h"
#include "kernels/nn/rnn_gates.simd.h"
#include "kernels/nn/normalization.simd.h"
#include "kernels/nn/conv_winograd.simd.h"

template <class T>
constexpr NnKernels<T> nn_kernels = {
    sum<T>,        sum_of_squared_deviations<T>,
    norm<T>,         affine<T>,         dots<T>,    norm_backward<T>, norm_backward_weight<T>,
    affine_columns<T>, dots_columns<T>, norm_backward_columns<T>,
    depthwise_3x3<T>,        depthwise_3x3_backward_weight<T>,   take_even<T>,
    split_row_overlapping<T>,   split_row<T>,       merge_row<T>,
    transform_input<T>,      transform_output<T>,       transform_output_adjoint<T>,
    ctc_blanks<T>,   ctc_labels<T>,     ctc_shares<T>, exp_row<T>,
    lstm_gates<T>,   lstm_gates_backward<T>,    gru_gates<T>,  gru_gates_backward<T>,
    tanh_gates<T>,   relu_gates<T>,     tanh_gates_backward<T>, relu_gates_backward<T>,
};

const NnKernels<float>& nn_kernels_of(float) { return nn_kernels<float>; }
const NnKernels<double>& nn_kernels_of(double) { return nn_kernels<double>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
