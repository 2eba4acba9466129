// Operands of a layer's kernel: contiguous, of one floating dtype, some of them None.
#pragma once

#include <utility>

#include "kernels/arguments.h"

namespace shmtensor {

// Contiguous and of the type; `given` null stands for None.
struct LayerOperand {
  Ref held;
  bool read(PyObject* p, int type, int64_t size) {
    if (p == Py_None) return size < 0;
    if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != type) return false;
    if (size >= 0 && PyArray_SIZE(as_array(p)) != size) return false;
    held = contiguous(as_array(p));
    return static_cast<bool>(held);
  }
  template <class T>
  const T* as() const {
    return held ? data<T>(held) : nullptr;
  }
};

inline bool optional(LayerOperand* o, PyObject* p, int type, int64_t size) {
  return p == Py_None || o->read(p, type, size);
}

// An exact float32 or float64 array with elements, or null.
inline PyArrayObject* real(PyObject* p) {
  if (!PyArray_CheckExact(p)) return nullptr;
  const int type = PyArray_TYPE(as_array(p));
  const bool fits = (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_SIZE(as_array(p));
  return fits ? as_array(p) : nullptr;
}

inline bool number(PyObject* p, long* out) {
  *out = PyLong_CheckExact(p) ? PyLong_AsLong(p) : -1;
  PyErr_Clear();
  return *out >= 0;
}

// A tuple of nd exact ints from `lowest` up, into the last places of three; the first ones get `other`.
inline bool numbers(PyObject* p, int nd, int64_t other, int64_t lowest, int64_t* out) {
  if (!PyTuple_Check(p) || PyTuple_GET_SIZE(p) != nd) return false;
  for (int i = 0; i < 3 - nd; ++i) out[i] = other;
  for (int i = 0; i < nd; ++i) {
    PyObject* item = PyTuple_GET_ITEM(p, i);
    const Py_ssize_t n = PyLong_CheckExact(item) ? PyLong_AsSsize_t(item) : -1;
    if (n < lowest) {
      PyErr_Clear();
      return false;
    }
    out[3 - nd + i] = n;
  }
  return true;
}

inline PyObject* three(Ref a, Ref b, Ref c) {
  return a && b && c ? PyTuple_Pack(3, a.get(), b.get(), c.get()) : nullptr;
}

}  // namespace shmtensor
