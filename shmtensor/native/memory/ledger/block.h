// Block: the Python object that keeps a block of memory, with the buffer protocol.
#pragma once

#include "methods.h"

namespace shmtensor {

enum class Origin { Allocated, Received };
PyObject* new_block(void* base, size_t nbytes, Origin origin);  // owns the block, even if it fails
bool add_block(PyObject* module);
extern PyTypeObject* block_type;
void* block_base(PyObject* block);
size_t block_nbytes(PyObject* block);
// Whether it is shared memory that another process made, or a parent before it forked this one. No lock.
bool is_of_another_process(const void* p);

// ---- Python bindings: bind.cc, bind_statistics.cc, bind_guest.cc, survey.cc
using Arguments = PyObject* const*;
extern PyMethodDef device_functions[], figure_functions[], guest_functions[], malloc_functions[], survey_functions[],
    timeline_functions[];
struct Handle;
bool handle_of(const char* where, PyObject* o, Handle* h);  // of its 72 bytes

}  // namespace shmtensor
