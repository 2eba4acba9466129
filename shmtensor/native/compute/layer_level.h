// One instruction-set level of layers.h. Included by layers_base.cc, layers_v3.cc, layers_v4.cc,
// each of which defines SHMTENSOR_LEVEL first. No inline code of the standard library (isa.h).
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "layers.h"

#define INLINE_LAMBDA __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wunused-function"

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

#include "vector.h"
//
#include "alignment.h"
#include "depthwise.h"
#include "gates.h"
#include "norm_rows.h"
#include "tiles.h"

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
