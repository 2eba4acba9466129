// Block: the Python object that keeps a block of memory; it has the buffer protocol, its last
// reference frees or drops.
#pragma once

#include "python.h"

namespace shmtensor {

enum class Origin { Allocated, Received };
PyObject* new_block(void* base, size_t nbytes,
                    Origin origin);  // takes over the block, also when it fails
bool add_block(PyObject* module);
extern PyTypeObject* block_type;
void* block_base(PyObject* block);

}  // namespace shmtensor
