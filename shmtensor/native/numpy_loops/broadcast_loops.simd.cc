// The kernels of broadcast_loops.simd.h, once per level.
#include "numpy_loops/broadcast_loops.simd.h"
