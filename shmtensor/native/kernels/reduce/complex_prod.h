// Products of complex64 and complex128 along dimensions.
#pragma once

#include "python.h"

namespace shmtensor {

// dim: None, a number, or a sequence of numbers. None (the object) where the caller says what is wrong.
PyObject* complex_product(PyArrayObject* x, PyObject* dim, bool keep);

}  // namespace shmtensor
