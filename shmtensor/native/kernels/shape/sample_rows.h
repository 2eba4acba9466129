// copy_to_rows: a sample's new arrays become rows of a batch.
#pragma once

#include "python.h"

namespace shmtensor {

PyObject* copy_to_rows(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
