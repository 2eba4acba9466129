// Sums and transposes of contiguous complex numbers.
#pragma once

#include <stdint.h>

namespace shmtensor {

// out[o] = the sum of x[o, :] over m complex numbers; T is float or double.
template <class T>
void sum_complex_rows(const T* x, T* out, int64_t outer, int64_t m);

// out[k, r] = x[r, k] for rows of m complex numbers.
template <class T>
void transpose_pairs(const T* x, T* out, int64_t rows, int64_t m);

}  // namespace shmtensor
