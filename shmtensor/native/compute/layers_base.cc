// The kernels of layers.h, for the level that isa_base.cc is for.
#define SHMTENSOR_LEVEL level_base
#include "layer_level.h"
