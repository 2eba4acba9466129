// CRC-32, as zip files have it.
#pragma once

#include "python.h"

namespace shmtensor {

// crc32(data, value, /) -> int or None
PyObject* crc32(PyObject*, PyObject* const* arguments, Py_ssize_t n);

}  // namespace shmtensor
