// A call: arguments -> slots, then operands, kernel, result; and where it leaves for Python.
#include "dispatch/op_function.h"

#include "memory/heap/heap.h"

namespace shmtensor {

OpHooks hooks;

// ---------------------------------------------------------------- running a kernel

namespace {

// NumPy gives a scalar for a 0-d result. Steals the reference; null with an exception set.
PyObject* whole(PyObject* result) {
  if (PyArray_CheckExact(result)) return result;
  if (PyArray_CheckScalar(result)) {
    PyObject* array = PyArray_FromScalar(result, nullptr);
    Py_DECREF(result);
    return array;
  }
  if (PyArray_Check(result)) {  // a subclass: memmap, matrix
    PyObject* array = PyArray_View(reinterpret_cast<PyArrayObject*>(result), nullptr, &PyArray_Type);
    Py_DECREF(result);
    return array;
  }
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
    PyObject* arrays = PyTuple_New(n);
    for (Py_ssize_t i = 0; arrays && i < n; ++i) {
      PyObject* array = whole(Py_NewRef(PySequence_Fast_GET_ITEM(result, i)));
      if (!array)
        Py_CLEAR(arrays);
      else
        PyTuple_SET_ITEM(arrays, i, array);
    }
    Py_DECREF(result);
    return arrays;
  }
  return result;
}

// Are the arrays in rows, and of other numbers than 16-bit floats?
bool needs_no_policy(PyObject* p) {
  if (PyArray_CheckExact(p)) {
    PyArrayObject* a = reinterpret_cast<PyArrayObject*>(p);
    return PyArray_TYPE(a) < NPY_HALF && suggests_contiguous(a);
  }
  if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) return true;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(p, i);
    if (PyArray_CheckExact(item) && !needs_no_policy(item)) return false;
  }
  return true;
}

PyObject* run_as_is(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  return PyObject_Vectorcall(kernel, args, static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

}  // namespace

PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n, const KernelPolicy* policy) {
  PyObject* result;
  {
    Gate open;
    if (!open) return nullptr;
    bool plain = !policy;
    if (policy) {
      plain = true;
      for (Py_ssize_t i = 0; i < n && plain; ++i) plain = needs_no_policy(args[i]);
    }
    if (__builtin_expect(plain, 1)) {
      result = run_as_is(kernel, args, n);
    } else {
      const auto run = [&](PyObject* const* given, Py_ssize_t count) {
        const bool wide = policy->widens && holds_halves(given, count);
        return wide ? run_wide(policy->widening, kernel, given, count) : run_as_is(kernel, given, count);
      };
      result = policy->formatted ? run_formatted(policy->format, run, kernel, args, n) : run(args, n);
    }
    if (result && !PyArray_CheckExact(result)) result = whole(result);
  }
  if (!result && PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("op");
  return result;
}

namespace {

PyObject* as_tensors(PyObject* result) {
  if (!result) return nullptr;
  if (!PyTuple_CheckExact(result)) {
    PyObject* tensor = make_tensor(result);
    Py_DECREF(result);
    return tensor;
  }
  Py_ssize_t n = PyTuple_GET_SIZE(result);
  PyObject* tensors = PyTuple_New(n);
  for (Py_ssize_t i = 0; tensors && i < n; ++i) {
    PyObject* tensor = make_tensor(PyTuple_GET_ITEM(result, i));
    if (!tensor)
      Py_CLEAR(tensors);
    else
      PyTuple_SET_ITEM(tensors, i, tensor);
  }
  Py_DECREF(result);
  return tensors;
}

}  // namespace

// For Python. args[0] is our own slot to overwrite, as PY_VECTORCALL_ARGUMENTS_OFFSET asks for.
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "call: (kernel, *arguments) is needed");
  return run_kernel(args[0], args + 1, n - 1);
}

PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "compute: (kernel, *arguments) is needed");
  return as_tensors(run_kernel(args[0], args + 1, n - 1));
}

PyObject* write(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return raise("TypeError", "write: (tensor, kernel, *arguments) is needed");
  if (is_tensor(args[0]) && !may_write_frozen(reinterpret_cast<TensorBase*>(args[0]))) return nullptr;
  PyObject* result = run_kernel(args[1], args + 2, n - 2);
  if (!result) return nullptr;
  Py_DECREF(result);
  return wrote(self, args[0]);
}

// ---------------------------------------------------------------- the call of an op

namespace {

PyObject* out_name() {
  static PyObject* name = PyUnicode_InternFromString("out");
  return name;
}

// Sizes given one by one, `x.reshape(2, 3)`, become a tuple; `x.reshape((2, 3))` stays.
bool gather_sizes(OpCall* call, PyObject* const* args, Py_ssize_t n) {
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

// Names are compared as pointers: source code has interned ones. Any other spelling is `bind`'s.
bool take_keyword(OpCall* call, PyObject* name, PyObject* value, int from) {
  Op* op = call->op;
  for (int i = from; i < op->n_arguments; ++i) {
    if (op->arguments[i].name != name && op->arguments[i].spelling != name) continue;
    if (call->slots[i]) return false;  // given twice
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
  if (__builtin_expect(n > op->n_positional, 0)) return Outcome::kOdd;
  int bound = static_cast<int>(n);
  if (__builtin_expect(op->sizes_at >= 0 && n > op->sizes_at, 0)) {
    if (!gather_sizes(call, args, n)) return Outcome::kError;
    bound = op->sizes_at;
  }
  for (int i = 0; i < bound; ++i) call->slots[i] = args[i];
  if (bound < n) ++bound;
  if (bound == op->n_arguments && !names) return Outcome::kUsual;
  for (int i = bound; i < op->n_arguments; ++i) call->slots[i] = nullptr;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i)
    if (!take_keyword(call, PyTuple_GET_ITEM(names, i), args[n + i], bound)) return Outcome::kOdd;
  for (int i = bound; i < op->n_arguments; ++i)
    if (!call->slots[i] && !(call->slots[i] = op->arguments[i].value)) return Outcome::kOdd;
  return Outcome::kUsual;
}

// Indices and dtypes in their usual spelling stay.
Outcome convert_attributes(OpCall* call) {
  Op* op = call->op;
  for (int i = op->n_inputs; i < op->n_arguments; ++i) {
    PyObject* value = call->slots[i];
    PyObject* made;
    if (op->arguments[i].kind == 'i') {
      if (PyLong_CheckExact(value) || PySlice_Check(value)) continue;
      PyObject* given[2] = {value, call->slots[0]};
      made = PyObject_Vectorcall(hooks.as_index, given, 2, nullptr);
    } else if (op->arguments[i].kind == 'd') {
      if (value == Py_None) continue;
      made = PyObject_CallOneArg(hooks.as_dtype, value);
    } else {
      continue;
    }
    if (!made) return Outcome::kError;
    call->slots[i] = call->owned.keep(made);
  }
  return Outcome::kUsual;
}

// Rare keywords divert the call to a composite: rare(ops, inputs..., attributes=..., rare=...).
PyObject* call_rare(OpCall* call) {
  Op* op = call->op;
  const int n_named = op->n_arguments - op->n_inputs + op->n_rare;
  PyObject* given[kMost + kMostRare + 1];
  Ref names(PyTuple_New(n_named));
  if (!names) return nullptr;
  given[0] = op->ops;
  int n = 1, k = 0;
  for (int i = 0; i < op->n_arguments; ++i) {
    given[n++] = call->slots[i];
    if (i >= op->n_inputs) PyTuple_SET_ITEM(names.get(), k++, Py_NewRef(op->arguments[i].name));
  }
  for (int i = 0; i < op->n_rare; ++i) {
    given[n++] = call->rare[i];
    PyTuple_SET_ITEM(names.get(), k++, Py_NewRef(op->rare_names[i]));
  }
  return PyObject_Vectorcall(op->rare, given, static_cast<size_t>(op->n_inputs + 1), n_named ? names.get() : nullptr);
}

PyObject* as_object(Op* op) { return reinterpret_cast<PyObject*>(op); }

PyObject* slots_tuple(OpCall* call) {
  const int n = call->op->n_arguments;
  PyObject* values = PyTuple_New(n);
  for (int i = 0; values && i < n; ++i) PyTuple_SET_ITEM(values, i, Py_NewRef(call->slots[i]));
  return values;
}

// The operands are odd: Python makes them usual, and calls again.
PyObject* call_odd(OpCall* call) {
  Ref values(slots_tuple(call));
  if (!values) return nullptr;
  PyObject* given[3] = {as_object(call->op), values.get(), call->out ? call->out : Py_None};
  return PyObject_Vectorcall(hooks.odd, given, 3, nullptr);
}

// The kernel raised: Python says why.
PyObject* call_failed(OpCall* call) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  Ref owned_type(type), owned_error(error), owned_trace(trace), values(slots_tuple(call));
  if (!values) return nullptr;
  PyObject* given[3] = {as_object(call->op), values.get(), error};
  return PyObject_Vectorcall(hooks.failed, given, 3, nullptr);
}

// The slots are filled.
PyObject* run_bound(OpCall* call) {
  Op* op = call->op;
  if (__builtin_expect(call->has_rare, 0)) {
    Ref result(call_rare(call));
    if (!result || !call->out) return result.release();
    PyObject* given[3] = {call->out, op->function.event, result.get()};
    return PyObject_Vectorcall(hooks.put, given, 3, nullptr);
  }
  Outcome outcome = convert_attributes(call);
  if (outcome == Outcome::kUsual) outcome = call->array_form() ? read_arrays(call) : read_operands(call);
  if (__builtin_expect(outcome != Outcome::kUsual, 0)) return outcome == Outcome::kOdd ? call_odd(call) : nullptr;
  bool kernel_failed = false, odd = false;
  PyObject* result;
  if (op->form == Form::kInplace) {
    result = run_inplace(call, &kernel_failed, &odd);
  } else if (__builtin_expect(call->out != nullptr, 0)) {
    result = run_out(call, &kernel_failed, &odd);
  } else {
    result = call_kernel(call);
    kernel_failed = !result;
    if (result) return call->array_form() ? finish_arrays(call, result) : finish(call, result);
  }
  if (result) return result;
  if (odd) return call_odd(call);
  return kernel_failed && !call->array_form() ? call_failed(call) : nullptr;
}

}  // namespace

PyObject* call_op(Op* op, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (__builtin_expect(!op->kernel, 0) && !plan(op)) return nullptr;
  OpCall call(op);
  const Outcome outcome = parse(&call, args, n, names);
  if (__builtin_expect(outcome == Outcome::kUsual, 1)) {
    if (op->form == Form::kReflected) std::swap(call.slots[0], call.slots[1]);
    return run_bound(&call);
  }
  if (outcome == Outcome::kError) return nullptr;
  PyObject *packed, *keywords;
  if (!pack_arguments(args, n, names, &packed, &keywords)) return nullptr;
  Ref positional(packed), named(keywords ? keywords : PyDict_New());
  if (!named) return nullptr;
  PyObject* given[3] = {as_object(op), packed, named.get()};
  return PyObject_Vectorcall(hooks.bind, given, 3, nullptr);
}

PyObject* call_op_bound(Op* op, PyObject* values, PyObject* out) {
  if (!op->kernel && !plan(op)) return nullptr;
  if (!PyTuple_CheckExact(values) || PyTuple_GET_SIZE(values) != op->n_arguments)
    return raise("TypeError", "OpFunction.call_bound: a tuple of %d values is needed", op->n_arguments);
  OpCall call(op);
  for (int i = 0; i < op->n_arguments; ++i) call.slots[i] = PyTuple_GET_ITEM(values, i);
  if (out != Py_None) call.out = out;
  return run_bound(&call);
}

}  // namespace shmtensor
