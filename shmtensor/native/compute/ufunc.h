// parallel(np_ufunc): NumPy's own inner loops, split over the pool, without floating-point
// warnings.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* parallel(PyObject*, PyObject* ufunc);

}  // namespace shmtensor
