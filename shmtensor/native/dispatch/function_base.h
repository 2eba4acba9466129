// What the C types of this folder share: the base type of functions, garbage collection, hooks into Python.
#pragma once

#include "dispatch/autograd_node.h"

#include "kernels/arguments.h"

#include <initializer_list>

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

// Note [Names from Python]: where Python chooses a value of an enum, or sets booleans of a struct, it gives names, not
// numbers or bits: a name that is unknown here is an error. The names stand beside the values, in one list.

// The value that a str names, by its index in `names`. False: ValueError.
template <class Enum, size_t n>
bool read_name(const char* where, PyObject* text, const char* const (&names)[n], Enum* value) {
  for (size_t i = 0; i < n; ++i) {
    if (!PyUnicode_Check(text) || PyUnicode_CompareWithASCIIString(text, names[i])) continue;
    *value = static_cast<Enum>(i);
    return true;
  }
  PyErr_Format(PyExc_ValueError, "%s: no such name: %R", where, text);
  return false;
}

struct Flag {
  const char* name;
  bool* value;
};
// Sets booleans by a dictionary from names to bool; those that it lacks become false. False: an exception is set.
bool read_flags(const char* where, PyObject* dictionary, std::initializer_list<Flag> flags);

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

struct Hook {
  const char* name;
  PyObject** function;
};
// Sets references to the keywords of a call, which are exactly these. Returns None, or null.
PyObject* set_hooks(PyObject* args, PyObject* keywords, std::initializer_list<Hook> hooks);

}  // namespace shmtensor
