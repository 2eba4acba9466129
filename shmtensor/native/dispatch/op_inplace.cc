// Writes to tensors: in-place forms and `out=`, where the kernel writes the tensor or its result is copied there; writes
// that Python makes.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "memory/ledger/block.h"

namespace shmtensor {

namespace {

PyObject* write_watcher = nullptr;

// Calls the watcher if another process made the memory. False with an exception set.
__attribute__((noinline, cold)) bool tell_watcher(TensorBase* tensor) {
  if (!PyArray_Check(tensor->array) || !is_of_another_process(PyArray_DATA(as_array(tensor->array)))) return true;
  Ref watcher(Py_NewRef(write_watcher));  // it may set another one
  return static_cast<bool>(Ref(PyObject_CallOneArg(watcher.get(), reinterpret_cast<PyObject*>(tensor))));
}

}  // namespace

PyObject* count_write(TensorBase* tensor) {
  Version* version = version_of(tensor);
  if (!version) return nullptr;
  if (version != frozen) ++version->count;
  if (__builtin_expect(write_watcher != nullptr, 0) && !tell_watcher(tensor)) return nullptr;
  return Py_NewRef(reinterpret_cast<PyObject*>(tensor));
}

PyObject* rewrite(TensorBase* tensor, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n) {
  PyObject* self = reinterpret_cast<PyObject*>(tensor);
  Ref node(make_node(row, edges, saved, n, &tensor->array, &self, 1, 1));
  if (!node || !describe(reinterpret_cast<Edge*>(node.get()), tensor->array)) return nullptr;
  Ref written(count_write(tensor));
  if (!written) return nullptr;
  Py_SETREF(tensor->node, Py_NewRef(node.get()));
  return notify_observer(node.get()) ? written.release() : nullptr;
}

PyObject* rewrite(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !is_tensor(args[0]) || !PyTuple_CheckExact(args[2]))
    return raise("TypeError", "rewrite: (tensor, row, edges, *saved) is needed");
  return rewrite(reinterpret_cast<TensorBase*>(args[0]), args[1], args[2], args + 3, n - 3);
}

// wrote(tensor): counts one in-place write to its memory.
PyObject* wrote(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise("TypeError", "wrote: a Tensor is needed");
  return count_write(reinterpret_cast<TensorBase*>(tensor));
}

// watch_writes(function or None): Note [Watched writes].
PyObject* watch_writes(PyObject*, PyObject* function) {
  PyObject* former = write_watcher;
  write_watcher = function == Py_None ? nullptr : Py_NewRef(function);
  Py_XDECREF(former);
  Py_RETURN_NONE;
}

PyObject* write(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return raise("TypeError", "write: (tensor, kernel, *arguments) is needed");
  if (is_tensor(args[0]) && !check_inference_write(reinterpret_cast<TensorBase*>(args[0]))) return nullptr;
  PyObject* result = run_kernel(args[1], args + 2, n - 2);
  if (!result) return nullptr;
  Py_DECREF(result);
  return wrote(self, args[0]);
}

// ---------------------------------------------------------------- in-place forms

namespace {

// Checks that the tensor may be written. A tensor that is neither a view nor a leaf always may.
bool check_write(TensorBase* x, bool records) {
  if (!check_inference_write(x)) return false;
  const bool computed = PyObject_TypeCheck(x->node, node_type) || Py_TYPE(x->node) == port_type;
  if (x->base == Py_None && (!records || computed || x->node == Py_None)) return true;
  PyObject* check = records ? hooks.check_recorded_write : hooks.check_unrecorded_write;
  return static_cast<bool>(Ref(PyObject_CallOneArg(check, reinterpret_cast<PyObject*>(x))));
}

// A copy of the first input, if a pullback needs its value before the write. Null with or without an exception.
PyObject* old_value(OpCall* call, PyObject* array) {
  for (int i = 0; i < call->op->n_saved; ++i) {
    const Item& item = call->op->saved_items[i];
    if (item.what == What::kInput && item.index == 0 && (!item.mask || item.mask & call->tracked))
      return call->owned.keep(copy_of(array).release());
  }
  return nullptr;
}

PyObject* record_write(OpCall* call, PyObject* result, PyObject* old) {
  Op* op = call->op;
  TensorBase* x = reinterpret_cast<TensorBase*>(call->slots[0]);
  Ref edges(edges_of(call)), written_result(Py_NewRef(x->array));
  if (!edges) return nullptr;
  if (op->keeps) {  // (the written array, the kernel's extra values...)
    const Py_ssize_t n = PyTuple_GET_SIZE(result);
    written_result = Ref(PyTuple_New(n));
    if (!written_result) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i)
      PyTuple_SET_ITEM(written_result.get(), i, Py_NewRef(i ? PyTuple_GET_ITEM(result, i) : x->array));
  }
  Values arguments;
  arguments.push(call->slots[0]);
  arguments.push(op->rule);
  arguments.push(edges.get());
  if (!push_saved(call, written_result.get(), old, &arguments)) return nullptr;
  if (x->base == Py_None && x->accumulate_grad == Py_None)
    return rewrite(x, op->rule, edges.get(), arguments.data() + 3, arguments.size() - 3);
  return PyObject_Vectorcall(hooks.rewrite_history, arguments.data(), static_cast<size_t>(arguments.size()), nullptr);
}

// Does operand `x` have the dtype and shape of `out`, and no history, so that the kernel may write to `out` itself?
bool can_write_into(PyObject* x, PyArrayObject* out, bool records) {
  if (PyFloat_CheckExact(x)) return true;
  if (!is_tensor(x)) return false;
  const TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  if (records && (tensor->node != Py_None || tensor->base != Py_None)) return false;
  PyArrayObject* array = as_array(tensor->array);
  return PyArray_DESCR(array) == PyArray_DESCR(out) && PyArray_SAMESHAPE(array, out);
}

}  // namespace

PyObject* run_inplace(OpCall* call, bool* kernel_failed, bool* needs_general) {
  Op* op = call->op;
  TensorBase* x = reinterpret_cast<TensorBase*>(call->slots[0]);
  PyObject* array = x->array;
  if (!call->nodes[0] && !(call->nodes[0] = node_of(x))) return nullptr;
  if (call->nodes[0] != Py_None) call->tracked |= 1;
  const bool records = call->tracked && recording();
  if (records && !op->n_differentiable) {  // no gradient flows through it: out of place, and a recorded copy
    *needs_general = true;
    return nullptr;
  }
  if (!check_write(x, records)) return nullptr;
  PyObject* old = records ? old_value(call, array) : nullptr;
  if (PyErr_Occurred()) return nullptr;
  Ref result(call_kernel(call, op->writes ? array : nullptr));
  *kernel_failed = !result;
  if (!result) return nullptr;
  if (!op->writes) {
    PyObject* source = PyTuple_CheckExact(result.get()) ? PyTuple_GET_ITEM(result.get(), 0) : result.get();
    if (!copy_into(array, source)) {
      *kernel_failed = true;
      return nullptr;
    }
  }
  if (!records || !is_differentiable(array)) return count_write(x);
  return record_write(call, result.get(), old);
}

PyObject* run_out(OpCall* call, bool* kernel_failed, bool* needs_general) {
  Op* op = call->op;
  *needs_general = true;
  if (!op->writes_out || !is_plain_class(Py_TYPE(call->out))) return nullptr;
  TensorBase* out = reinterpret_cast<TensorBase*>(call->out);
  if (!PyArray_CheckExact(out->array)) return nullptr;
  PyArrayObject* array = as_array(out->array);
  const bool records = recording();
  if (PyArray_TYPE(array) != NPY_FLOAT && PyArray_TYPE(array) != NPY_DOUBLE) return nullptr;
  if (records && (out->node != Py_None || out->base != Py_None)) return nullptr;
  for (int i = 0; i < op->n_inputs; ++i)
    if (!can_write_into(call->slots[i], array, records)) return nullptr;
  *needs_general = false;
  if (!check_inference_write(out)) return nullptr;
  Ref result(call_kernel(call, out->array));
  *kernel_failed = !result;
  return result ? count_write(out) : nullptr;
}

}  // namespace shmtensor
