// Matrix products of whole numbers, which wrap round; openblas.h has those of floating-point numbers.
#pragma once

#include "kernels/linalg/openblas.h"

namespace shmtensor {

// Of unsigned numbers of 1, 2, 4 and 8 bytes: the bits are those of signed ones.
// One product on the calling thread, and one cut into tiles over the pool; results depend on neither.
#define WHOLE(T)                    \
  void blas_gemm(const Gemm<T>& g); \
  template <>                       \
  void gemm(const Gemm<T>& g);
WHOLE(uint8_t)
WHOLE(uint16_t)
WHOLE(uint32_t)
WHOLE(uint64_t)
#undef WHOLE

}  // namespace shmtensor
