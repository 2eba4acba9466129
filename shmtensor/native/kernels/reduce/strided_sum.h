// Sums over strided memory, without a copy.
#pragma once

#include "kernels/arguments.h"

namespace shmtensor {

// The sums of the rows of a matrix with strided elements, or the sum of a strided vector or matrix, of float32 or
// float64. Null without an exception for other arrays.
Ref strided_sum(PyArrayObject* x, const bool* is_reduced, bool keepdim);

}  // namespace shmtensor
