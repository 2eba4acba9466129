// parallel(np_ufunc, refused=""): a ufunc that runs NumPy's inner loops on the thread pool, without floating-point
// warnings; arrays of the refused dtype kinds ("c": complex) raise TypeError.
#pragma once

#include "numpy_loops/iterate.h"

namespace shmtensor {

PyObject* parallel(PyObject*, PyObject* args);

// The float32 loop of a ufunc created by parallel(), and the type of its result (float32 or bool); nullptr if there is
// none.
const Loop* float32_loop(PyObject* ufunc, int* result);

}  // namespace shmtensor
