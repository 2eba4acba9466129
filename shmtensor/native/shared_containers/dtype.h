// What a dtype that a pickle gave has to be before an array of it may lie in the packed bytes.
#pragma once

#include "python.h"

namespace shmtensor::packed {

// Whether an item of it stays within its size: NumPy believes a pickled dtype, whose strings may then be of a broken
// length and whose fields may lie outside the item. Holds no objects, down to its fields. Sets no exception.
bool is_sound(PyArray_Descr* descr, int depth = 0);

}  // namespace shmtensor::packed
