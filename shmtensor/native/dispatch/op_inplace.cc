// In-place forms: the kernel writes the first input, or its result is copied there. And `out=`.
#include "dispatch/op_function.h"

namespace shmtensor {

namespace {

// Checks that the tensor may be written. A plain one that is no view and no leaf always may.
bool may_write(TensorBase* x, bool record_it) {
  if (!may_write_frozen(x)) return false;
  const bool computed = PyObject_TypeCheck(x->node, node_type) || Py_TYPE(x->node) == port_type;
  if (x->base == Py_None && (!record_it || computed || x->node == Py_None)) return true;
  Ref done(PyObject_CallOneArg(record_it ? hooks.may_write : hooks.may_forget, reinterpret_cast<PyObject*>(x)));
  return static_cast<bool>(done);
}

// A copy of the first input, if a pullback needs what it was. Null with or without an exception.
PyObject* old_value(OpCall* call, PyObject* array) {
  for (int i = 0; i < call->op->n_saved; ++i) {
    const Item& item = call->op->saved_items[i];
    if (item.what == What::kInput && item.index == 0 && (!item.mask || item.mask & call->tracked))
      return call->owned.keep(PyArray_NewCopy(as_array(array), NPY_KEEPORDER));
  }
  return nullptr;
}

PyObject* record_write(OpCall* call, PyObject* result, PyObject* old) {
  Op* op = call->op;
  TensorBase* x = reinterpret_cast<TensorBase*>(call->slots[0]);
  Ref edges(edges_of(call)), seen(Py_NewRef(x->array));
  if (!edges) return nullptr;
  if (op->keeps) {  // (the written array, what the kernel kept...)
    const Py_ssize_t n = PyTuple_GET_SIZE(result);
    seen = Ref(PyTuple_New(n));
    if (!seen) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i)
      PyTuple_SET_ITEM(seen.get(), i, Py_NewRef(i ? PyTuple_GET_ITEM(result, i) : x->array));
  }
  Values given;
  given.push(call->slots[0]);
  given.push(op->rule);
  given.push(edges.get());
  if (!push_saved(call, seen.get(), old, &given)) return nullptr;
  if (x->base == Py_None && x->leaf == Py_None)
    return rewrite(x, op->rule, edges.get(), given.data() + 3, given.size() - 3);
  return PyObject_Vectorcall(hooks.written, given.data(), static_cast<size_t>(given.size()), nullptr);
}

// May the kernel write `x`'s values straight into an array like `out`?
bool same_form(PyObject* x, PyArrayObject* out, bool recorded) {
  if (PyFloat_CheckExact(x)) return true;
  if (!is_tensor(x)) return false;
  const TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  if (recorded && (tensor->node != Py_None || tensor->base != Py_None)) return false;
  PyArrayObject* array = as_array(tensor->array);
  return PyArray_DESCR(array) == PyArray_DESCR(out) && PyArray_SAMESHAPE(array, out);
}

}  // namespace

PyObject* run_inplace(OpCall* call, bool* kernel_failed, bool* odd) {
  Op* op = call->op;
  TensorBase* x = reinterpret_cast<TensorBase*>(call->slots[0]);
  PyObject* array = x->array;
  if (!call->nodes[0] && !(call->nodes[0] = node_of(x))) return nullptr;
  if (call->nodes[0] != Py_None) call->tracked |= 1;
  const bool record_it = call->tracked && recording();
  if (record_it && !op->n_differentiable) {  // nothing flows back through it: out of place, and a recorded copy
    *odd = true;
    return nullptr;
  }
  if (!may_write(x, record_it)) return nullptr;
  PyObject* old = record_it ? old_value(call, array) : nullptr;
  if (PyErr_Occurred()) return nullptr;
  Ref result(call_kernel(call, op->writes ? array : nullptr));
  *kernel_failed = !result;
  if (!result) return nullptr;
  if (!op->writes) {
    PyObject* from = PyTuple_CheckExact(result.get()) ? PyTuple_GET_ITEM(result.get(), 0) : result.get();
    if (PyArray_CopyInto(as_array(array), as_array(from)) < 0) {
      *kernel_failed = true;
      return nullptr;
    }
  }
  if (!record_it || !is_differentiable(array)) return wrote(nullptr, call->slots[0]);
  return record_write(call, result.get(), old);
}

PyObject* run_out(OpCall* call, bool* kernel_failed, bool* odd) {
  Op* op = call->op;
  *odd = true;
  if (!op->writes_out || !is_plain_class(Py_TYPE(call->out))) return nullptr;
  TensorBase* out = reinterpret_cast<TensorBase*>(call->out);
  if (!PyArray_CheckExact(out->array)) return nullptr;
  PyArrayObject* array = as_array(out->array);
  const bool recorded = recording();
  if (PyArray_TYPE(array) != NPY_FLOAT && PyArray_TYPE(array) != NPY_DOUBLE) return nullptr;
  if (recorded && (out->node != Py_None || out->base != Py_None)) return nullptr;
  for (int i = 0; i < op->n_inputs; ++i)
    if (!same_form(call->slots[i], array, recorded)) return nullptr;
  *odd = false;
  if (!may_write_frozen(out)) return nullptr;
  Ref result(call_kernel(call, out->array));
  *kernel_failed = !result;
  return result ? wrote(nullptr, call->out) : nullptr;
}

}  // namespace shmtensor
