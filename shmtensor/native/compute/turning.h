// The triangles of matrices.
//
// Answers None where the case is rare or wrong: the plain form does it, or says what is wrong.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* triangle(PyObject*, PyObject* const* args, Py_ssize_t n);  // (x, diagonal, upper)

}  // namespace shmtensor
