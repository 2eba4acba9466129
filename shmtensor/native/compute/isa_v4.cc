// The kernels for x86-64-v4: AVX-512 (elsewhere the same as base, and unused).
#define SHMTENSOR_LEVEL level_v4
#include "level.h"
