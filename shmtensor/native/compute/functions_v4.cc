// The kernels of functions.h, for the level that isa_v4.cc is for.
#define SHMTENSOR_LEVEL level_v4
#include "function_level.h"
