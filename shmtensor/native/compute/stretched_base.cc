// The kernels of stretched.h, for the level that isa_base.cc is for.
#define SHMTENSOR_LEVEL level_base
#include "stretched_level.h"
