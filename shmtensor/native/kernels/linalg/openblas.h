// A private OpenBLAS: one thread, the kernels that fit this CPU, loaded at the first product.
//
// It is the library of the scipy-openblas32 wheel (its symbols begin with scipy_), opened
// RTLD_LOCAL, so it lives beside NumPy's own copy. OpenBLAS picks AVX2 kernels on AMD CPUs that
// have AVX-512; the environment says otherwise, but only around the load, and only on a CPU that
// has what they need.
#pragma once

#include <complex>
#include <cstdint>

namespace shmtensor {

// C (m x n, row-major, leading dimension ldc) = alpha op(A) op(B) + beta C; transposed: op(A) is
// A's transpose.
template <class T>
struct Gemm {
  const T* a;
  const T* b;
  T* c;
  int64_t m, n, k, lda, ldb, ldc;
  bool a_transposed, b_transposed;
  T beta;
};

// Loads the library. False: a Python exception is set. The GIL is held.
bool blas_ensure();
const char* blas_core();  // name of the kernels in use, "" before the first product

// A function by its name in the library, which is loaded, or nullptr with ImportError. The GIL is
// held.
void* blas_function(const char* name);

// One product on the calling thread. No GIL needed; blas_ensure() came first.
void blas_gemm(const Gemm<float>&);
void blas_gemm(const Gemm<double>&);
void blas_gemm(const Gemm<std::complex<float>>&);
void blas_gemm(const Gemm<std::complex<double>>&);

// One product, cut into tiles that depend on its shape alone, over the pool.
template <class T>
void gemm(const Gemm<T>&);

}  // namespace shmtensor
