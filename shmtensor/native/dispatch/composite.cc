// Composite: a public function that is plain Python over other ops, `compute(ops, ...)`. The call writes the table in
// front of the caller's arguments, so there is no frame between the caller and `compute`.
#include "dispatch/op_function.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

namespace {

// Python functions, set once by autograd/dispatch/op_function.py: function(composite, args, keywords[, error]).
struct {
  PyObject* signature;  // signature(composite) -> inspect.Signature
  PyObject* overloaded;  // the call by an operand with __torch_function__ that is not a tensor, or NotImplemented
  PyObject* out;        // a call with `out=`
  PyObject* explain;    // raises the error that the caller sees
} hooks;

struct Composite {
  Function function;
  bool on_tensors;   // the table is the one on Tensors
  bool takes_first;  // its first argument is a tensor, or a list of them
  bool takes_out;    // `out=` is added to it
  PyObject *compute, *ops;

  template <class Visit>
  void each_reference(Visit visit) {
    function.each_reference(visit);
    visit(compute);
    visit(ops);
  }
};

PyObject* as_object(Composite* self) { return reinterpret_cast<PyObject*>(self); }
Composite* as_composite(PyObject* self) { return reinterpret_cast<Composite*>(self); }

bool all_plain(PyObject* first) {
  if (is_plain(first)) return true;
  if (!PyList_CheckExact(first) && !PyTuple_CheckExact(first)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(first); ++i)
    if (!is_plain(PySequence_Fast_GET_ITEM(first, i))) return false;
  return true;
}

bool has_out(PyObject* names) {
  static PyObject* out = PyUnicode_InternFromString("out");
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyTuple_GET_ITEM(names, i) == out) return true;
  return false;
}

PyObject* compute(Composite* self, PyObject* const* args, Py_ssize_t n, PyObject* names, bool offset) {
  const Py_ssize_t count = n + (names ? PyTuple_GET_SIZE(names) : 0);
  if (offset) {  // the protocol lets us overwrite args[-1]
    PyObject** first = const_cast<PyObject**>(args) - 1;
    PyObject* former = *first;
    *first = self->ops;
    PyObject* result = PyObject_Vectorcall(self->compute, first, static_cast<size_t>(n + 1), names);
    *first = former;
    return result;
  }
  Values arguments;
  arguments.push(self->ops);
  for (Py_ssize_t i = 0; i < count; ++i) arguments.push(args[i]);
  return PyObject_Vectorcall(self->compute, arguments.data(), static_cast<size_t>(n + 1), names);
}

// The error that the caller sees: Python checks the arguments, and names this function in the text.
PyObject* explain(Composite* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (!PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
    PyErr_Restore(type, error, trace);
    return nullptr;
  }
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  Ref owned_type(type), owned_error(error), owned_trace(trace);
  return call_packed(hooks.explain, as_object(self), args, n, names, error);
}

PyObject* run(Composite* self, PyObject* const* args, Py_ssize_t n, PyObject* names, bool offset) {
  if (self->takes_first && (n ? !all_plain(args[0]) : names != nullptr)) {
    PyObject* result = call_packed(hooks.overloaded, as_object(self), args, n, names);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  if (self->takes_out && has_out(names)) return call_packed(hooks.out, as_object(self), args, n, names);
  PyObject* result = compute(self, args, n, names, offset);
  return result || !self->on_tensors ? result : explain(self, args, n, names);
}

PyObject* composite_unobserved(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return run(as_composite(self), args, n, names, false);
}

PyObject* composite_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Composite* composite = as_composite(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (const uint32_t active = modes_of(composite->function.modes))
    return call_in_mode(active, self, args, n, names, composite_unobserved, composite->function.event);
  return run(composite, args, n, names, flags & PY_VECTORCALL_ARGUMENTS_OFFSET);
}

// Composite(name, doc, compute, ops, modes, precision, flags); flags: on_tensors, takes_first, takes_out.
PyObject* composite_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *name, *doc, *compute, *ops, *precision;
  PyObject* flags;
  unsigned mask;
  bool on_tensors, takes_first, takes_out;
  if (!PyArg_ParseTuple(args, "UOOOIOO:Composite", &name, &doc, &compute, &ops, &mask, &precision, &flags) ||
      !read_flags("Composite", flags,
                  {{"on_tensors", &on_tensors}, {"takes_first", &takes_first}, {"takes_out", &takes_out}}))
    return nullptr;
  Composite* self = as_composite(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->function.vectorcall = composite_call;
  self->function.modes = mask;
  self->function.name = Py_NewRef(name);
  self->function.event = Py_NewRef(name);
  self->function.doc = Py_NewRef(doc);
  self->function.precision = Py_NewRef(precision);
  self->on_tensors = on_tensors;
  self->takes_first = takes_first;
  self->takes_out = takes_out;
  self->compute = Py_NewRef(compute);
  self->ops = Py_NewRef(ops);
  return as_object(self);
}

PyObject* composite_signature(PyObject* self, void*) { return PyObject_CallOneArg(hooks.signature, self); }

PyGetSetDef composite_getset[] = {
    kFunctionDoc,
    kFunctionModule,
    {"__signature__", composite_signature, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef composite_methods[] = {
    method("unobserved", composite_unobserved, "The call, without modes.", METH_FASTCALL | METH_KEYWORDS),
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef composite_members[] = {
    {"compute", T_OBJECT_EX, offsetof(Composite, compute), READONLY, "the function that computes: compute(ops, ...)"},
    {"takes_out", T_BOOL, offsetof(Composite, takes_out), READONLY, "whether `out=` is added to its arguments"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot composite_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(composite_new)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Composite>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Composite>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Composite>)},
    {Py_tp_members, composite_members},
    {Py_tp_getset, composite_getset},
    {Py_tp_methods, composite_methods},
    {0, nullptr},
};
PyType_Spec composite_spec = {"shmtensor.native.Composite", sizeof(Composite), 0, kFunctionFlags, composite_slots};

PyObject* set_composite_hooks(PyObject*, PyObject* args, PyObject* kwargs) {
  return set_hooks(args, kwargs,
                   {{"signature", &hooks.signature},
                    {"overloaded", &hooks.overloaded},
                    {"out", &hooks.out},
                    {"explain", &hooks.explain}});
}

PyMethodDef functions[] = {
    method("set_composite_hooks", set_composite_hooks, "Python's side of Composite.", METH_VARARGS | METH_KEYWORDS),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_composite(PyObject* module) {
  if (add_function_type(module, &composite_spec) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
