// Complex numbers that lie side by side: summed, or turned.
#pragma once

#include <stdint.h>

namespace shmtensor {

// out[o] = the sum of x[o, :], m numbers of two parts each; T is float or double.
template <class T>
void sum_pairs(const T* x, T* out, int64_t outer, int64_t m);

// out[k, r] = x[r, k], rows of m complex numbers.
template <class T>
void turn_pairs(const T* x, T* out, int64_t rows, int64_t m);

}  // namespace shmtensor
