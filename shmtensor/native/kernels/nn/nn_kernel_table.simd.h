// One instruction-set level of nn_kernel_table.h. Included by nn_kernel_table.simd.cc, nn_kernel_table.simd.cc, nn_kernel_table.simd.cc,
// each of which defines SHMTENSOR_LEVEL first. No inline code of the standard library (cpu_capability.h).
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
constexpr Layers<T> layers = {
    total<T>,        squared<T>,
    norm<T>,         affine<T>,         dots<T>,    norm_slope<T>, norm_weights<T>,
    affine_columns<T>, dots_columns<T>, slope_columns<T>,
    depth<T>,        depth_filter<T>,   pick<T>,
    spread_row<T>,   part_row<T>,       join_row<T>,
    tile_in<T>,      tile_out<T>,       tile_back<T>,
    ctc_blanks<T>,   ctc_labels<T>,     ctc_shares<T>, exp_row<T>,
    lstm_gates<T>,   lstm_slopes<T>,    gru_gates<T>,  gru_slopes<T>,
    tanh_gates<T>,   relu_gates<T>,     tanh_slopes<T>, relu_slopes<T>,
};

const Layers<float>& layers_of(float) { return layers<float>; }
const Layers<double>& layers_of(double) { return layers<double>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
