// Sums of whole numbers, products, and counts of what is not 0.
#pragma once

#include "kernels/arguments.h"

namespace shmtensor {

enum class Tally { Sum, Product, Count };

// Over the marked dimensions, in any layout: int64 for whole numbers and counts, else x's dtype.
// `goes` is changed. None for dtypes without a kernel (complex, and the sum of floating numbers).
PyObject* tally_dims(PyArrayObject* x, bool* goes, bool keep, Tally what);

PyObject* prod(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* count(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
