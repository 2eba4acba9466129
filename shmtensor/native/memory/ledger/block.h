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
size_t block_nbytes(PyObject* block);

// ---- of the Python face: bind.cc, bind_statistics.cc, bind_guest.cc, survey.cc
using Arguments = PyObject* const*;
bool count_is(const char* name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most);
extern PyMethodDef figure_functions[], guest_functions[], survey_functions[];
struct Handle;
bool handle_of(const char* where, PyObject* o, Handle* h);  // of its 72 bytes

}  // namespace shmtensor
