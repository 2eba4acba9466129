// Blocks as Python objects, for messages: what a reader gets of a handle.
#pragma once

#include "memory/block.h"
#include "memory/ledger.h"
#include "python.h"

namespace shmtensor {

// The block of a handle, held and not yet acknowledged, as a Python object with the buffer protocol. New reference;
// nullptr: StaleHandle or ForeignHandle is set.
inline PyObject* receive_block(const Handle& handle) {
  void* base;
  size_t nbytes;
  return hold_block(handle, &base, &nbytes) ? new_block(base, nbytes, Origin::Received) : nullptr;
}

// A memoryview of part of a block; it keeps the block.
inline PyObject* slice(PyObject* block, size_t start, size_t nbytes) {
  PyObject* whole = PyMemoryView_FromObject(block);
  if (!whole) return nullptr;
  PyObject* part = PySequence_GetSlice(whole, static_cast<Py_ssize_t>(start), static_cast<Py_ssize_t>(start + nbytes));
  Py_DECREF(whole);
  return part;
}

}  // namespace shmtensor
