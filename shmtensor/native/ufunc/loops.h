// Loops of our own in place of NumPy's, and ufuncs that NumPy has not.
#pragma once

#include "python.h"

namespace shmtensor {

// A ufunc's loop, and the kernel that it calls.
struct OwnLoop {
  PyUFuncGenericFunction function;  // nullptr: NumPy's will do
  void* kernel;
};

// For a ufunc's name and the type of its inputs.
OwnLoop own_loop(const char* name, int type);

// elementwise(name): a ufunc of float32 and float64, as `parallel` makes them, of a function that NumPy
// has not.
PyObject* elementwise(PyObject*, PyObject* name);

}  // namespace shmtensor
