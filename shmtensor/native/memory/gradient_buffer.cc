// GradientBuffer and Lease. Note [Leases] in gradient_buffer.h.
#include "memory/gradient_buffer.h"

#include <atomic>
#include <new>

#include "methods.h"

namespace shmtensor {

PyTypeObject* gradient_buffer_type;

namespace {

PyTypeObject* lease_type;
PyObject* grad_buffer_name;

struct GradientBuffer {
  PyObject_HEAD
  PyArrayObject* array;  // never returned: address, layout and owner of the memory
  std::atomic<bool> lent;
  std::atomic<bool> sent;
};

struct Lease {
  PyObject_HEAD
  GradientBuffer* buffer;
};

GradientBuffer* as_buffer(PyObject* x) { return reinterpret_cast<GradientBuffer*>(x); }

void free_instance(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// ---------------------------------------------------------------- Lease

void lease_dealloc(PyObject* self) {
  GradientBuffer* buffer = reinterpret_cast<Lease*>(self)->buffer;
  free_instance(self);
  if (!buffer->sent.load(std::memory_order_relaxed)) buffer->lent.store(false, std::memory_order_release);
  Py_DECREF(buffer);
}

PyType_Slot lease_slots[] = {
    {Py_tp_doc, const_cast<char*>("Exists while an array refers to the memory of a GradientBuffer.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(lease_dealloc)},
    {0, nullptr},
};
PyType_Spec lease_spec = {"shmtensor.native.Lease", sizeof(Lease), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          lease_slots};

// ---------------------------------------------------------------- GradientBuffer

// An array over the memory of another, which does not keep it alive.
PyObject* same_layout(PyArrayObject* a) {
  PyArray_Descr* dtype = PyArray_DESCR(a);
  Py_INCREF(dtype);
  return PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(a), PyArray_DIMS(a), PyArray_STRIDES(a), PyArray_DATA(a),
                              NPY_ARRAY_WRITEABLE, nullptr);
}

PyObject* buffer_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* array;
  static const char* keywords[] = {"", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:GradientBuffer", const_cast<char**>(keywords), &array)) return nullptr;
  if (!PyArray_CheckExact(array))
    return raise("TypeError", "GradientBuffer: an array is needed: %s", Py_TYPE(array)->tp_name);
  PyArrayObject* a = reinterpret_cast<PyArrayObject*>(array);
  if (!PyArray_ISWRITEABLE(a)) return raise("ValueError", "GradientBuffer: the array is read-only");
  if (PyDataType_REFCHK(PyArray_DESCR(a))) return raise("TypeError", "GradientBuffer: the array holds Python objects");
  PyObject* view = PyArray_View(a, nullptr, nullptr);  // its shape cannot be changed by users
  if (!view) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) {
    Py_DECREF(view);
    return nullptr;
  }
  as_buffer(self)->array = reinterpret_cast<PyArrayObject*>(view);
  new (&as_buffer(self)->lent) std::atomic<bool>(false);
  new (&as_buffer(self)->sent) std::atomic<bool>(false);
  return self;
}

void buffer_dealloc(PyObject* self) {
  Py_XDECREF(as_buffer(self)->array);
  free_instance(self);
}

PyObject* take(PyObject* self, PyObject*) { return take_gradient(self); }

PyObject* owns(PyObject* self, PyObject* x) { return PyBool_FromLong(owns_gradient(self, x)); }

PyObject* get_lent(PyObject* self, void*) { return PyBool_FromLong(as_buffer(self)->lent.load()); }

PyObject* get_shape(PyObject* self, void*) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(as_buffer(self)->array), "shape");
}

PyObject* get_dtype(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(PyArray_DESCR(as_buffer(self)->array)));
}

PyObject* get_memory(PyObject* self, void*) {
  PyObject* owner = PyArray_BASE(as_buffer(self)->array);
  while (PyArray_Check(owner) && PyArray_BASE(reinterpret_cast<PyArrayObject*>(owner)))
    owner = PyArray_BASE(reinterpret_cast<PyArrayObject*>(owner));
  return Py_NewRef(owner);
}

PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(PyArray_DATA(as_buffer(self)->array)); }

PyObject* buffer_repr(PyObject* self) {
  PyObject* shape = get_shape(self, nullptr);
  if (!shape) return nullptr;
  PyObject* text =
      PyUnicode_FromFormat("<GradientBuffer: shape %R, dtype %S, %s>", shape, PyArray_DESCR(as_buffer(self)->array),
                           as_buffer(self)->lent.load() ? "lent" : "free");
  Py_DECREF(shape);
  return text;
}

PyGetSetDef buffer_getset[] = {
    {"lent", get_lent, nullptr, "whether this or another process refers to the memory through an array from take()",
     nullptr},
    {"shape", get_shape, nullptr, "of the gradient", nullptr},
    {"dtype", get_dtype, nullptr, "of the gradient", nullptr},
    {"memory", get_memory, nullptr, "the object that owns the memory", nullptr},
    {"address", get_address, nullptr, "the address of the gradient", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef buffer_methods[] = {
    {"take", take, METH_NOARGS, "An array over the memory if nothing refers to it, else None. Copies: none."},
    {"owns", owns, METH_O, "Whether an array came from take(), and still has the same layout."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot buffer_slots[] = {
    {Py_tp_doc, const_cast<char*>("GradientBuffer(array): lends the array's memory, for the gradient of one leaf, to\n"
                                  "one array at a time, of the same layout. Copies: none.")},
    {Py_tp_new, reinterpret_cast<void*>(buffer_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(buffer_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(buffer_repr)},
    {Py_tp_getset, buffer_getset},
    {Py_tp_methods, buffer_methods},
    {0, nullptr},
};
PyType_Spec buffer_spec = {"shmtensor.native.GradientBuffer", sizeof(GradientBuffer), 0, Py_TPFLAGS_DEFAULT, buffer_slots};

// in_grad_buffer(leaf, array)
PyObject* in_grad_buffer(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return raise("TypeError", "in_grad_buffer: (leaf, array) is needed");
  PyObject* buffer = PyObject_GetAttr(args[0], grad_buffer_name);
  if (!buffer) return nullptr;
  const bool is_owned = Py_TYPE(buffer) == gradient_buffer_type && owns_gradient(buffer, args[1]);
  Py_DECREF(buffer);
  return PyBool_FromLong(is_owned);
}

PyMethodDef functions[] = {
    method("in_grad_buffer", in_grad_buffer, "in_grad_buffer(leaf, array): whether leaf.grad_buffer owns the array."),
    {nullptr, nullptr, 0, nullptr},
};

bool add_type(PyObject* module, PyType_Spec* spec, PyTypeObject** out) {
  *out = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(spec));
  return *out && PyModule_AddType(module, *out) == 0;
}

Lease* lease_of(PyArrayObject* array) {
  PyObject* base = PyArray_BASE(array);
  return base && Py_TYPE(base) == lease_type ? reinterpret_cast<Lease*>(base) : nullptr;
}

}  // namespace

PyObject* take_gradient(PyObject* self) {
  GradientBuffer* buffer = as_buffer(self);
  if (buffer->lent.exchange(true, std::memory_order_acquire)) Py_RETURN_NONE;
  PyObject* lease = lease_type->tp_alloc(lease_type, 0);
  if (!lease) {
    buffer->lent.store(false, std::memory_order_release);
    return nullptr;
  }
  Py_INCREF(self);
  reinterpret_cast<Lease*>(lease)->buffer = buffer;  // from here on its end sets the buffer free
  PyObject* array = same_layout(buffer->array);
  if (!array) {
    Py_DECREF(lease);
    return nullptr;
  }
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), lease) < 0) Py_CLEAR(array);
  return array;
}

bool owns_gradient(PyObject* self, PyObject* x) {
  if (!PyArray_CheckExact(x)) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
  Lease* lease = lease_of(array);
  if (!lease || lease->buffer != as_buffer(self)) return false;
  PyArrayObject* layout = lease->buffer->array;  // a user may have given the array another shape
  return PyArray_DATA(array) == PyArray_DATA(layout) && PyArray_DESCR(array) == PyArray_DESCR(layout) &&
         PyArray_NDIM(array) == PyArray_NDIM(layout) &&
         PyArray_CompareLists(PyArray_DIMS(array), PyArray_DIMS(layout), PyArray_NDIM(layout)) &&
         PyArray_CompareLists(PyArray_STRIDES(array), PyArray_STRIDES(layout), PyArray_NDIM(layout));
}

bool is_seen_by_caller_alone(PyObject* x) {
  if (!PyArray_CheckExact(x) || !is_unique(x)) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
  if (!PyArray_ISWRITEABLE(array)) return false;
  Lease* lease = lease_of(array);
  return lease ? is_unique(reinterpret_cast<PyObject*>(lease)) : PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA);
}

void mark_sent(PyArrayObject* array) {
  for (PyObject* x = reinterpret_cast<PyObject*>(array); x;) {
    if (Py_TYPE(x) == lease_type) {
      reinterpret_cast<Lease*>(x)->buffer->sent.store(true, std::memory_order_relaxed);
      return;
    }
    if (PyArray_Check(x)) x = PyArray_BASE(reinterpret_cast<PyArrayObject*>(x));
    else x = PyMemoryView_Check(x) ? PyMemoryView_GET_BASE(x) : nullptr;
  }
}

bool add_gradient_buffer(PyObject* module) {
  grad_buffer_name = PyUnicode_InternFromString("grad_buffer");
  return grad_buffer_name && add_type(module, &buffer_spec, &gradient_buffer_type) &&
         add_type(module, &lease_spec, &lease_type) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace shmtensor
