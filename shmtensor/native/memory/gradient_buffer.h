// GradientBuffer: the memory for the gradient of one leaf, and whether anything refers to it.
//
//   GradientBuffer  <----- refers to -----  Lease  <---base---  array  <---base---  views, memoryviews, DLPack, ...
//     free <-> lent                         one at a time       from take()
//
// Note [Leases]
// An optimizer, or a bucket of DistributedDataParallel, needs a leaf's gradient in its own block, in the same memory at
// every step. The memory may be written again only if nothing refers to the gradient of the previous step. The buffer
// knows this exactly, without guessing from reference counts: the only arrays over the memory come from take(), and each
// has a new Lease as its base. All users of the memory refer to that array: views, memoryviews, DLPack consumers, ctypes
// objects, locals, hooks, other threads. So the Lease ends with the last of them, and its end frees the buffer. While it
// exists, take() returns None, and the gradient is stored elsewhere.
//
//   state   entered by                                          result of take()
//   free    the constructor; the end of the Lease               an array; the buffer is lent
//   lent    take()                                              None
//   sent    lent, and its array is sent to another process      None, for ever: no Lease sees that process's reads
//
// - An error in a pullback, or in run_backward, leaves the buffer lent while the traceback exists, which refers to the
//   array; the next gradient is stored elsewhere, and copied.
// - A reference cycle with the array keeps it lent until the garbage collector runs: an extra copy, never a wrong value.
// - A forked child inherits the flag with the arrays; its buffers are in the parent's block, so optimizers and buckets
//   drop them in the child (forget_gradients).
// - Without a GIL the flag is the only state that threads share. take() sets it by one exchange, so only one thread gets
//   the array; the end of a Lease stores with release, which orders the reads of its users before the next writes.
//
// The garbage collector does not traverse NumPy arrays. A buffer refers only to an array, and a Lease only to its buffer,
// so no cycle through them could be found, and they are not traversed either.
#pragma once
#include "python.h"

namespace shmtensor {

extern PyTypeObject* gradient_buffer_type;

// A new array over the buffer's memory, to which nothing refers; None while it is lent; null with an exception set.
PyObject* take_gradient(PyObject* buffer);

// Whether x is an array that this buffer lent, with the buffer's address, shape, strides and dtype.
bool owns_gradient(PyObject* buffer, PyObject* x);

// Whether the caller's reference to x is the only one. Counts in C are exact: no interpreter frame lends references.
inline bool is_unique(PyObject* x) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyUnstable_Object_IsUniquelyReferenced(x);
#elif defined(Py_GIL_DISABLED)
  (void)x;
  return false;  // 3.13 has no function that counts in all threads: costs a copy
#else
  return Py_REFCNT(x) == 1;
#endif
}

// Whether only the caller, with its one reference to the array, refers to the array's memory, which is lent or its own.
bool is_seen_by_caller_alone(PyObject* array);

// The array is sent to another process: if its memory is lent, it stays so.
void mark_sent(PyArrayObject* array);

bool add_gradient_buffer(PyObject* module);

}  // namespace shmtensor
