// Calling a kernel: the heap is open while it runs, and NumPy's scalars come back as 0-d arrays.
#pragma once
#include "compute/memory_format.h"
#include "half/half.h"
#include "python.h"

namespace shmtensor {

// What a row says of its kernel's calls whose arrays are not all in rows, or of 16 bits.
struct KernelPolicy {
  bool widens = false, formatted = false;
  Widening widening;
  Format format;
};
// args[-1] may be overwritten. `policy`: null for a kernel that takes the arrays as they are.
PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n, const KernelPolicy* policy = nullptr);

PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n);     // call(kernel, *arguments) -> arrays
PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n);  // the same, as Tensors without history
PyObject* write(PyObject*, PyObject* const* args, Py_ssize_t n);  // write(tensor, kernel, *arguments with out)

}  // namespace shmtensor
