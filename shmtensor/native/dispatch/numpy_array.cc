// Small functions on arrays, where NumPy's Python layer costs more than the work.
#include "dispatch/numpy_array.h"

#include "kernels/shape/memory_format.h"
#include "kernels/index/advanced_indexing.h"
#include "kernels/index/indices.h"
#include "dispatch/autograd_node.h"
#include "dispatch/device_array.h"
#include "memory/ledger/block.h"
#include "memory/gradient_buffer.h"
#include "dispatch/views.h"

namespace shmtensor {

// x[index] by numbers and slices is a view, and never a NumPy scalar: x[1] of a vector is a 0-d view.
PyObject* item(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyArray_Check(args[0])) return raise("TypeError", "item: (array, index) is needed");
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[0]);
  PyObject* index = args[1];
  if (PyArray_CheckExact(args[0])) {
    PyObject* part = index_view(x, index);
    if (part || PyErr_Occurred()) return part;
  }
  if (PyArray_CheckExact(args[0]) && (PyTuple_CheckExact(index) || PyArray_CheckExact(index))) {
    Ref out = advanced_getitem(x, index);
    if (out || PyErr_Occurred()) return out.release();
  }
  const Ref copy = private_index(index);
  index = copy.get();
  PyObject* result = index ? PyObject_GetItem(args[0], index) : nullptr;
  if (!result || PyArray_Check(result) || !PyArray_CheckScalar(result)) return result;
  Py_DECREF(result);
  PyObject* with_ellipsis;
  if (PyTuple_Check(index)) {
    PyObject* dots = PyTuple_Pack(1, Py_Ellipsis);
    with_ellipsis = dots ? PySequence_Concat(index, dots) : nullptr;
    Py_XDECREF(dots);
  } else {
    with_ellipsis = PyTuple_Pack(2, index, Py_Ellipsis);
  }
  if (!with_ellipsis) return nullptr;
  result = PyObject_GetItem(args[0], with_ellipsis);
  Py_DECREF(with_ellipsis);
  return result;
}

// A view in a broadcast shape; -1 keeps a size. Read-only, because its elements share memory.
PyObject* expand(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyArray_Check(args[0])) return raise("TypeError", "expand: (array, shape) is needed");
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[0]);
  // Before NumPy 2.4 None was () with a warning.
  if (args[1] == Py_None) return raise("TypeError", "expand: sizes are needed, not None");
  PyArray_Dims shape = {nullptr, 0};
  if (!PyArray_IntpConverter(args[1], &shape)) return nullptr;
  npy_intp strides[NPY_MAXDIMS];
  int extra = shape.len - PyArray_NDIM(x);
  PyObject* view = nullptr;
  if (extra < 0) {
    raise("RuntimeError", "expand: fewer dimensions than the tensor has: %d, it has %d", shape.len, PyArray_NDIM(x));
    goto done;
  }
  for (int i = 0; i < shape.len; ++i) {
    npy_intp& size = shape.ptr[i];
    if (i < extra) {
      if (size < 0) {
        raise("RuntimeError", "expand: -1 is not allowed in a leading, new dimension: dimension %d", i);
        goto done;
      }
      strides[i] = 0;
      continue;
    }
    npy_intp old = PyArray_DIM(x, i - extra);
    if (size == -1) size = old;
    if (size != old && old != 1) {
      raise("RuntimeError", "expand: only dimensions of size 1 can be expanded: dimension %d has size %zd, not %zd",
            i - extra, old, size);
      goto done;
    }
    strides[i] = size == old ? PyArray_STRIDE(x, i - extra) : 0;
  }
  {
    bool is_same_size = PyArray_MultiplyList(shape.ptr, shape.len) == PyArray_SIZE(x);
    PyArray_Descr* dtype = PyArray_DESCR(x);
    Py_INCREF(dtype);
    view = PyArray_NewFromDescr(&PyArray_Type, dtype, shape.len, shape.ptr, strides, PyArray_DATA(x),
                                is_same_size ? PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE : 0, nullptr);
  }
  if (view) {
    Py_INCREF(x);
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(view), args[0]) < 0) Py_CLEAR(view);
  }
done:
  PyDimMem_FREE(shape.ptr);
  return view;
}

// Has a device's array the dtype and shape of the edge? False, perhaps with an exception set.
static bool fits_edge(PyObject* g, Edge* edge) {
  if (!edge->dtype) return true;
  Ref dtype = array_dtype(g), shape = array_shape(g);
  if (!dtype || !shape || dtype.get() != reinterpret_cast<PyObject*>(edge->dtype)) return false;
  if (PyTuple_GET_SIZE(shape.get()) != edge->ndim) return false;
  for (int i = 0; i < edge->ndim; ++i)
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(shape.get(), i)) != edge->sizes[i]) return false;
  return true;
}

// The gradient itself if its dtype and shape are the edge's (or the edge has none), else None.
PyObject* sum_to_size(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyObject_TypeCheck(args[1], edge_type))
    return raise("TypeError", "sum_to_size: (gradient, edge) is needed");
  PyObject* g = args[0];
  if (is_tensor(g)) g = reinterpret_cast<TensorBase*>(g)->array;
  Edge* edge = reinterpret_cast<Edge*>(args[1]);
  if (is_device_array(g)) {
    const bool fits = fits_edge(g, edge);
    return PyErr_Occurred() ? nullptr : Py_NewRef(fits ? args[0] : Py_None);
  }
  if (!PyArray_CheckExact(g)) Py_RETURN_NONE;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(g);
  if (edge->dtype && (PyArray_DESCR(array) != edge->dtype || PyArray_NDIM(array) != edge->ndim ||
                      !PyArray_CompareLists(PyArray_DIMS(array), edge->sizes, edge->ndim)))
    Py_RETURN_NONE;
  return Py_NewRef(args[0]);
}

// is_only_owner(tensor): has each object, from the tensor's array down to the owner of the memory, one reference? The
// tensor's slot refers to the array, and no frame of the caller does.
PyObject* is_only_owner(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) Py_RETURN_FALSE;
  PyObject* x = reinterpret_cast<TensorBase*>(tensor)->array;
  while (x && is_unique(x)) {
    if (PyArray_Check(x)) {
      PyObject* base = PyArray_BASE(as_array(x));
      if (!base) return PyBool_FromLong(PyArray_CHKFLAGS(as_array(x), NPY_ARRAY_OWNDATA));
      x = base;
    } else if (PyMemoryView_Check(x)) {
      // views of one memoryview share its managed buffer, which holds the only reference to the viewed object
      if (!is_unique(reinterpret_cast<PyObject*>(reinterpret_cast<PyMemoryViewObject*>(x)->mbuf))) break;
      x = PyMemoryView_GET_BASE(x);
    } else {
      // a mapped file, for example, may have users that do not refer to this object
      return PyBool_FromLong(PyBytes_CheckExact(x) || Py_TYPE(x) == block_type);
    }
  }
  Py_RETURN_FALSE;
}

}  // namespace shmtensor
