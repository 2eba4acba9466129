// parallel(np_ufunc, refused=""): NumPy's own inner loops, split over the pool, without
// floating-point warnings; arrays of the refused kinds of dtype ("c": complex) are a TypeError.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* parallel(PyObject*, PyObject* args);

}  // namespace shmtensor
