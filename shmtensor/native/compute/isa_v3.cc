// The kernels for x86-64-v3: AVX2 and FMA (elsewhere the same as base, and unused).
#define SHMTENSOR_LEVEL level_v3
#include "level.h"
