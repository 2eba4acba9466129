// OpFunction: the type, its columns, and a call down to the arrays and nodes of the operands.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "kernels/dtype_object.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {

OpHooks hooks;

bool recording() { return is_true(hooks.recording, true); }

PyObject* node_of(TensorBase* tensor) {
  if (__builtin_expect(PyTuple_CheckExact(tensor->base), 0)) {
    const Version* version = reinterpret_cast<Version*>(tensor->version);
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(tensor->base, 1)) != version->count)
      return PyObject_CallOneArg(hooks.view_node, reinterpret_cast<PyObject*>(tensor));
  }
  return Py_NewRef(tensor->node);
}

namespace {

PyObject* as_object(Op* op) { return reinterpret_cast<PyObject*>(op); }
Op* as_op(PyObject* self) { return reinterpret_cast<Op*>(self); }

// ---------------------------------------------------------------- arguments -> slots

PyObject* out_name() {
  static PyObject* name = PyUnicode_InternFromString("out");
  return name;
}

// Separate sizes, `x.reshape(2, 3)`, become a tuple; `x.reshape((2, 3))` stays.
bool pack_sizes(OpCall* call, PyObject* const* args, Py_ssize_t n) {
  const int at = call->op->sizes_at;
  if (n == at + 1 && !PyLong_CheckExact(args[at])) {
    call->slots[at] = args[at];
    return true;
  }
  PyObject* sizes = call->owned.keep(PyTuple_New(n - at));
  for (Py_ssize_t i = at; sizes && i < n; ++i) PyTuple_SET_ITEM(sizes, i - at, Py_NewRef(args[i]));
  call->slots[at] = sizes;
  return sizes != nullptr;
}

// Compares names as pointers, because source code has interned names. `bind` handles the others.
bool take_keyword(OpCall* call, PyObject* name, PyObject* value, int from) {
  Op* op = call->op;
  for (int i = from; i < op->n_arguments; ++i) {
    if (op->arguments[i].name != name && op->arguments[i].spelling != name) continue;
    if (call->slots[i]) return false;  // multiple values
    call->slots[i] = value;
    return true;
  }
  if (op->takes_out && name == out_name()) {
    if (value != Py_None) call->out = value;
    return true;
  }
  for (int i = 0; i < op->n_rare; ++i) {
    if (op->rare_names[i] != name) continue;
    if (value != op->rare_defaults[i]) {
      if (!call->has_rare)
        for (int j = 0; j < op->n_rare; ++j) call->rare[j] = op->rare_defaults[j];
      call->rare[i] = value;
      call->has_rare = true;
    }
    return true;
  }
  return false;
}

Outcome parse(OpCall* call, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  Op* op = call->op;
  if (__builtin_expect(n > op->n_positional, 0)) return Outcome::kGeneral;
  int n_filled = static_cast<int>(n);
  if (__builtin_expect(op->sizes_at >= 0 && n > op->sizes_at, 0)) {
    if (!pack_sizes(call, args, n)) return Outcome::kError;
    n_filled = op->sizes_at;
  }
  for (int i = 0; i < n_filled; ++i) call->slots[i] = args[i];
  if (n_filled < n) ++n_filled;
  if (n_filled == op->n_arguments && !names) return Outcome::kFast;
  for (int i = n_filled; i < op->n_arguments; ++i) call->slots[i] = nullptr;
  const Py_ssize_t n_keywords = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < n_keywords; ++i)
    if (!take_keyword(call, PyTuple_GET_ITEM(names, i), args[n + i], n_filled)) return Outcome::kGeneral;
  for (int i = n_filled; i < op->n_arguments; ++i)
    if (!call->slots[i] && !(call->slots[i] = op->arguments[i].value)) return Outcome::kGeneral;
  return Outcome::kFast;
}

// Converts indices and dtypes, except plain ones. Canonical dtypes live as long as the program.
Outcome convert_attributes(OpCall* call) {
  Op* op = call->op;
  for (int i = op->n_inputs; i < op->n_arguments; ++i) {
    PyObject* value = call->slots[i];
    PyObject* converted;
    if (op->arguments[i].kind == AttributeKind::kIndex) {
      if (PyLong_CheckExact(value) || PySlice_Check(value)) continue;
      PyObject* arguments[2] = {value, call->slots[0]};
      converted = PyObject_Vectorcall(hooks.as_index, arguments, 2, nullptr);
    } else if (op->arguments[i].kind == AttributeKind::kDtype) {
      if (value == Py_None) continue;
      if (PyArray_Descr* dtype = canonical_dtype(value)) {
        call->slots[i] = reinterpret_cast<PyObject*>(dtype);
        continue;
      }
      converted = PyObject_CallOneArg(hooks.as_dtype, value);
    } else {
      continue;
    }
    if (!converted) return Outcome::kError;
    call->slots[i] = call->owned.keep(converted);
  }
  return Outcome::kFast;
}

// ---------------------------------------------------------------- slots -> arrays and nodes

// Of an array of the op's class. Borrowed from the array; null with an exception set.
inline PyArray_Descr* operand_dtype(Op* op, PyObject* array) {
  return __builtin_expect(!op->on_device, 1) ? dtype_of(array) : device_dtype(array);
}

// Does the number fit into an integer dtype? If not, the general path wraps it around.
bool fits(PyObject* number, PyArray_Descr* dtype) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  const int bits = 8 * static_cast<int>(PyDataType_ELSIZE(dtype));
  if (overflow) return false;
  if (dtype->kind == 'u') return value >= 0 && (bits == 64 || value >> bits == 0);
  return bits == 64 || (value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1));
}

// The array and the node of one tensor. *dtype: that of the promoted inputs so far, or null.
Outcome read_tensor(OpCall* call, const Argument& argument, PyObject* x, PyObject** array, PyObject** node,
                    PyArray_Descr** dtype) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  // else a NumPy scalar, or an array of another device
  if (Py_TYPE(tensor->array) != call->op->array_class) return Outcome::kGeneral;
  *array = tensor->array;
  if (argument.promoted) {
    PyArray_Descr* array_dtype = operand_dtype(call->op, tensor->array);
    if (!array_dtype) return Outcome::kError;
    if (!*dtype) *dtype = array_dtype;
    else if (*dtype != array_dtype) return Outcome::kGeneral;
  }
  if (!argument.differentiable) return Outcome::kFast;
  *node = node_of(tensor);
  if (!*node) return Outcome::kError;
  if (*node != Py_None) call->tracked |= 1u << (&argument - call->op->arguments);
  return Outcome::kFast;
}

Outcome read_list(OpCall* call, int at, PyArray_Descr** dtype) {
  PyObject* x = call->slots[at];
  if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) return Outcome::kGeneral;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
  if (!n) return Outcome::kGeneral;
  PyObject* list = call->owned.keep(PyList_New(n));
  PyObject* nodes = call->owned.keep(PyTuple_New(n));
  if (!list || !nodes) return Outcome::kError;
  const Argument& argument = call->op->arguments[at];
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    PyObject *array, *node = nullptr;
    if (!is_plain(item)) return Outcome::kGeneral;
    const Outcome outcome = read_tensor(call, argument, item, &array, &node, dtype);
    if (outcome != Outcome::kFast) {
      Py_XDECREF(node);
      return outcome;
    }
    PyList_SET_ITEM(list, i, Py_NewRef(array));
    PyTuple_SET_ITEM(nodes, i, node ? node : Py_NewRef(Py_None));
  }
  call->arrays[at] = list;
  call->list_nodes = nodes;
  return Outcome::kFast;
}

void release_nodes(OpCall* call) {
  for (int i = 0; i < call->n_nodes; ++i) Py_CLEAR(call->nodes[i]);
  call->tracked = 0;
}

__attribute__((hot)) Outcome read_once(OpCall* call) {
  Op* op = call->op;
  PyArray_Descr* dtype = nullptr;
  call->n_nodes = op->n_inputs;
  for (int i = 0; i < op->n_inputs; ++i) call->nodes[i] = nullptr;
  // In a reflected operator the second input, the tensor, decides the dtype.
  const bool second_first = op->form == Form::kReflected;
  for (int k = 0; k < op->n_inputs; ++k) {
    const int i = second_first && k < 2 ? 1 - k : k;
    const Argument& argument = op->arguments[i];
    PyObject* x = call->slots[i];
    Outcome outcome;
    if (__builtin_expect(argument.listed, 0)) {
      outcome = read_list(call, i, &dtype);
    } else if (__builtin_expect(is_plain(x), 1)) {
      outcome = read_tensor(call, argument, x, &call->arrays[i], &call->nodes[i], &dtype);
    } else if (argument.number && dtype && PyFloat_CheckExact(x)) {
      call->arrays[i] = x;
      outcome = is_inexact(dtype) ? Outcome::kFast : Outcome::kGeneral;
    } else if (argument.number && dtype && PyLong_CheckExact(x)) {
      call->arrays[i] = x;
      const bool is_fast = is_inexact(dtype) || (dtype->kind != 'b' && (!op->wraps || fits(x, dtype)));
      outcome = is_fast ? Outcome::kFast : Outcome::kGeneral;
    } else if (argument.optional && x == Py_None) {
      call->arrays[i] = Py_None;
      outcome = Outcome::kFast;
    } else {
      outcome = Outcome::kGeneral;
    }
    if (outcome != Outcome::kFast) return outcome;
  }
  if (op->promotion == Promotion::kFloat && dtype && !is_inexact(dtype)) return Outcome::kGeneral;
  return Outcome::kFast;
}

// A NumPy scalar as a 0-d array. Borrowed from `owned`; null with an exception set.
PyObject* as_array_argument(OpCall* call, PyObject* x) {
  if (PyArray_CheckExact(x) || !PyArray_IsScalar(x, Generic)) return x;
  return call->owned.keep(PyArray_FromScalar(x, nullptr));
}

__attribute__((hot)) Outcome read_operands(OpCall* call) {
  Outcome outcome = read_once(call);
  if (outcome != Outcome::kGeneral || !call->op->pair) return outcome;
  release_nodes(call);
  outcome = promote_pair(call);
  return outcome == Outcome::kFast ? read_once(call) : outcome;
}

Outcome read_arrays(OpCall* call) {
  Op* op = call->op;
  for (int i = 0; i < op->n_inputs; ++i) {
    if (!op->arguments[i].listed) {
      if (!(call->arrays[i] = as_array_argument(call, call->slots[i]))) return Outcome::kError;
      continue;
    }
    PyObject* list = call->owned.keep(PySequence_List(call->slots[i]));
    if (!list) return Outcome::kError;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(list); ++j) {
      PyObject* array = as_array_argument(call, PyList_GET_ITEM(list, j));
      if (!array || PyList_SetItem(list, j, Py_NewRef(array)) < 0) return Outcome::kError;
    }
    call->arrays[i] = list;
  }
  return Outcome::kFast;
}

// ---------------------------------------------------------------- a call

// Runs a call whose slots are filled.
__attribute__((hot)) PyObject* run_slots(OpCall* call) {
  Op* op = call->op;
  if (__builtin_expect(call->has_rare, 0)) {
    Ref result(call_rare(call));
    if (!result || !call->out) return result.release();
    PyObject* arguments[3] = {call->out, op->function.event, result.get()};
    return PyObject_Vectorcall(hooks.copy_to_out, arguments, 3, nullptr);
  }
  Outcome outcome = convert_attributes(call);
  if (outcome == Outcome::kFast) outcome = call->array_form() ? read_arrays(call) : read_operands(call);
  if (__builtin_expect(outcome == Outcome::kGeneral, 0)) return call_general(call);
  if (__builtin_expect(outcome != Outcome::kFast, 0)) return nullptr;
  bool kernel_failed = false, needs_general = false;
  PyObject* result;
  if (op->form == Form::kInplace) {
    result = run_inplace(call, &kernel_failed, &needs_general);
  } else if (__builtin_expect(call->out != nullptr, 0)) {
    result = run_out(call, &kernel_failed, &needs_general);
  } else {
    result = call_kernel(call);
    kernel_failed = !result;
    if (result) return call->array_form() ? finish_arrays(call, result) : finish(call, result);
  }
  if (result) return result;
  if (needs_general) return call_general(call);
  return kernel_failed && !call->array_form() ? explain_failure(call) : nullptr;
}

__attribute__((hot)) PyObject* call_op(Op* op, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (__builtin_expect(!op->kernel, 0) && !plan(op)) return nullptr;
  OpCall call(op);
  const Outcome outcome = parse(&call, args, n, names);
  if (__builtin_expect(outcome == Outcome::kFast, 1)) {
    if (op->form == Form::kReflected) std::swap(call.slots[0], call.slots[1]);
    return run_slots(&call);
  }
  if (outcome == Outcome::kError) return nullptr;
  return call_packed(hooks.bind, as_object(op), args, n, names);
}

}  // namespace

PyObject* call_op_bound(Op* op, PyObject* values, PyObject* out) {
  if (!op->kernel && !plan(op)) return nullptr;
  if (!PyTuple_CheckExact(values) || PyTuple_GET_SIZE(values) != op->n_arguments)
    return raise("TypeError", "OpFunction.call_bound: a tuple of %d values is needed", op->n_arguments);
  OpCall call(op);
  for (int i = 0; i < op->n_arguments; ++i) call.slots[i] = PyTuple_GET_ITEM(values, i);
  if (out != Py_None) call.out = out;
  return run_slots(&call);
}

namespace {

// unobserved(*args, **keywords): the call, without modes. Autocast has converted the arguments.
PyObject* op_unobserved(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return call_op(as_op(self), args, n, names);
}

__attribute__((hot)) PyObject* op_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Op* op = as_op(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (const uint32_t active = modes_of(op->function.modes))
    return call_in_mode(active, self, args, n, names, op_unobserved, op->function.event);
  return call_op(op, args, n, names);
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
  PyObject *name, *spelling, *value, *flags, *kind;
  if (!PyArg_ParseTuple(column, "UOOOU", &name, &spelling, &value, &flags, &kind)) return false;
  argument->name = interned(name);
  argument->spelling = spelling == Py_None ? nullptr : interned(spelling);
  argument->value = value == Py_None ? nullptr : Py_NewRef(PyTuple_GET_ITEM(value, 0));
  if (!read_name("OpFunction", kind, kKindNames, &argument->kind)) return false;
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
