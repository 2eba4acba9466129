// The kernels of stretched.h, for the level that isa_v4.cc is for.
#define SHMTENSOR_LEVEL level_v4
#include "stretched_level.h"
