// The kernels of functions.h, for the level that isa_v3.cc is for.
#define SHMTENSOR_LEVEL level_v3
#include "function_level.h"
