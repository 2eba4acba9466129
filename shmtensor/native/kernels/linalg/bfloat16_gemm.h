// Matrix products of bfloat16 by the instruction VDPBF16PS (AVX512_BF16); openblas.h has those of other floats.
//
// Sums are float32 and rounded once. What the instruction does to tiny numbers is in docs/design/bfloat16.md.
#pragma once

#include "half/bfloat16.h"
#include "kernels/linalg/openblas.h"

namespace shmtensor {

// Has this CPU the instruction, and is the level not lowered? Without it the functions below must not be called.
bool has_bfloat16_gemm();

// blas_gemm runs on the calling thread, gemm in tiles on the thread pool.
void blas_gemm(const Gemm<Bfloat16>& g);
template <>
void gemm(const Gemm<Bfloat16>& g);

}  // namespace shmtensor
