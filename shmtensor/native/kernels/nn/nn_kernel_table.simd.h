// One instruction-set level of nn_kernel_table.h. nn_kernel_table.simd.cc includes it; setup.py compiles that once per
// level, with SHMTENSOR_LEVEL defined. It uses no inline code of the standard library (cpu_capability.h).
#include <stddef.h>
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
#include "kernels/nn/conv_direct.simd.h"
#include "kernels/nn/rnn_gates.simd.h"
#include "kernels/nn/normalization.simd.h"
#include "kernels/nn/conv_winograd.simd.h"
#include "kernels/nn/pooling.simd.h"
#include "kernels/nn/grid_sample.simd.h"

// A table without an entry does not compile, nor does one whose entries are not in the order of the struct.
#pragma GCC diagnostic error "-Wmissing-field-initializers"
#define KERNEL(name) .name = name<T>
template <class T>
constexpr NnKernels<T> nn_kernels = {
    KERNEL(sum),
    KERNEL(sum_of_squared_deviations),
    KERNEL(norm),
    KERNEL(affine),
    KERNEL(dots),
    KERNEL(norm_backward),
    KERNEL(norm_backward_weight),
    KERNEL(affine_columns),
    KERNEL(dots_columns),
    KERNEL(norm_backward_columns),
    KERNEL(conv_tiles),
    KERNEL(conv_weight_tiles),
    KERNEL(load_rows),
    KERNEL(interleave),
    KERNEL(deinterleave),
    KERNEL(store_rows),
    KERNEL(depthwise_3x3),
    KERNEL(depthwise_3x3_backward_weight),
    KERNEL(split_pixels),
    KERNEL(split_results),
    KERNEL(merge_results),
    KERNEL(transform_input),
    KERNEL(transform_output),
    KERNEL(transform_output_adjoint),
    KERNEL(transform_filters),
    KERNEL(transform_filters_adjoint),
    KERNEL(transpose),
    KERNEL(combine_rows),
    KERNEL(max_of_rows),
    KERNEL(grid_sample),
    KERNEL(grid_sample_backward_x),
    KERNEL(grid_sample_backward_grid),
    KERNEL(ctc_blanks),
    KERNEL(ctc_labels),
    KERNEL(ctc_shares),
    KERNEL(exp_row),
    KERNEL(lstm_gates),
    KERNEL(lstm_gates_backward),
    KERNEL(gru_gates),
    KERNEL(gru_gates_backward),
    KERNEL(tanh_gates),
    KERNEL(relu_gates),
    KERNEL(tanh_gates_backward),
    KERNEL(relu_gates_backward),
};
#undef KERNEL

const NnKernels<float>& nn_kernels_of(float) { return nn_kernels<float>; }
const NnKernels<double>& nn_kernels_of(double) { return nn_kernels<double>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
