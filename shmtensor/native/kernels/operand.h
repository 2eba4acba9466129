// Operands of a layer's kernel: contiguous arrays of one floating-point dtype, or None.
#pragma once

#include <utility>

#include "kernels/arguments.h"

namespace shmtensor {

// A contiguous array of a given dtype; null stands for None.
struct LayerOperand {
  Ref array;
  bool read(PyObject* p, int type, int64_t size) {
    if (p == Py_None) return size < 0;
    if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != type) return false;
    if (size >= 0 && PyArray_SIZE(as_array(p)) != size) return false;
    array = contiguous(as_array(p));
    return static_cast<bool>(array);
  }
  template <class T>
  const T* as() const {
    return array ? data<T>(array) : nullptr;
  }
};

inline bool read_optional(LayerOperand* o, PyObject* p, int type, int64_t size) {
  return p == Py_None || o->read(p, type, size);
}

// A non-empty float32 or float64 ndarray (no subclass), or nullptr.
inline PyArrayObject* real_array(PyObject* p) {
  if (!PyArray_CheckExact(p)) return nullptr;
  const int type = PyArray_TYPE(as_array(p));
  const bool fits = (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_SIZE(as_array(p));
  return fits ? as_array(p) : nullptr;
}

inline bool parse_long(PyObject* p, long* out) {
  *out = PyLong_CheckExact(p) ? PyLong_AsLong(p) : -1;
  PyErr_Clear();
  return *out >= 0;
}

// Writes a tuple of nd ints, each at least `min`, to the last nd of three numbers; the first 3 - nd become `fill`.
inline bool parse_longs(PyObject* p, int nd, int64_t fill, int64_t min, int64_t* out) {
  if (!PyTuple_Check(p) || PyTuple_GET_SIZE(p) != nd) return false;
  for (int i = 0; i < 3 - nd; ++i) out[i] = fill;
  for (int i = 0; i < nd; ++i) {
    PyObject* item = PyTuple_GET_ITEM(p, i);
    const Py_ssize_t n = PyLong_CheckExact(item) ? PyLong_AsSsize_t(item) : -1;
    if (n < min) {
      PyErr_Clear();
      return false;
    }
    out[3 - nd + i] = n;
  }
  return true;
}

inline PyObject* pack_tuple3(Ref a, Ref b, Ref c) {
  return a && b && c ? PyTuple_Pack(3, a.get(), b.get(), c.get()) : nullptr;
}

}  // namespace shmtensor
