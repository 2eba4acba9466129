// GradientBuffer: the memory where the gradient of one leaf belongs, and whether anybody sees it.
//
//   GradientBuffer  <----- refers to -----  Lease  <---base---  array  <---base---  views, memoryviews, DLPack, ...
//     free <-> lent                         one at a time       from take()
//
// Note [Leases]
// An optimizer, or a bucket of DistributedDataParallel, wants a leaf's gradient in a block of its own (its home), and
// every step the same memory again. It may be written again only if nobody sees the gradient of a step before. That is
// a fact here, and no guess from counts of references: the only arrays over the memory come from take(), and each has a
// new Lease as its base. Whatever sees the memory by way of the array refers to it: views, memoryviews, DLPack
// consumers, ctypes objects, locals, hooks, other threads. So the Lease ends when the last of them does, and its end
// sets the buffer free. While it lives, take() gives None, and the gradient goes elsewhere.
//
//   state   what leads there                                    what take() gives
//   free    the constructor; the end of the Lease               an array; the buffer is lent
//   lent    take()                                              None
//   sent    lent, and its array goes to another process         None, for ever: no Lease sees who reads there
//
// - An error in a pullback, or in the walk, leaves the buffer lent until the traceback is gone, which refers to the
//   array; the next gradient then lies elsewhere, and is copied.
// - A cycle that holds the array keeps it lent until the garbage collector comes by: one copy more, never a wrong
//   value.
// - A forked child inherits the flag with the arrays; its buffers belong to the parent's block, so optimizers and
//   buckets drop them in the child (forget_gradients).
// - Without a GIL the flag is the only state that threads share. take() sets it by one exchange, so that one thread
//   alone gets the array; the end of a Lease stores with release, which orders what its holders read before what the
//   next one writes.
//
// The garbage collector does not traverse NumPy arrays, and a buffer refers to nothing but an array, a Lease to nothing
// but its buffer: no cycle through them could be found, so it does not traverse them either.
#pragma once
#include "python.h"

namespace shmtensor {

extern PyTypeObject* gradient_buffer_type;

// A new array over the buffer's memory, which nobody sees; None while it is lent; null with an exception set.
PyObject* take_gradient(PyObject* buffer);

// Is x an array that this buffer lent, still of the buffer's place, shape, strides and dtype?
bool owns_gradient(PyObject* buffer, PyObject* x);

// Is the caller's reference to x the only one? Counts in C are exact, as no interpreter frame lends references there.
inline bool is_unique(PyObject* x) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyUnstable_Object_IsUniquelyReferenced(x);
#elif defined(Py_GIL_DISABLED)
  (void)x;
  return false;  // 3.13 has no function that asks all threads' counts: a copy more
#else
  return Py_REFCNT(x) == 1;
#endif
}

// Does nobody but the caller, with its one reference to the array, see the array's memory? It is lent, or its own.
bool is_seen_by_caller_alone(PyObject* array);

// The array goes to another process: if its memory is lent, it stays so.
void mark_sent(PyArrayObject* array);

bool add_gradient_buffer(PyObject* module);

}  // namespace shmtensor
