// Products of complex64 and complex128 along dimensions.
#pragma once

#include "python.h"

namespace shmtensor {

// dim: None, an int, or a sequence of ints. Returns None if dim is wrong: the caller raises.
PyObject* complex_prod_over(PyArrayObject* x, PyObject* dim, bool keepdim);

}  // namespace shmtensor
