// adam_ and sgd_: an optimizer's step over flat arrays.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* adam_(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* sgd_(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
