// The kernels of broadcast_loops.simd.h, once per level.
#include "ufunc/broadcast_loops.simd.h"
