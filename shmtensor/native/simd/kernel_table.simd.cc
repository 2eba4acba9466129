// The kernels of kernel_table.simd.h, once per level.
#include "simd/kernel_table.simd.h"
