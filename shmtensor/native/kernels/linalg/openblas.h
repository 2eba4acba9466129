// A private OpenBLAS with one thread and the kernels for this CPU, loaded at the first product.
//
// It is the library of the scipy-openblas32 wheel (its symbols begin with scipy_), opened RTLD_LOCAL, so it is
// independent of NumPy's copy. OpenBLAS chooses AVX2 kernels on AMD CPUs that have AVX-512; an environment variable,
// set only while the library loads and only on a CPU with AVX-512, selects the AVX-512 kernels.
#pragma once

#include <complex>
#include <cstdint>

namespace shmtensor {

// C (m x n, row-major, leading dimension ldc) = op(A) op(B) + beta C; a_transposed: op(A) is A's transpose.
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

// A function of the library by its name, or nullptr with ImportError; loads the library. The GIL is held.
void* blas_function(const char* name);

// One product on the calling thread. Needs no GIL; call blas_ensure() before.
void blas_gemm(const Gemm<float>&);
void blas_gemm(const Gemm<double>&);
void blas_gemm(const Gemm<std::complex<float>>&);
void blas_gemm(const Gemm<std::complex<double>>&);

// One product on the thread pool, in tiles that depend on its shape alone.
template <class T>
void gemm(const Gemm<T>&);

}  // namespace shmtensor
