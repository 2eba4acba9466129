// The kernels of functions.h, for the level that isa_base.cc is for.
#define SHMTENSOR_LEVEL level_base
#include "function_level.h"
