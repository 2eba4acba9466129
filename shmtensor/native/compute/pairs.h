// Sums of complex numbers that lie side by side.
#pragma once

#include <stdint.h>

namespace shmtensor {

// out[o] = the sum of x[o, :], m numbers of two parts each; T is float or double.
template <class T>
void sum_pairs(const T* x, T* out, int64_t outer, int64_t m);

}  // namespace shmtensor
