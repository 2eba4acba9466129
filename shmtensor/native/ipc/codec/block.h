// Blocks as Python objects, for messages.
#pragma once

#include "memory/ledger/block.h"
#include "memory/ledger/ledger.h"
#include "python.h"

namespace shmtensor {

// Address and size of an object's buffer; it keeps its memory as long as it lives. False: an exception is set.
inline bool find_buffer(PyObject* object, void** base, size_t* nbytes) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return false;
  *base = view.buf;
  *nbytes = static_cast<size_t>(view.len);
  PyBuffer_Release(&view);
  return true;
}

// An address inside the block of an array, a Block, or another object with a buffer.
inline bool find_address(PyObject* object, void** address) {
  if (PyArray_Check(object)) {
    *address = PyArray_DATA(reinterpret_cast<PyArrayObject*>(object));
    return true;
  }
  size_t nbytes;
  return find_buffer(object, address, &nbytes);
}

// The block of a handle, held and not yet acknowledged, as a Python object with the buffer protocol. New reference;
// nullptr: StaleHandle or ForeignHandle is set.
inline PyObject* receive_block(const Handle& handle) {
  void* base;
  size_t nbytes;
  return hold_block(handle, &base, &nbytes) ? new_block(base, nbytes, Origin::Received) : nullptr;
}

// A memoryview of part of a block; it keeps the block.
inline PyObject* slice(PyObject* block, size_t start, size_t nbytes) {
  PyObject* view = PyMemoryView_FromObject(block);
  if (!view) return nullptr;
  PyObject* result = PySequence_GetSlice(view, static_cast<Py_ssize_t>(start), static_cast<Py_ssize_t>(start + nbytes));
  Py_DECREF(view);
  return result;
}

}  // namespace shmtensor
