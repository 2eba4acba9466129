// Calls outside the fast path: rare keywords, the device's rule, the general path in Python; and errors of kernels.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

namespace shmtensor {

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

namespace {

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

}  // namespace

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

}  // namespace shmtensor
