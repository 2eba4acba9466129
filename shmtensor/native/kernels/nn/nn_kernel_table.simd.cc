// The kernels of nn_kernel_table.simd.h, once per level.
#include "kernels/nn/nn_kernel_table.simd.h"
