// The type Function: the Python attributes of OpFunction and Composite.
#include "dispatch/function_base.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

PyTypeObject* function_type;

namespace {

Function* as_function(PyObject* self) { return reinterpret_cast<Function*>(self); }

PyObject* function_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* function_repr(PyObject* self) { return PyUnicode_FromFormat("<function %U>", as_function(self)->name); }
PyObject* function_reduce(PyObject* self, PyObject*) { return Py_NewRef(as_function(self)->name); }

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, nullptr},  // by name
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weak), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, nullptr},
    {"__name__", T_OBJECT_EX, offsetof(Function, name), READONLY, nullptr},
    {"__qualname__", T_OBJECT_EX, offsetof(Function, name), READONLY, nullptr},
    {"event", T_OBJECT_EX, offsetof(Function, event), READONLY, "its name in a profile"},
    {"precision", T_OBJECT_EX, offsetof(Function, precision), READONLY, "what autocast does with it, by device type"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A named function of the library.")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(function_get)},
    {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Function>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Function>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Function>)},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {0, nullptr},
};

// METHOD_DESCRIPTOR: `x.add(y)` and `x + y` call it without making a bound method.
PyType_Spec spec = {"shmtensor.native.Function", sizeof(Function), 0, kFunctionFlags | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PyObject* function_doc(PyObject* self, void*) { return Py_NewRef(as_function(self)->doc); }
PyObject* function_module(PyObject*, void*) { return PyUnicode_FromString("shmtensor"); }

bool read_flags(const char* where, PyObject* dictionary, std::initializer_list<Flag> flags) {
  if (!PyDict_Check(dictionary)) return raise("TypeError", "%s: flags: a dict is needed", where);
  Py_ssize_t found = 0;
  for (const Flag& flag : flags) {
    PyObject* value = PyDict_GetItemString(dictionary, flag.name);
    const int is_set = value ? PyObject_IsTrue(value) : 0;
    if (is_set < 0) return false;
    *flag.value = is_set;
    found += value != nullptr;
  }
  if (found == PyDict_GET_SIZE(dictionary)) return true;
  PyErr_Format(PyExc_ValueError, "%s: no such flag among: %R", where, dictionary);
  return false;
}

PyObject* set_hooks(PyObject* args, PyObject* keywords, std::initializer_list<Hook> hooks) {
  const Py_ssize_t n = static_cast<Py_ssize_t>(hooks.size());
  if (PyTuple_GET_SIZE(args) || !keywords || PyDict_GET_SIZE(keywords) != n)
    return raise("TypeError", "set_hooks: %zd keywords are needed", n);
  for (const Hook& hook : hooks) {
    PyObject* function = PyDict_GetItemString(keywords, hook.name);
    if (!function) return raise("TypeError", "set_hooks: %s= is missing", hook.name);
    Py_XSETREF(*hook.function, Py_NewRef(function));
  }
  Py_RETURN_NONE;
}

int add_function(PyObject* module) {
  function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return function_type ? PyModule_AddObjectRef(module, "Function", reinterpret_cast<PyObject*>(function_type)) : -1;
}

int add_function_type(PyObject* module, PyType_Spec* derived) {
  Ref type(PyType_FromSpecWithBases(derived, reinterpret_cast<PyObject*>(function_type)));
  return type ? PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) : -1;
}

}  // namespace shmtensor
