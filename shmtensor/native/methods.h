// Functions of the module and of its types: their entries in tables, their arguments, and lists as results.
#pragma once

#include "python.h"

namespace shmtensor {

using FastFunction = PyObject*(PyObject*, PyObject* const* args, Py_ssize_t n);  // METH_FASTCALL

// The entry of a function in a table.
template <class F>
PyMethodDef method(const char* name, F* function, const char* doc, int flags) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), flags, doc};
}
template <class Self>
PyMethodDef method(const char* name, PyObject* (*function)(Self*, PyObject* const*, Py_ssize_t), const char* doc) {
  return method(name, function, doc, METH_FASTCALL);
}

// True if n arguments are from `least` to `most` (-1: exactly `least`), else false with TypeError.
bool takes(const char* where, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most = -1);

// Seconds, at least 0; None becomes -1: wait for ever. False: an exception is set.
bool read_timeout(PyObject* object, double* seconds);

// Appends a new reference, which it steals, to a list. If either is null or that fails, the list becomes null.
void append(PyObject** list, PyObject* item);

}  // namespace shmtensor
