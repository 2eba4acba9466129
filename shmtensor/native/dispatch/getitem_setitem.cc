// x[0, ..., 1:3] without NumPy: numbers, slices, None and `...` in one pass over the parts, the
// view from the sizes and strides that they leave.
#include "kernels/arguments.h"
#include "dispatch/autograd_node.h"
#include "dispatch/views.h"

namespace shmtensor {
namespace {

bool is_bound(PyObject* p) { return p == Py_None || PyLong_CheckExact(p); }

bool is_plain_slice(PyObject* p) {
  if (!PySlice_Check(p)) return false;
  const PySliceObject* s = reinterpret_cast<PySliceObject*>(p);
  return is_bound(s->start) && is_bound(s->stop) && is_bound(s->step);
}

// How many dimensions of x the parts name; -1: something else is among them, or two `...`.
int named(PyObject* const* parts, Py_ssize_t count) {
  int dims = 0;
  bool dots = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* p = parts[i];
    if (PyLong_CheckExact(p) || is_plain_slice(p)) {
      ++dims;
    } else if (p == Py_Ellipsis) {
      if (dots) return -1;
      dots = true;
    } else if (p != Py_None) {
      return -1;
    }
  }
  return dims;
}

// Sizes, strides and the first element of what has been selected so far.
struct Selection {
  PyArrayObject* x;
  char* at;
  int from = 0, nd = 0;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];

  bool room() const { return nd < NPY_MAXDIMS; }

  bool add(npy_intp size, npy_intp stride) {
    if (!room()) return false;
    dims[nd] = size;
    strides[nd++] = stride;
    return true;
  }

  bool whole(int n) {
    for (; n > 0; --n, ++from)
      if (!add(PyArray_DIM(x, from), PyArray_STRIDE(x, from))) return false;
    return true;
  }

  bool number(PyObject* p) {
    Py_ssize_t i = PyLong_AsSsize_t(p);
    if (i == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    const npy_intp size = PyArray_DIM(x, from);
    if (i < -size || i >= size) return false;
    at += (i < 0 ? i + size : i) * PyArray_STRIDE(x, from++);
    return true;
  }

  bool slice(PyObject* p) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(p, &start, &stop, &step) < 0) {
      PyErr_Clear();
      return false;
    }
    const npy_intp stride = PyArray_STRIDE(x, from);
    const Py_ssize_t n = PySlice_AdjustIndices(PyArray_DIM(x, from++), &start, &stop, step);
    if (n <= 0) return add(0, stride);
    at += start * stride;
    // of one element the step may be larger than any place
    return add(n, static_cast<npy_intp>(static_cast<size_t>(step) * static_cast<size_t>(stride)));
  }

  bool one(PyObject* p, int skipped) {
    if (PyLong_CheckExact(p)) return number(p);
    if (p == Py_None) return add(1, 0);
    return p == Py_Ellipsis ? whole(skipped) : slice(p);
  }
};

}  // namespace

PyObject* basic(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "basic: (index, ...) is needed");
  PyObject* index = args[0];
  if (!PyTuple_CheckExact(index)) Py_RETURN_NONE;
  if (named(PySequence_Fast_ITEMS(index), PyTuple_GET_SIZE(index)) < 0) Py_RETURN_NONE;
  return Py_NewRef(index);
}

PyObject* selected(PyArrayObject* x, PyObject* index) {
  const bool several = PyTuple_CheckExact(index);
  PyObject* const* parts = several ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
  const int skipped = PyArray_NDIM(x) - named(parts, count);
  if (skipped < 0 || skipped > PyArray_NDIM(x)) return nullptr;
  Selection s;
  s.x = x;
  s.at = PyArray_BYTES(x);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!s.one(parts[i], skipped)) return nullptr;
  if (!s.whole(PyArray_NDIM(x) - s.from)) return nullptr;
  return view(x, s.nd, s.dims, s.strides, s.at);
}

// Another shape and strides over x's memory, offset behind its first element: all in bytes, and within the memory, as the
// caller knows. Never None.
PyObject* as_strided(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyArray_Check(args[0])) return raise("TypeError", "as_strided: (array, shape, strides, offset) is needed");
  auto* x = reinterpret_cast<PyArrayObject*>(args[0]);
  const Py_ssize_t offset = PyLong_AsSsize_t(args[3]);
  if (offset == -1 && PyErr_Occurred()) return nullptr;
  PyArray_Dims shape = {nullptr, 0}, strides = {nullptr, 0};
  PyObject* made = nullptr;
  if (PyArray_IntpConverter(args[1], &shape) && PyArray_IntpConverter(args[2], &strides)) {
    made = shape.len == strides.len
               ? view(x, shape.len, shape.ptr, strides.ptr, PyArray_BYTES(x) + offset)
               : raise("ValueError", "as_strided: as many strides as sizes are needed: %d, %d", strides.len, shape.len);
  }
  PyDimMem_FREE(shape.ptr);
  PyDimMem_FREE(strides.ptr);
  return made;
}

PyObject* assign(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) return raise("TypeError", "assign: (array, index, values) is needed");
  if (PyArray_CheckExact(args[0]) && PyArray_CheckExact(args[2])) {
    Ref part(selected(reinterpret_cast<PyArrayObject*>(args[0]), args[1]));
    if (!part && PyErr_Occurred()) return nullptr;
    if (part && PyArray_ISWRITEABLE(part.array())) {
      if (PyArray_CopyInto(part.array(), reinterpret_cast<PyArrayObject*>(args[2])) < 0) return nullptr;
      Py_RETURN_NONE;
    }
  }
  if (PyObject_SetItem(args[0], args[1], args[2]) < 0) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace shmtensor
