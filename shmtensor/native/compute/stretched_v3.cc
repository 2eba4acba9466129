// The kernels of stretched.h, for the level that isa_v3.cc is for.
#define SHMTENSOR_LEVEL level_v3
#include "stretched_level.h"
