// TensorBase: the slots of Tensor.
#include "kernels/arguments.h"
#include "kernels/dtype_object.h"
#include "dispatch/device_array.h"
#include "dispatch/function_base.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

Version* frozen;

namespace {

PyObject* inferring_variable;
Py_ssize_t inferring_anywhere;  // `inference_mode` blocks that are open in any thread

// Note [Free list of tensors]
// Programs create and free tensors of the plain class by the thousand, so a free list keeps the memory of the last few,
// as CPython does for tuples and floats. Memory in the list is not an object: it is not tracked, and has no references.
constexpr int kMaxFree = 64;
TensorBase* free_list[kMaxFree];
int n_free;

__attribute__((hot)) PyObject* start_tensor(PyTypeObject* type, PyObject* array) {
  TensorBase* tensor;
  bool is_reused = type == tensor_type && n_free;
  if (is_reused) PyObject_Init(reinterpret_cast<PyObject*>(tensor = free_list[--n_free]), type);
  else tensor = reinterpret_cast<TensorBase*>(type->tp_alloc(type, 0));
  if (!tensor) return nullptr;
  tensor->array = Py_NewRef(array);
  tensor->node = Py_NewRef(Py_None);
  tensor->version = Py_NewRef(inferring_anywhere && inferring() ? reinterpret_cast<PyObject*>(frozen) : Py_None);
  tensor->base = Py_NewRef(Py_None);
  tensor->accumulate_grad = Py_NewRef(Py_None);
  if (is_reused) PyObject_GC_Track(reinterpret_cast<PyObject*>(tensor));
  return reinterpret_cast<PyObject*>(tensor);
}

PyObject* base_new(PyTypeObject* type, PyObject*, PyObject*) { return start_tensor(type, Py_None); }

__attribute__((hot)) void base_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, base_dealloc) if (reinterpret_cast<TensorBase*>(self)->weak) PyObject_ClearWeakRefs(self);
  clear<TensorBase>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (type == tensor_type && n_free < kMaxFree) {
    free_list[n_free++] = reinterpret_cast<TensorBase*>(self);
    Py_DECREF(type);
  } else {
    untrack_and_free(self);
  }
  Py_TRASHCAN_END
}

// The buffer of the array, so that read-only memory stays read-only. A tensor that requires grad has none: NumPy then
// calls __array__, which explains the error.
int base_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(self);
  for (TensorBase* t = tensor;; t = reinterpret_cast<TensorBase*>(PyTuple_GET_ITEM(t->base, 0))) {
    if (t->node != Py_None) {
      view->obj = nullptr;
      raise("BufferError", "buffer: the tensor requires grad: use detach()");
      return -1;
    }
    if (!PyTuple_CheckExact(t->base)) break;
  }
  return PyObject_GetBuffer(tensor->array, view, flags);
}

PyObject* base_shape(PyObject* self, void*) {
  PyObject* array = reinterpret_cast<TensorBase*>(self)->array;
  if (PyArray_Check(array)) return shape_of(reinterpret_cast<PyArrayObject*>(array));
  if (is_device_array(array)) {
    Ref shape = array_shape(array);
    return shape ? as_size(shape.get()) : nullptr;
  }
  Ref property(PyObject_GetAttrString(self, "array"));  // of a subclass that overrides `array`
  return property ? PyObject_GetAttrString(property.get(), "shape") : nullptr;
}

PyObject* base_dtype(PyObject* self, void*) {
  PyObject* array = reinterpret_cast<TensorBase*>(self)->array;
  if (PyArray_Check(array)) return dtype_object(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(array)));
  Ref property(is_device_array(array) ? Py_NewRef(array) : PyObject_GetAttrString(self, "array"));
  Ref dtype(property ? PyObject_GetAttrString(property.get(), "dtype") : nullptr);
  if (!dtype || !PyArray_DescrCheck(dtype.get())) return dtype.release();
  return dtype_object(reinterpret_cast<PyArray_Descr*>(dtype.get()));
}

PyGetSetDef base_getset[] = {
    {"dtype", base_dtype, nullptr, "The type of its elements.", nullptr},
    {"shape", base_shape, nullptr, "The sizes of the dimensions, a Size.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef base_members[] = {
    {"array", T_OBJECT_EX, offsetof(TensorBase, array), 0, "the memory"},
    {"node", T_OBJECT_EX, offsetof(TensorBase, node), 0, "its node in the graph, or None"},
    {"version", T_OBJECT_EX, offsetof(TensorBase, version), 0, "counter of in-place writes, or None"},
    {"base", T_OBJECT_EX, offsetof(TensorBase, base), 0, "(parent, version count, row, attributes)"},
    {"accumulate_grad", T_OBJECT_EX, offsetof(TensorBase, accumulate_grad), 0, "owner of .grad, or None"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorBase, weak), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorBase, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot base_slots[] = {
    {Py_tp_doc, const_cast<char*>("The slots of Tensor.")},
    {Py_tp_new, reinterpret_cast<void*>(base_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(base_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<TensorBase>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<TensorBase>)},
    {Py_tp_members, base_members},
    {Py_tp_getset, base_getset},
    {Py_bf_getbuffer, reinterpret_cast<void*>(base_getbuffer)},
    {0, nullptr},
};
}  // namespace

PyType_Spec base_spec = {"shmtensor.native.TensorBase", sizeof(TensorBase), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, base_slots};

Version* version_of(TensorBase* tensor) {
  if (tensor->version == Py_None) {
    PyObject* version = version_type->tp_alloc(version_type, 0);
    if (!version) return nullptr;
    Py_SETREF(tensor->version, version);
  }
  return reinterpret_cast<Version*>(tensor->version);
}

__attribute__((hot)) PyObject* make_tensor(PyObject* array) { return start_tensor(tensor_type, array); }

PyObject* set_tensor_class(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base_type))
    return raise("TypeError", "set_tensor_class: a subclass of TensorBase is needed");
  while (n_free) tensor_type->tp_free(free_list[--n_free]);
  Py_INCREF(type);
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  if (tensor_type->tp_basicsize == base_type->tp_basicsize && !tensor_type->tp_finalize)
    tensor_type->tp_dealloc = base_dealloc;  // Tensor adds no fields: Python's own dealloc would do more than is needed
  Py_RETURN_NONE;
}

PyObject* plain_class(PyObject*, PyObject*) { return Py_NewRef(reinterpret_cast<PyObject*>(tensor_type)); }

PyObject* wrap(PyObject*, PyObject* array) { return make_tensor(array); }

namespace {

void replace(PyObject*& slot, PyObject* value) {
  PyObject* former = slot;
  slot = value == Py_None ? nullptr : Py_NewRef(value);
  Py_XDECREF(former);
}

}  // namespace

PyObject* set_observer(PyObject*, PyObject* function) {
  replace(observer, function);
  Py_RETURN_NONE;
}

PyObject* set_unpacker(PyObject*, PyObject* function) {
  replace(unpacker, function);
  Py_RETURN_NONE;
}

// set_inferring(variable): the ContextVar of the mode. Returns the version cell of inference tensors.
PyObject* set_inferring(PyObject*, PyObject* variable) {
  if (!PyContextVar_CheckExact(variable)) return raise("TypeError", "set_inferring: a ContextVar is needed");
  replace(inferring_variable, variable);
  if (!frozen) frozen = reinterpret_cast<Version*>(version_type->tp_alloc(version_type, 0));
  return Py_XNewRef(reinterpret_cast<PyObject*>(frozen));
}

// inference(step): adds to the number of open blocks.
PyObject* inference(PyObject*, PyObject* step) {
  long n = PyLong_AsLong(step);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  inferring_anywhere += n;
  Py_RETURN_NONE;
}

bool inferring() { return inferring_anywhere && inferring_variable && frozen && is_true(inferring_variable, false); }

bool check_inference_write(TensorBase* tensor) {
  if (tensor->version != reinterpret_cast<PyObject*>(frozen) || !frozen || inferring()) return true;
  return raise(
      "RuntimeError",
      "in-place write: Inplace update to inference tensor outside InferenceMode is not allowed: make a clone() of it "
      "first");
}

}  // namespace shmtensor
