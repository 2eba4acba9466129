// Python and NumPy, included the same way by every source file of the extension.
//
// NumPy's function table is one symbol for the whole extension; module.cc alone defines it (SHMTENSOR_IMPORT_ARRAY).
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL shmtensor_numpy_api
#define PY_UFUNC_UNIQUE_SYMBOL shmtensor_numpy_ufunc_api
#ifndef SHMTENSOR_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include "gil.h"

namespace shmtensor {

// Each folder of the extension adds its functions and types to the module. They return 0, or -1 with an exception set.
int add_memory(PyObject* module);   // memory/: domain, heap, ledger
int add_sync(PyObject* module);     // ipc/: futexes, channels, locks, process groups
int add_compute(PyObject* module);  // kernels/: thread pool, BLAS, fused kernels
int add_half(PyObject* module);     // half/: bfloat16, and computing with 16-bit floats
int add_call(PyObject* module);     // dispatch/: what the op dispatch needs in C
int add_profiler(PyObject* module);  // profiler/: the events of profiles
int add_packed(PyObject* module);   // shared_containers/: lists and dictionaries in shared memory

// What a function returns that has set an exception: null, or false.
struct Raised {
  template <class T>
  operator T*() const {
    return nullptr;
  }
  operator bool() const { return false; }
};

// Sets an exception of shmtensor.errors (or a built-in one) by name, with a printf-style message.
Raised raise(const char* name, const char* format, ...) __attribute__((format(printf, 2, 3)));

// A memoryview of a buffer through which nothing can be written (ipc/codec/bind_array_layout.cc).
PyObject* readonly_view(PyObject* buffer);

}  // namespace shmtensor
