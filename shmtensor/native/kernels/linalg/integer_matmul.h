// Matrix products of integers, which wrap around; openblas.h has those of floating-point numbers.
#pragma once

#include "kernels/linalg/openblas.h"

namespace shmtensor {

// For unsigned integers of 1, 2, 4 and 8 bytes; signed integers give the same bits.
// blas_gemm runs on the calling thread, gemm in tiles on the thread pool; both give the same result.
#define INTEGER_GEMM(T)             \
  void blas_gemm(const Gemm<T>& g); \
  template <>                       \
  void gemm(const Gemm<T>& g);
INTEGER_GEMM(uint8_t)
INTEGER_GEMM(uint16_t)
INTEGER_GEMM(uint32_t)
INTEGER_GEMM(uint64_t)
#undef INTEGER_GEMM

}  // namespace shmtensor
