// Loops of our own in place of NumPy's: those of float32 that are slower than memory.
#pragma once

#include "python.h"

namespace shmtensor {

// The loop for a ufunc's name and the type of its inputs, or nullptr: NumPy's will do.
PyUFuncGenericFunction own_loop(const char* name, int type);

}  // namespace shmtensor
