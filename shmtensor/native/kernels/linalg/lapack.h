// LU and LDL factors of batches of matrices, by the LAPACK in the private BLAS.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* lu_factor(PyObject*, PyObject* x);  // (LU, pivots, info)
PyObject* ldl_factor(PyObject*, PyObject* const* args, Py_ssize_t n);  // (LD, pivots, info)
PyObject* ldl_solve(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
