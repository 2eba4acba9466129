// parallel(np_ufunc, refused=""): NumPy's own inner loops, split over the pool, without
// floating-point warnings; arrays of the refused kinds of dtype ("c": complex) are a TypeError.
#pragma once

#include "ufunc/iterate.h"

namespace shmtensor {

PyObject* parallel(PyObject*, PyObject* args);

// The loop of a ufunc made here whose inputs are float32, and the type of its one result (float32 or
// bool); nullptr: it has none.
const Loop* loop_of_floats(PyObject* ufunc, int* result);

}  // namespace shmtensor
