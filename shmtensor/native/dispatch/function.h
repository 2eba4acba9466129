// What the C types of this folder share: the base type of functions, garbage collection, hooks into Python.
#pragma once

#include "dispatch/autograd_node.h"

#include "kernels/arguments.h"

namespace shmtensor {

// The base type of OpFunction and Composite: a named function that modes may concern.
struct Function {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  uint32_t modes;  // bits of the modes that concern it
  PyObject *name, *event, *doc, *precision, *dict, *weak;

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&name, &event, &doc, &precision, &dict}) visit(*p);
  }
};
extern PyTypeObject* function_type;
constexpr unsigned long kFunctionFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                         Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE;

// Each type repeats these, because a type from a spec has a `__doc__` and a `__module__` that hide its base's.
PyObject* function_doc(PyObject* self, void*);
PyObject* function_module(PyObject* self, void*);
constexpr PyGetSetDef kFunctionDoc = {"__doc__", function_doc, nullptr, nullptr, nullptr};
constexpr PyGetSetDef kFunctionModule = {"__module__", function_module, nullptr, nullptr, nullptr};

int add_function(PyObject* module);
// A type whose base is Function, added to the module.
int add_function_type(PyObject* module, PyType_Spec* spec);

// The slots of a type whose struct T has `each_reference(visit)`, which calls visit(PyObject*&) for each reference.
template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  int stop = 0;
  reinterpret_cast<T*>(self)->each_reference([&](PyObject*& p) {
    if (p && !stop) stop = visit(p, arg);
  });
  return stop;
}

template <class T>
int clear(PyObject* self) {
  reinterpret_cast<T*>(self)->each_reference([](PyObject*& p) { Py_CLEAR(p); });
  return 0;
}

template <class T>
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (Py_TYPE(self)->tp_weaklistoffset) PyObject_ClearWeakRefs(self);
  clear<T>(self);
  untrack_and_free(self);
}

// A new tuple or list of n objects: item(i) is a new reference, or null with an exception set, and so is the result.
template <class F>
PyObject* tuple_of(Py_ssize_t n, F item) {
  PyObject* result = PyTuple_New(n);
  for (Py_ssize_t i = 0; result && i < n; ++i) {
    PyObject* value = item(i);
    if (!value) Py_CLEAR(result);
    else PyTuple_SET_ITEM(result, i, value);
  }
  return result;
}
template <class F>
PyObject* list_of(Py_ssize_t n, F item) {
  PyObject* result = PyList_New(n);
  for (Py_ssize_t i = 0; result && i < n; ++i) {
    PyObject* value = item(i);
    if (!value) Py_CLEAR(result);
    else PyList_SET_ITEM(result, i, value);
  }
  return result;
}

// Does a ContextVar have the value True? `otherwise` if it cannot be read.
inline bool is_true(PyObject* variable, bool otherwise) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) {
    PyErr_Clear();
    return otherwise;
  }
  const bool on = value == Py_True;
  Py_XDECREF(value);
  return on;
}

// Fills a struct of references from the keywords of a call, in the order of `names`. Returns None, or null.
template <class Hooks, size_t n>
PyObject* set_hooks(Hooks* hooks, const char* const (&names)[n], PyObject* args, PyObject* keywords) {
  static_assert(sizeof(Hooks) == n * sizeof(PyObject*), "a name for each");
  if (PyTuple_GET_SIZE(args) || !keywords || PyDict_GET_SIZE(keywords) != n)
    return raise("TypeError", "set_hooks: %zd keywords are needed", static_cast<Py_ssize_t>(n));
  for (size_t i = 0; i < n; ++i) {
    PyObject* function = PyDict_GetItemString(keywords, names[i]);
    if (!function) return raise("TypeError", "set_hooks: %s= is missing", names[i]);
    Py_XSETREF(reinterpret_cast<PyObject**>(hooks)[i], Py_NewRef(function));
  }
  Py_RETURN_NONE;
}

}  // namespace shmtensor
