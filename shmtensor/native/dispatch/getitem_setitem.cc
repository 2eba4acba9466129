// x[0, ..., 1:3] without NumPy: one pass over numbers, slices, None and `...` gives the sizes and strides of the view.
#include "kernels/arguments.h"
#include "kernels/index/advanced_indexing.h"
#include "kernels/index/indices.h"
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

// How many dimensions of x the parts index; -1 if a part is something else, or for two `...`.
int count_indexed_dims(PyObject* const* parts, Py_ssize_t count) {
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

// Sizes, strides and the first element of the view so far.
struct Selection {
  PyArrayObject* x;
  char* at;
  int dim = 0, nd = 0;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];

  bool add(npy_intp size, npy_intp stride) {
    if (nd >= NPY_MAXDIMS) return false;
    dims[nd] = size;
    strides[nd++] = stride;
    return true;
  }

  bool full_slices(int n) {
    for (; n > 0; --n, ++dim)
      if (!add(PyArray_DIM(x, dim), PyArray_STRIDE(x, dim))) return false;
    return true;
  }

  bool number(PyObject* p) {
    Py_ssize_t i = PyLong_AsSsize_t(p);
    if (i == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    const npy_intp size = PyArray_DIM(x, dim);
    if (i < -size || i >= size) return false;
    at += (i < 0 ? i + size : i) * PyArray_STRIDE(x, dim++);
    return true;
  }

  bool slice(PyObject* p) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(p, &start, &stop, &step) < 0) {
      PyErr_Clear();
      return false;
    }
    const npy_intp stride = PyArray_STRIDE(x, dim);
    const Py_ssize_t n = PySlice_AdjustIndices(PyArray_DIM(x, dim++), &start, &stop, step);
    if (n <= 0) return add(0, stride);
    at += start * stride;
    // for one element the step may overflow
    return add(n, static_cast<npy_intp>(static_cast<size_t>(step) * static_cast<size_t>(stride)));
  }

  bool part(PyObject* p, int ellipsis_dims) {
    if (PyLong_CheckExact(p)) return number(p);
    if (p == Py_None) return add(1, 0);
    return p == Py_Ellipsis ? full_slices(ellipsis_dims) : slice(p);
  }
};

}  // namespace

PyObject* basic(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "basic: (index, ...) is needed");
  PyObject* index = args[0];
  if (!PyTuple_CheckExact(index)) Py_RETURN_NONE;
  if (count_indexed_dims(PySequence_Fast_ITEMS(index), PyTuple_GET_SIZE(index)) < 0) Py_RETURN_NONE;
  return Py_NewRef(index);
}

PyObject* index_view(PyArrayObject* x, PyObject* index) {
  const bool several = PyTuple_CheckExact(index);
  PyObject* const* parts = several ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
  const int ellipsis_dims = PyArray_NDIM(x) - count_indexed_dims(parts, count);
  if (ellipsis_dims < 0 || ellipsis_dims > PyArray_NDIM(x)) return nullptr;
  Selection s;
  s.x = x;
  s.at = PyArray_BYTES(x);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!s.part(parts[i], ellipsis_dims)) return nullptr;
  if (!s.full_slices(PyArray_NDIM(x) - s.dim)) return nullptr;
  return view(x, s.nd, s.dims, s.strides, s.at);
}

// A view of x's memory with another shape, strides and offset from its first element, in bytes. The caller checks the
// bounds. Never None.
PyObject* as_strided(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyArray_Check(args[0])) return raise("TypeError", "as_strided: (array, shape, strides, offset) is needed");
  auto* x = reinterpret_cast<PyArrayObject*>(args[0]);
  const Py_ssize_t offset = PyLong_AsSsize_t(args[3]);
  if (offset == -1 && PyErr_Occurred()) return nullptr;
  PyArray_Dims shape = {nullptr, 0}, strides = {nullptr, 0};
  PyObject* result = nullptr;
  if (PyArray_IntpConverter(args[1], &shape) && PyArray_IntpConverter(args[2], &strides)) {
    result = shape.len == strides.len ? view(x, shape.len, shape.ptr, strides.ptr, PyArray_BYTES(x) + offset)
                                      : raise("ValueError", "as_strided: %d strides for %d sizes", strides.len, shape.len);
  }
  PyDimMem_FREE(shape.ptr);
  PyDimMem_FREE(strides.ptr);
  return result;
}

PyObject* assign(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) return raise("TypeError", "assign: (array, index, values) is needed");
  if (PyArray_CheckExact(args[0]) && PyArray_CheckExact(args[2])) {
    Ref part(index_view(reinterpret_cast<PyArrayObject*>(args[0]), args[1]));
    if (!part && PyErr_Occurred()) return nullptr;
    if (part && PyArray_ISWRITEABLE(part.array())) {
      if (PyArray_CopyInto(part.array(), reinterpret_cast<PyArrayObject*>(args[2])) < 0) return nullptr;
      Py_RETURN_NONE;
    }
    if (!part && (PyTuple_CheckExact(args[1]) || PyArray_CheckExact(args[1])) &&
        advanced_setitem(as_array(args[0]), args[1], as_array(args[2])))
      Py_RETURN_NONE;
  }
  const Ref index = private_index(args[1]);
  if (!index) return nullptr;
  // NumPy may follow the memory order of the values; which of several values for one place is kept must not depend on it.
  Ref in_order;
  if (PyArray_CheckExact(args[2]) && PyArray_NDIM(as_array(args[2])) > 1 && !PyArray_IS_C_CONTIGUOUS(as_array(args[2]))) {
    in_order = Ref(PyArray_NewCopy(as_array(args[2]), NPY_CORDER));
    if (!in_order) return nullptr;
  }
  if (PyObject_SetItem(args[0], index.get(), in_order ? in_order.get() : args[2]) < 0) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace shmtensor
