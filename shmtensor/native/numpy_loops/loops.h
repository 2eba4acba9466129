// Inner loops that replace NumPy's, and ufuncs that NumPy lacks.
#pragma once

#include "python.h"

namespace shmtensor {

// A ufunc's inner loop, and the kernel that it calls.
struct KernelLoop {
  PyUFuncGenericFunction function;  // nullptr: use NumPy's loop
  void* kernel;
};

// Looks up a loop by a ufunc's name and the type of its inputs.
KernelLoop find_loop(const char* name, int type);

// elementwise(name): a ufunc of float32 and float64, as `parallel` creates them, of a function that NumPy lacks.
PyObject* elementwise(PyObject*, PyObject* name);

}  // namespace shmtensor
