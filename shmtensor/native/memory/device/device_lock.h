// DeviceLock: the lock of the allocator of GPU memory. As threading.RLock, but C can see whether a thread has it.
#pragma once

#include "python.h"

namespace shmtensor {

struct DeviceLock {
  PyObject_HEAD
  PyThread_type_lock lock;
  unsigned long owner;  // a thread; of meaning while `count` is not 0
  Py_ssize_t count;     // how often the owner has it; changed with the GIL only
};
extern PyTypeObject* device_lock_type;

bool add_device_lock(PyObject* module);
// malloc_fast_path.cc
bool add_malloc_fast_path(PyObject* module);
bool is_sole_owner_of_block(PyObject* owner);  // an Own whose block is in no message, and in no other array

}  // namespace shmtensor
