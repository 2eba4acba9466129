// Sums over memory with gaps, which are read as they lie.
#pragma once

#include "kernels/arguments.h"

namespace shmtensor {

// The sums of a matrix's rows whose elements do not touch, or of a whole vector or matrix with gaps, of float32 or
// float64. Null without an exception where it is another case.
Ref sum_gapped(PyArrayObject* x, const bool* reduced, bool keep);

}  // namespace shmtensor
