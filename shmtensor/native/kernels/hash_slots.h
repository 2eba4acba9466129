// The slots that CPython's dicts and sets visit.
#pragma once

#include "python.h"

namespace shmtensor {

// hash_slots(table, hashes, weights, is_set, limit, /) -> int
PyObject* hash_slots(PyObject*, PyObject* const* arguments, Py_ssize_t n);

}  // namespace shmtensor
