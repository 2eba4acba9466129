// The two names that CuPy's runtime module takes from this header, which no wheel has.
#pragma once
#include <cuda_runtime_api.h>

extern "C" cudaError_t cudaProfilerStart();
extern "C" cudaError_t cudaProfilerStop();
