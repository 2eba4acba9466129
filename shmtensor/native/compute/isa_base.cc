// The kernels for every CPU of the architecture: SSE2 or NEON.
#define SHMTENSOR_LEVEL level_base
#include "level.h"
