// The type OpFunction: its columns and Python attributes.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

namespace {

PyObject* as_object(Op* op) { return reinterpret_cast<PyObject*>(op); }
Op* as_op(PyObject* self) { return reinterpret_cast<Op*>(self); }

__attribute__((hot)) PyObject* op_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Op* op = as_op(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (const uint32_t active = modes_of(op->function.modes)) return call_in_mode(active, self, args, n, names);
  return call_op(op, args, n, names);
}

// unobserved(*args, **keywords): the call, without modes. Autocast has converted the arguments.
PyObject* op_unobserved(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return call_op(as_op(self), args, n, names);
}

// call_bound(values[, out]): the call with all arguments in the row's order, without modes.
PyObject* op_call_bound(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (!takes("OpFunction.call_bound", n, 1, 2)) return nullptr;
  return call_op_bound(as_op(self), args[0], n == 2 ? args[1] : Py_None);
}

// ---------------------------------------------------------------- columns

PyObject* interned(PyObject* text) {
  Py_INCREF(text);
  PyUnicode_InternInPlace(&text);
  return text;
}

// A tuple (name, NumPy's name or None, (default,) or None, flags, kind).
bool read_argument(PyObject* column, Argument* argument) {
  PyObject *name, *spelling, *value, *flags;
  int kind;
  if (!PyArg_ParseTuple(column, "UOOOC", &name, &spelling, &value, &flags, &kind)) return false;
  argument->name = interned(name);
  argument->spelling = spelling == Py_None ? nullptr : interned(spelling);
  argument->value = value == Py_None ? nullptr : Py_NewRef(PyTuple_GET_ITEM(value, 0));
  argument->kind = kind == '-' ? 0 : static_cast<char>(kind);
  return read_flags("OpFunction", flags,
                    {{"listed", &argument->listed},
                     {"optional", &argument->optional},
                     {"promoted", &argument->promoted},
                     {"differentiable", &argument->differentiable},
                     {"number", &argument->number}});
}

// widening: (outputs, first or None), or None; format: (layout, first, inputs, arguments, leads, outputs), or None.
bool read_policy(PyObject* widening, PyObject* format, KernelPolicy* policy) {
  if (widening != Py_None) {
    PyObject* first;
    if (!PyArg_ParseTuple(widening, "nO", &policy->widening.outputs, &first)) return false;
    policy->widening.first = first == Py_None ? nullptr : Py_NewRef(first);
    policy->widens = true;
  }
  if (format == Py_None) return true;
  PyObject* layout;
  Format& target = policy->format;
  if (!PyArg_ParseTuple(format, "Unnnkn", &layout, &target.first, &target.inputs, &target.arguments, &target.leads,
                        &target.outputs) ||
      !read_name("OpFunction", layout, kLayoutNames, &target.layout))
    return false;
  policy->formatted = true;
  return true;
}

// fill(...): the columns, by keyword; see `fill` in autograd/dispatch/plan.py.
PyObject* op_fill(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"arguments",     "n_inputs", "n_positional", "sizes_at",  "promotion",   "n_outputs",
                                   "flags",         "kernel",   "kernel_items", "constants", "saved_items", "rare",
                                   "rare_defaults", "ops",      "result",       "widening",  "format",      nullptr};
  PyObject *arguments, *promotion, *flags, *kernel, *kernel_items, *constants, *saved_items, *rare, *rare_defaults;
  PyObject *ops, *result, *widening, *format;
  int n_inputs, n_positional, sizes_at, n_outputs;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!iiiOiOOOO!OOO!OOOO:fill", const_cast<char**>(keywords), &PyTuple_Type,
                                   &arguments, &n_inputs, &n_positional, &sizes_at, &promotion, &n_outputs, &flags, &kernel,
                                   &kernel_items, &PyTuple_Type, &constants, &saved_items, &rare, &PyDict_Type,
                                   &rare_defaults, &ops, &result, &widening, &format))
    return nullptr;
  Op* op = as_op(self);
  if (op->kernel) return raise("RuntimeError", "OpFunction.fill: it has its columns already");
  if (PyTuple_GET_SIZE(arguments) > kMaxArguments || PyDict_GET_SIZE(rare_defaults) > kMaxRare)
    return raise("ValueError", "OpFunction: too many arguments");
  op->n_inputs = n_inputs;
  op->n_arguments = static_cast<int>(PyTuple_GET_SIZE(arguments));
  op->n_positional = n_positional;
  op->sizes_at = sizes_at;
  if (!read_name("OpFunction", promotion, kPromotionNames, &op->promotion)) return nullptr;
  op->n_outputs = n_outputs;
#define FLAG(name) {#name, &op->name},
  if (!read_flags("OpFunction", flags, {OP_FLAGS(FLAG)})) return nullptr;
#undef FLAG
  for (int i = 0; i < op->n_arguments; ++i) {
    if (!read_argument(PyTuple_GET_ITEM(arguments, i), &op->arguments[i])) return nullptr;
    op->n_differentiable += i < n_inputs && op->arguments[i].differentiable;
  }
  if (!read_items("OpFunction", kernel_items, op->kernel_items, &op->n_kernel) ||
      !read_items("OpFunction", saved_items, op->saved_items, &op->n_saved))
    return nullptr;
  if (!read_policy(widening, format, &op->policy)) return nullptr;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(rare_defaults, &at, &key, &value); ++op->n_rare) {
    op->rare_names[op->n_rare] = interned(key);
    op->rare_defaults[op->n_rare] = Py_NewRef(value);
  }
  op->rare = rare == Py_None ? nullptr : Py_NewRef(rare);
  op->ops = Py_NewRef(ops);
  op->constants = Py_NewRef(constants);
  op->result = Py_NewRef(result);
  op->kernel = Py_NewRef(kernel);  // last: other threads may call it from here on
  Py_RETURN_NONE;
}

// OpFunction(rule, name, event, doc, form, modes, precision, array_class: of a device, or None)
PyObject* op_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *rule, *name, *event, *doc, *form_name, *precision;
  Form form;
  unsigned mask;
  PyObject* array_class;
  if (!PyArg_ParseTuple(args, "OUUOUIOO:OpFunction", &rule, &name, &event, &doc, &form_name, &mask, &precision,
                        &array_class) ||
      !read_name("OpFunction", form_name, kFormNames, &form))
    return nullptr;
  PyTypeObject* device_type = array_class == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(array_class);
  if (device_type && device_type != device_array_type && device_type != meta_array_type)
    return raise("RuntimeError", "OpFunction: no device is registered");
  Op* op = as_op(type->tp_alloc(type, 0));
  if (!op) return nullptr;
  op->function.vectorcall = op_call;
  op->function.modes = mask;
  op->function.name = Py_NewRef(name);
  op->function.event = Py_NewRef(event);
  op->function.doc = Py_NewRef(doc);
  op->function.precision = Py_NewRef(precision);
  op->form = form;
  op->rule = Py_NewRef(rule);
  op->on_device = device_type != nullptr;
  op->array_class = device_type ? device_type : &PyArray_Type;
  return as_object(op);
}

// ---------------------------------------------------------------- the type

PyObject* op_signature(PyObject* self, void*) { return PyObject_CallOneArg(hooks.signature, self); }

PyObject* op_form(PyObject* self, void*) {
  return PyUnicode_InternFromString(kFormNames[static_cast<int>(as_op(self)->form)]);
}

PyGetSetDef op_getset[] = {
    kFunctionDoc,
    kFunctionModule,
    {"__signature__", op_signature, nullptr, nullptr, nullptr},
    {"form", op_form, nullptr, "which form of the row", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef op_methods[] = {
    method("unobserved", op_unobserved, "The call, without modes.", METH_FASTCALL | METH_KEYWORDS),
    method("call_bound", op_call_bound,
           "call_bound(values, out=None): the call with all arguments in the row's order, without modes."),
    method("fill", op_fill, "Sets its columns.", METH_VARARGS | METH_KEYWORDS),
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef op_members[] = {
    {"kernel", T_OBJECT, offsetof(Op, kernel), READONLY, "the kernel; None before the first call"},
    {"rule", T_OBJECT_EX, offsetof(Op, rule), READONLY, "the row's rule"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot op_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(op_new)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Op>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Op>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Op>)},
    {Py_tp_members, op_members},
    {Py_tp_getset, op_getset},
    {Py_tp_methods, op_methods},
    {0, nullptr},
};

PyType_Spec op_spec = {"shmtensor.native.OpFunction", sizeof(Op), 0, kFunctionFlags, op_slots};

PyObject* set_op_hooks(PyObject*, PyObject* args, PyObject* kwargs) {
#define HOOK(name) {#name, &hooks.name},
  return set_hooks(args, kwargs, {OP_HOOKS(HOOK)});
#undef HOOK
}

PyMethodDef functions[] = {
    method("set_op_hooks", set_op_hooks, "Python's side of OpFunction.", METH_VARARGS | METH_KEYWORDS),
    {"forget_promotions", forget_promotions, METH_NOARGS, "Forgets the common dtypes: the default dtype changes."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool read_items(const char* where, PyObject* list, Item* items, int* n) {
  if (!PyTuple_Check(list) || PyTuple_GET_SIZE(list) > kMaxArguments)
    return raise("ValueError", "%s: a tuple of at most %d is needed", where, kMaxArguments);
  *n = static_cast<int>(PyTuple_GET_SIZE(list));
  for (int i = 0; i < *n; ++i) {
    PyObject* name;
    What what;
    int index;
    unsigned mask;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(list, i), "UiI", &name, &index, &mask) ||
        !read_name(where, name, kWhatNames, &what))
      return false;
    items[i] = {what, static_cast<int16_t>(index), mask};
  }
  return true;
}

bool plan(Op* op) {
  Ref result(PyObject_CallOneArg(hooks.plan, as_object(op)));
  if (!result) return false;
  if (op->kernel) return true;
  return raise("RuntimeError", "OpFunction: its plan was not filled in");
}

int add_op(PyObject* module) {
  if (add_function_type(module, &op_spec) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
