// Checks of an unpickled dtype before an array of it is created over packed bytes.
#pragma once

#include "python.h"

namespace shmtensor::packed {

// Whether its items stay within their size and contain no objects, down to the fields. NumPy does not check a pickled
// dtype, whose strings may have an invalid length and whose fields may be outside the item. Sets no exception.
bool is_sound(PyArray_Descr* descr, int depth = 0);

}  // namespace shmtensor::packed
