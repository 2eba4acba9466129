// What a reduction leaves of a shape, for any reduction: the input's memory in order, its dimensions
// as (outer, m, inner).
#pragma once

#include "array.h"

namespace shmtensor {

// One reduced group of neighbouring dimensions: x[o, k, c] with k going.
struct Reduced {
  Ref x;  // C-contiguous
  int64_t outer = 1, m = 1, inner = 1;
  int nd = 0;  // of the result
  npy_intp dims[NPY_MAXDIMS];
};

// dim: None or () for all, a number, or a sequence of numbers. Sets `fits` to false, without an
// exception, where the reduced dimensions are not neighbours. False with an exception: wrong dim.
bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keep, Reduced* out,
                      bool* fits);

}  // namespace shmtensor
