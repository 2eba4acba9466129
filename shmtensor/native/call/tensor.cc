// TensorBase: the slots of Tensor.
#include "graph.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

namespace {

PyObject* start_tensor(PyTypeObject* type, PyObject* array) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(type->tp_alloc(type, 0));
  if (!tensor) return nullptr;
  tensor->array = Py_NewRef(array);
  tensor->node = Py_NewRef(Py_None);
  tensor->version = Py_NewRef(Py_None);
  tensor->base = Py_NewRef(Py_None);
  tensor->leaf = Py_NewRef(Py_None);
  return reinterpret_cast<PyObject*>(tensor);
}

PyObject* base_new(PyTypeObject* type, PyObject*, PyObject*) { return start_tensor(type, Py_None); }

int base_traverse(PyObject* self, visitproc visit, void* arg) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(tensor->array);
  Py_VISIT(tensor->node);
  Py_VISIT(tensor->version);
  Py_VISIT(tensor->base);
  Py_VISIT(tensor->leaf);
  return 0;
}

int base_clear(PyObject* self) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(self);
  Py_CLEAR(tensor->array);
  Py_CLEAR(tensor->node);
  Py_CLEAR(tensor->version);
  Py_CLEAR(tensor->base);
  Py_CLEAR(tensor->leaf);
  return 0;
}

void base_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, base_dealloc)
  if (reinterpret_cast<TensorBase*>(self)->weak) PyObject_ClearWeakRefs(self);
  base_clear(self);
  untrack_and_free(self);
  Py_TRASHCAN_END
}

PyMemberDef base_members[] = {
    {"array", T_OBJECT_EX, offsetof(TensorBase, array), 0, "the memory"},
    {"node", T_OBJECT_EX, offsetof(TensorBase, node), 0, "its place in the graph, or None"},
    {"version", T_OBJECT_EX, offsetof(TensorBase, version), 0, "counter of in-place writes, or None"},
    {"base", T_OBJECT_EX, offsetof(TensorBase, base), 0, "(parent, count seen, row, attributes)"},
    {"leaf", T_OBJECT_EX, offsetof(TensorBase, leaf), 0, "owner of .grad, or None"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorBase, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot base_slots[] = {
    {Py_tp_doc, const_cast<char*>("The slots of Tensor.")},
    {Py_tp_new, reinterpret_cast<void*>(base_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(base_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(base_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(base_clear)},
    {Py_tp_members, base_members},
    {0, nullptr},
};
}  // namespace

PyType_Spec base_spec = {"shmtensor.native.TensorBase", sizeof(TensorBase), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, base_slots};

Version* version_of(TensorBase* tensor) {
  if (tensor->version == Py_None) {
    PyObject* made = version_type->tp_alloc(version_type, 0);
    if (!made) return nullptr;
    Py_SETREF(tensor->version, made);
  }
  return reinterpret_cast<Version*>(tensor->version);
}

PyObject* make_tensor(PyObject* array) { return start_tensor(tensor_type, array); }

PyObject* set_tensor_class(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base_type))
    return raise("TypeError", "set_tensor_class: a subclass of TensorBase is needed");
  Py_INCREF(type);
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}

PyObject* wrap(PyObject*, PyObject* array) { return make_tensor(array); }

}  // namespace shmtensor
