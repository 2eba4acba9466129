// Size: a tensor's shape, as torch.Size: a tuple with numel(), whose slices and sums are Sizes, too.
#include "kernels/arguments.h"
#include "dispatch/autograd_node.h"

namespace shmtensor {
namespace {

PyTypeObject* size_type;

PyObject* start_size(Py_ssize_t n) {
  PyObject* size = size_type->tp_alloc(size_type, n);
  if (!size) return nullptr;
#if PY_VERSION_HEX >= 0x030e0000
  reinterpret_cast<PyTupleObject*>(size)->ob_hash = -1;  // not hashed yet
#endif
  PyObject_GC_UnTrack(size);  // it holds only ints
  return size;
}

// A tuple as a Size; another object as it is.
PyObject* size_of(Ref tuple) { return tuple && PyTuple_CheckExact(tuple.get()) ? as_size(tuple.get()) : tuple.release(); }

PyObject* size_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"", nullptr};
  PyObject* iterable = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Size", const_cast<char**>(names), &iterable)) return nullptr;
  Ref items(iterable ? PySequence_Tuple(iterable) : PyTuple_New(0));
  if (!items) return nullptr;
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  PyObject* size = start_size(n);
  for (Py_ssize_t i = 0; size && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    PyObject* integer = PyNumber_Index(item);
    if (!integer) {
      Py_DECREF(size);
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
      PyErr_Clear();
      return raise("TypeError", "Size: takes an iterable of 'int': item %zd is '%.100s'", i, Py_TYPE(item)->tp_name);
    }
    if (PyBool_Check(integer)) Py_SETREF(integer, PyLong_FromLong(integer == Py_True));
    PyTuple_SET_ITEM(size, i, integer);
  }
  return size;
}

PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return size_of(Ref(PyTuple_Type.tp_as_sequence->sq_concat(a, b)));
}

PyObject* size_concat(PyObject* a, PyObject* b) {
  if (PyTuple_Check(b)) return size_add(a, b);
  return raise("TypeError", "can only concatenate tuple (not %.100s) to Size", Py_TYPE(b)->tp_name);
}

PyObject* size_repeat(PyObject* self, Py_ssize_t n) {
  const Py_ssize_t length = PyTuple_GET_SIZE(self);
  if (n < 0) n = 0;
  if (length && n > PY_SSIZE_T_MAX / length) return PyErr_NoMemory();
  PyObject* size = start_size(length * n);
  for (Py_ssize_t i = 0; size && i < length * n; ++i)
    PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(self, i % length)));
  return size;
}

PyObject* size_subscript(PyObject* self, PyObject* index) {
  PyObject* result = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
  return PySlice_Check(index) ? size_of(Ref(result)) : result;
}

PyObject* size_repr(PyObject* self) {
  Ref list(PySequence_List(self));
  return list ? PyUnicode_FromFormat("Size(%R)", list.get()) : nullptr;
}

int size_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return PyTuple_Type.tp_traverse(self, visit, arg);
}

void size_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) Py_XDECREF(PyTuple_GET_ITEM(self, i));
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* numel(PyObject* self, PyObject*) {
  Ref product(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); ++i)
    product = Ref(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(self, i)));
  return product.release();
}

PyObject* reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(N)", size_type, PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self)));
}

PyMethodDef size_methods[] = {
    {"numel", numel, METH_NOARGS, "How many elements a tensor of this shape has: the product; 1 for ()."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot size_slots[] = {
    {Py_tp_doc, const_cast<char*>("Size(sizes=()): the shape of a tensor, a tuple of ints; slices of it and sums with "
                                  "tuples are Sizes, too.\n\nRaises:\n    TypeError: an item is not an integer.")},
    {Py_tp_new, reinterpret_cast<void*>(size_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(size_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(size_traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
    {Py_tp_methods, size_methods},
    {Py_nb_add, reinterpret_cast<void*>(size_add)},
    {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
    {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
    {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
    {0, nullptr},
};

PyType_Spec size_spec = {"shmtensor.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, size_slots};

}  // namespace

PyObject* shape_of(PyArrayObject* array) {
  const int nd = PyArray_NDIM(array);
  PyObject* size = start_size(nd);
  for (int i = 0; size && i < nd; ++i) {
    PyObject* n = PyLong_FromSsize_t(PyArray_DIM(array, i));
    if (!n) Py_CLEAR(size);
    else PyTuple_SET_ITEM(size, i, n);
  }
  return size;
}

PyObject* as_size(PyObject* shape) {
  const Py_ssize_t n = PyTuple_GET_SIZE(shape);
  PyObject* size = start_size(n);
  for (Py_ssize_t i = 0; size && i < n; ++i) PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(shape, i)));
  return size;
}

bool is_sizes(PyObject* x) { return PyTuple_CheckExact(x) || Py_TYPE(x) == size_type; }

int add_size(PyObject* module) {
  Ref bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  if (!bases) return -1;
  size_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&size_spec, bases.get()));
  if (!size_type) return -1;
  return PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type));
}

}  // namespace shmtensor
