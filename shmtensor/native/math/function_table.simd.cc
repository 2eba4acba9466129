// The kernels of function_table.simd.h, once per level.
#include "math/function_table.simd.h"
