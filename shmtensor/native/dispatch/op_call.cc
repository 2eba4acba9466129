// A call: arguments -> slots, then operands, kernel, result. It also leaves for the general path, in Python.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "kernels/dtype_object.h"
#include "memory/heap/heap.h"

namespace shmtensor {

OpHooks hooks;

// ---------------------------------------------------------------- running a kernel

namespace {

// Converts NumPy's scalars and array subclasses to arrays. Steals the reference; null with an exception set.
PyObject* as_arrays(PyObject* result) {
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
    PyObject* arrays = tuple_of(PySequence_Fast_GET_SIZE(result),
                                [&](Py_ssize_t i) { return as_arrays(Py_NewRef(PySequence_Fast_GET_ITEM(result, i))); });
    Py_DECREF(result);
    return arrays;
  }
  return result;
}

// Are all arrays contiguous, and none of 16-bit floats?
__attribute__((hot)) bool needs_no_policy(PyObject* p) {
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

__attribute__((hot)) PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n,
                                          const KernelPolicy* policy) {
  PyObject* result;
  {
    Gate open;
    if (!open) return nullptr;
    bool as_is = true;
    for (Py_ssize_t i = 0; policy && i < n && as_is; ++i) as_is = needs_no_policy(args[i]);
    if (__builtin_expect(as_is, 1)) {
      result = run_as_is(kernel, args, n);
    } else {
      const auto run = [&](PyObject* const* arguments, Py_ssize_t count) {
        const bool wide = policy->widens && holds_halves(arguments, count);
        return wide ? run_wide(policy->widening, kernel, arguments, count) : run_as_is(kernel, arguments, count);
      };
      result = policy->formatted ? run_formatted(policy->format, run, kernel, args, n) : run(args, n);
    }
    if (result && !PyArray_CheckExact(result)) result = as_arrays(result);
  }
  if (!result && PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("allocate");
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
  PyObject* tensors =
      tuple_of(PyTuple_GET_SIZE(result), [&](Py_ssize_t i) { return make_tensor(PyTuple_GET_ITEM(result, i)); });
  Py_DECREF(result);
  return tensors;
}

}  // namespace

// For Python. The kernel may overwrite args[0], as PY_VECTORCALL_ARGUMENTS_OFFSET allows.
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
  if (is_tensor(args[0]) && !check_inference_write(reinterpret_cast<TensorBase*>(args[0]))) return nullptr;
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
    if (op->arguments[i].kind == 'i') {
      if (PyLong_CheckExact(value) || PySlice_Check(value)) continue;
      PyObject* arguments[2] = {value, call->slots[0]};
      converted = PyObject_Vectorcall(hooks.as_index, arguments, 2, nullptr);
    } else if (op->arguments[i].kind == 'd') {
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

// A call with a rare keyword runs a composite: rare(ops, inputs..., attributes=..., rare=...).
PyObject* call_rare(OpCall* call) {
  Op* op = call->op;
  const int n_keywords = op->n_arguments - op->n_inputs + op->n_rare;
  PyObject* arguments[kMaxArguments + kMaxRare + 1];
  Ref names(PyTuple_New(n_keywords));
  if (!names) return nullptr;
  arguments[0] = op->ops;
  int n = 1, k = 0;
  for (int i = 0; i < op->n_arguments; ++i) {
    arguments[n++] = call->slots[i];
    if (i >= op->n_inputs) PyTuple_SET_ITEM(names.get(), k++, Py_NewRef(op->arguments[i].name));
  }
  for (int i = 0; i < op->n_rare; ++i) {
    arguments[n++] = call->rare[i];
    PyTuple_SET_ITEM(names.get(), k++, Py_NewRef(op->rare_names[i]));
  }
  return PyObject_Vectorcall(op->rare, arguments, static_cast<size_t>(op->n_inputs + 1), n_keywords ? names.get() : nullptr);
}

PyObject* as_object(Op* op) { return reinterpret_cast<PyObject*>(op); }

PyObject* slots_tuple(OpCall* call) {
  return tuple_of(call->op->n_arguments, [&](Py_ssize_t i) { return Py_NewRef(call->slots[i]); });
}

// Is every tensor among the operands plain, and is one of them on the device?
__attribute__((cold, noinline)) bool is_call_on_device(OpCall* call) {
  bool found = false;
  const auto read = [&](PyObject* x) {
    if (!is_tensor(x)) return true;
    found |= Py_TYPE(reinterpret_cast<TensorBase*>(x)->array) == device_array_type;
    return is_plain(x);
  };
  for (int i = 0; i < call->op->n_inputs; ++i) {
    PyObject* x = call->slots[i];
    if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) {
      if (!read(x)) return false;
      continue;
    }
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(x); ++j)
      if (!read(PySequence_Fast_GET_ITEM(x, j))) return false;
  }
  return found;
}

// The same call of the device's rule.
__attribute__((cold, noinline)) PyObject* call_twin(OpCall* call, PyObject* values) {
  Op* op = call->op;
  if (!op->twin && !(op->twin = PyObject_CallOneArg(hooks.twin, as_object(op)))) return nullptr;
  return call_op_bound(reinterpret_cast<Op*>(op->twin), values, call->out ? call->out : Py_None);
}

// The general path: Python converts the operands, and calls again.
PyObject* call_general(OpCall* call) {
  Ref values(slots_tuple(call));
  if (!values) return nullptr;
  if (device_array_type && !call->op->on_device && is_call_on_device(call)) return call_twin(call, values.get());
  PyObject* arguments[3] = {as_object(call->op), values.get(), call->out ? call->out : Py_None};
  return PyObject_Vectorcall(hooks.call_general, arguments, 3, nullptr);
}

// The kernel raised: Python explains the error.
PyObject* explain_failure(OpCall* call) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  Ref owned_type(type), owned_error(error), owned_trace(trace), values(slots_tuple(call));
  if (!values) return nullptr;
  PyObject* arguments[3] = {as_object(call->op), values.get(), error};
  return PyObject_Vectorcall(hooks.explain, arguments, 3, nullptr);
}

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

}  // namespace

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

PyObject* call_op_bound(Op* op, PyObject* values, PyObject* out) {
  if (!op->kernel && !plan(op)) return nullptr;
  if (!PyTuple_CheckExact(values) || PyTuple_GET_SIZE(values) != op->n_arguments)
    return raise("TypeError", "OpFunction.call_bound: a tuple of %d values is needed", op->n_arguments);
  OpCall call(op);
  for (int i = 0; i < op->n_arguments; ++i) call.slots[i] = PyTuple_GET_ITEM(values, i);
  if (out != Py_None) call.out = out;
  return run_slots(&call);
}

}  // namespace shmtensor
