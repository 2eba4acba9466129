// The kernel's arrays -> Tensors, with a node if history is recorded.
//
// First nodes, views and writes, which Python uses, too. Then the results of an op, in the order of its columns. One
// file, because a result and its node are read together.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "half/bfloat16.h"
#include "memory/ledger/block.h"

#include <cstdlib>
#include <cstring>

namespace shmtensor {

namespace {

// A check that the tensor's memory is unchanged when the node runs.
bool add_check(Node* node, int capacity, Version* version) {
  if (!version) return false;
  if (version == frozen)
    return raise("RuntimeError",
                 "autograd: Inference tensors cannot be saved for backward: make a clone() outside inference_mode() and use "
                 "that");
  if (node->n_checks == 2 && node->checks == node->inline_checks) {
    Check* checks = static_cast<Check*>(malloc(sizeof(Check) * static_cast<size_t>(capacity)));
    if (!checks) {
      PyErr_NoMemory();
      return false;
    }
    memcpy(checks, node->inline_checks, sizeof node->inline_checks);
    node->checks = checks;
  }
  Py_INCREF(version);
  node->checks[node->n_checks++] = {version, version->count};
  return true;
}

}  // namespace

bool notify_observer(PyObject* node) {
  if (!observer) return true;
  PyObject* current = Py_NewRef(observer);  // the call may replace it
  PyObject* result = PyObject_CallOneArg(current, node);
  Py_DECREF(current);
  Py_XDECREF(result);
  return result != nullptr;
}

__attribute__((hot)) PyObject* make_node(PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n,
                                         PyObject* const* outputs, PyObject* const* tensors, Py_ssize_t n_outputs,
                                         Py_ssize_t ahead) {
  Node* node = reinterpret_cast<Node*>(node_type->tp_alloc(node_type, 0));
  if (!node) return nullptr;
  edge_start(&node->edge);
  node->checks = node->inline_checks;
  node->row = Py_NewRef(row);
  node->edges = Py_NewRef(edges);
  node->hooks = Py_NewRef(Py_None);
  node->saved = PyTuple_New(n);
  if (!node->saved) goto error;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* value = saved[i];
    int capacity = static_cast<int>(n);
    if (is_tensor(value)) {
      TensorBase* tensor = reinterpret_cast<TensorBase*>(value);
      if (!add_check(node, capacity, version_of(tensor))) goto error;
      value = tensor->array;
      node->holds_arrays = true;
    } else if (is_array(value)) {
      node->holds_arrays = true;
      for (Py_ssize_t j = 0; j < n_outputs; ++j) {
        if (value != outputs[j]) continue;
        if (!add_check(node, capacity, version_of(reinterpret_cast<TensorBase*>(tensors[j])))) goto error;
        node->checks[node->n_checks - 1].count += ahead;
      }
    }
    PyTuple_SET_ITEM(node->saved, i, Py_NewRef(value));
  }
  return reinterpret_cast<PyObject*>(node);
error:
  Py_DECREF(node);
  return nullptr;
}

bool is_differentiable(PyObject* array) {
  int type;
  if (__builtin_expect(PyArray_Check(array), 1)) {
    type = PyArray_TYPE(as_array(array));
  } else {
    const PyArray_Descr* dtype = device_dtype(array);
    if (!dtype) PyErr_Clear();
    type = dtype ? dtype->type_num : NPY_VOID;
  }
  return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type) || type == bfloat16_num;
}

__attribute__((hot)) PyObject* record(PyObject* array, PyObject* row, PyObject* edges, PyObject* const* saved,
                                      Py_ssize_t n) {
  Ref tensor(make_tensor(array));
  if (!tensor || !is_differentiable(array)) return tensor.release();
  PyObject* output = tensor.get();
  Ref node(make_node(row, edges, saved, n, &array, &output, 1));
  if (!node || !describe(reinterpret_cast<Edge*>(node.get()), array)) return nullptr;
  Py_SETREF(reinterpret_cast<TensorBase*>(output)->node, Py_NewRef(node.get()));
  return notify_observer(node.get()) ? tensor.release() : nullptr;
}

PyObject* record_many(PyObject* results, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n) {
  const Py_ssize_t count = PyTuple_GET_SIZE(results);
  PyObject** arrays = reinterpret_cast<PyTupleObject*>(results)->ob_item;
  Ref tensors(PyTuple_New(count));
  if (!tensors) return nullptr;
  PyObject** items = reinterpret_cast<PyTupleObject*>(tensors.get())->ob_item;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!(items[i] = make_tensor(arrays[i]))) return nullptr;
  Ref node(make_node(row, edges, saved, n, arrays, items, count));
  if (!node) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_differentiable(arrays[i])) continue;
    PyObject* port = make_port(node.get(), i, arrays[i]);
    if (!port) return nullptr;
    Py_SETREF(reinterpret_cast<TensorBase*>(items[i])->node, port);
  }
  return notify_observer(node.get()) ? tensors.release() : nullptr;
}

namespace {

// Note [What is a view]: a result is a view if its memory has the input's owner. `result.base is not None` is also true
// of copies by advanced indexing.
bool shares_memory(PyObject* result, PyObject* x) {
  if (PyArray_Check(result) && PyArray_Check(x)) {
    PyObject* owner = PyArray_BASE(as_array(result));
    return owner && (owner == x || owner == PyArray_BASE(as_array(x)));
  }
  if (!is_device_array(result) || !is_device_array(x)) return false;
  Ref owner = array_base(result), other = array_base(x);
  if (!owner || !other) PyErr_Clear();
  return owner && other && owner.get() != Py_None && (owner.get() == x || owner.get() == other.get());
}

// Note [Unrecorded views]: a view, made under no_grad, of a tensor that requires grad. Its version count is stored as
// the complement, which equals no count, so each use of the view calls autograd/engine/views_and_inplace.py.
bool is_unrecorded(TensorBase* view, TensorBase* parent, PyObject* row) {
  if (row != Py_None || view->node != Py_None) return false;
  if (parent->node != Py_None) return true;
  if (parent->base == Py_None) return false;
  return PyLong_AsSsize_t(PyTuple_GET_ITEM(parent->base, 1)) < 0;
}

}  // namespace

bool mark_view(PyObject* result, TensorBase* parent, PyObject* row, PyObject* attributes) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(result);
  if (tensor->array != parent->array && !shares_memory(tensor->array, parent->array)) return true;
  Version* version = version_of(parent);
  if (!version) return false;
  if (version == frozen) {  // a view of an inference tensor is an inference tensor without a base
    Py_SETREF(tensor->version, Py_NewRef(reinterpret_cast<PyObject*>(version)));
    return true;
  }
  PyObject* count = PyLong_FromSsize_t(is_unrecorded(tensor, parent, row) ? ~version->count : version->count);
  PyObject* base = count ? PyTuple_Pack(4, parent, count, row, attributes) : nullptr;
  Py_XDECREF(count);
  if (!base) return false;
  Py_SETREF(tensor->base, base);
  Py_SETREF(tensor->version, Py_NewRef(reinterpret_cast<PyObject*>(version)));
  return true;
}

PyObject* make_view(PyObject* array, TensorBase* parent, PyObject* row, PyObject* attributes) {
  Ref tensor(make_tensor(array));
  return tensor && mark_view(tensor.get(), parent, row, attributes) ? tensor.release() : nullptr;
}

PyObject* record_view(PyObject* array, PyObject* row, PyObject* edges, TensorBase* parent, PyObject* attributes,
                      PyObject* const* saved, Py_ssize_t n) {
  const bool is_frozen = frozen && parent->version == reinterpret_cast<PyObject*>(frozen);
  Ref tensor(is_frozen ? make_tensor(array) : record(array, row, edges, saved, n));
  return tensor && mark_view(tensor.get(), parent, row, attributes) ? tensor.release() : nullptr;
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

// ---------------------------------------------------------------- for Python

PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !is_tensor(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "mark: (tensor, parent, row, attributes) is needed");
  if (!mark_view(args[0], reinterpret_cast<TensorBase*>(args[1]), args[2], args[3])) return nullptr;
  return Py_NewRef(args[0]);
}

PyObject* view_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !is_array(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "view_of: (array, parent, row, attributes) is needed");
  return make_view(args[0], reinterpret_cast<TensorBase*>(args[1]), args[2], args[3]);
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

// ---------------------------------------------------------------- results of an op

namespace {

// For a number: () or None.
PyObject* shape_or_dtype(PyObject* x, bool shape) {
  if (!is_array(x)) return shape ? PyTuple_New(0) : Py_NewRef(Py_None);
  return shape ? array_shape(x).release() : array_dtype(x).release();
}

PyObject* shapes_or_dtypes(PyObject* list, bool shape) {
  return list_of(PyList_GET_SIZE(list), [&](Py_ssize_t i) { return shape_or_dtype(PyList_GET_ITEM(list, i), shape); });
}

// (shape, dtype), from which zeros replace a missing gradient.
PyObject* shape_dtype(PyObject* array) {
  Ref shape = array_shape(array), dtype = array_dtype(array);
  return shape && dtype ? PyTuple_Pack(2, shape.get(), dtype.get()) : nullptr;
}

PyObject* shape_dtypes(PyObject* arrays) {
  return list_of(PyTuple_GET_SIZE(arrays), [&](Py_ssize_t i) { return shape_dtype(PyTuple_GET_ITEM(arrays, i)); });
}

PyObject* output(OpCall* call, PyObject* result, int index) {
  return PyTuple_CheckExact(result) && !call->op->listed ? PyTuple_GET_ITEM(result, index) : result;
}

PyObject* attributes_of(OpCall* call) {
  Op* op = call->op;
  return tuple_of(op->n_arguments - op->n_inputs, [&](Py_ssize_t i) { return Py_NewRef(call->slots[op->n_inputs + i]); });
}

// The outputs without the kernel's extra values for pullbacks. New reference.
PyObject* only_outputs(Op* op, PyObject* result) {
  if (op->listed || PyTuple_GET_SIZE(result) == op->n_outputs) return Py_NewRef(result);
  return PyTuple_GetSlice(result, 0, op->n_outputs);
}

// Marks several outputs as views of the first input, which may not be written in grad mode. Steals; passes null.
PyObject* mark_views(OpCall* call, PyObject* tensors) {
  if (!tensors || !call->op->view) return tensors;
  Ref owned(tensors), none(PyTuple_New(0));
  TensorBase* parent = reinterpret_cast<TensorBase*>(call->slots[0]);
  if (!none) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    if (!mark_view(PyTuple_GET_ITEM(tensors, i), parent, Py_None, none.get())) return nullptr;
  }
  return owned.release();
}

// The named tuple of several outputs. Steals; passes null.
PyObject* with_names(Op* op, PyObject* tensors) {
  if (!tensors || op->listed || op->result == Py_None) return tensors;
  Ref owned(tensors);
  PyObject* arguments[2] = {op->result, tensors};
  static PyObject* make = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__");
  return make ? PyObject_Vectorcall(make, arguments, 2, nullptr) : nullptr;
}

PyObject* without_history(OpCall* call, PyObject* result) {
  Op* op = call->op;
  if (op->view && !op->has_many_outputs()) {
    Ref attributes(attributes_of(call));
    if (!attributes) return nullptr;
    // A view made under no_grad() has no rule: it may not be written in grad mode.
    return make_view(result, reinterpret_cast<TensorBase*>(call->slots[0]), call->tracked ? Py_None : op->rule,
                     attributes.get());
  }
  if (!op->has_many_outputs()) return make_tensor(output(call, result, 0));
  const Py_ssize_t n = op->listed ? PyTuple_GET_SIZE(result) : op->n_outputs;
  PyObject* tensors = tuple_of(n, [&](Py_ssize_t i) { return make_tensor(PyTuple_GET_ITEM(result, i)); });
  return with_names(op, mark_views(call, tensors));
}

__attribute__((hot)) PyObject* with_history(OpCall* call, PyObject* result) {
  Op* op = call->op;
  Ref edges(edges_of(call));
  Values saved;
  if (!edges || !push_saved(call, result, nullptr, &saved)) return nullptr;
  if (op->has_many_outputs()) {
    Ref outputs(only_outputs(op, result));
    if (!outputs) return nullptr;
    PyObject* tensors = record_many(outputs.get(), op->rule, edges.get(), saved.data(), saved.size());
    return with_names(op, mark_views(call, tensors));
  }
  PyObject* array = output(call, result, 0);
  if (!op->view) return record(array, op->rule, edges.get(), saved.data(), saved.size());
  Ref attributes(attributes_of(call));
  if (!attributes) return nullptr;
  return record_view(array, op->rule, edges.get(), reinterpret_cast<TensorBase*>(call->slots[0]), attributes.get(),
                     saved.data(), saved.size());
}

}  // namespace

__attribute__((hot)) PyObject* call_kernel(OpCall* call, PyObject* last) {
  Op* op = call->op;
  PyObject* space[kMaxArguments + 2];  // the callee may overwrite space[0]
  PyObject** arguments = space + 1;
  int n = op->n_kernel;
  for (int i = 0; i < n; ++i) {
    const Item& item = op->kernel_items[i];
    arguments[i] = item.what == What::kInput       ? call->arrays[item.index]
                   : item.what == What::kAttribute ? call->slots[item.index]
                                                   : PyTuple_GET_ITEM(op->constants, item.index);
  }
  if (last) arguments[n++] = last;
  return run_kernel(op->kernel, arguments, n, &op->policy);
}

// One per differentiable input, and one per tensor of a listed input.
PyObject* edges_of(OpCall* call) {
  Op* op = call->op;
  if (call->list_nodes && op->n_differentiable == 1) return Py_NewRef(call->list_nodes);
  const Py_ssize_t extra = call->list_nodes ? PyTuple_GET_SIZE(call->list_nodes) - 1 : 0;
  PyObject* edges = PyTuple_New(op->n_differentiable + extra);
  Py_ssize_t n = 0;
  for (int i = 0; edges && i < op->n_inputs; ++i) {
    if (!op->arguments[i].differentiable) continue;
    if (!op->arguments[i].listed) {
      PyTuple_SET_ITEM(edges, n++, Py_NewRef(call->nodes[i] ? call->nodes[i] : Py_None));
      continue;
    }
    for (Py_ssize_t j = 0; j <= extra; ++j) PyTuple_SET_ITEM(edges, n++, Py_NewRef(PyTuple_GET_ITEM(call->list_nodes, j)));
  }
  return edges;
}

__attribute__((hot)) bool push_saved(OpCall* call, PyObject* result, PyObject* old, Values* values) {
  Op* op = call->op;
  for (int i = 0; i < op->n_saved; ++i) {
    const Item& item = op->saved_items[i];
    const bool listed = item.index < op->n_inputs && op->arguments[item.index].listed;
    switch (item.what) {
      case What::kInput: {
        PyObject* x = call->slots[item.index];
        if (listed) {
          for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(x); ++j) values->push(PySequence_Fast_GET_ITEM(x, j));
        } else if (item.mask && !(item.mask & call->tracked)) {
          values->push(Py_None);
        } else {
          values->push(item.index == 0 && old ? old : x);
        }
        break;
      }
      case What::kShape:
      case What::kDtype: {
        const bool shape = item.what == What::kShape;
        PyObject* x = call->arrays[item.index];
        PyObject* value = call->owned.keep(listed ? shapes_or_dtypes(x, shape) : shape_or_dtype(x, shape));
        if (!value) return false;
        values->push(value);
        break;
      }
      case What::kOutput: values->push(output(call, result, item.index)); break;
      case What::kZeros: {
        PyObject* value =
            call->owned.keep(op->listed ? shape_dtypes(result) : shape_dtype(output(call, result, item.index)));
        if (!value) return false;
        values->push(value);
        break;
      }
      default: values->push(call->slots[item.index]);
    }
  }
  return true;
}

__attribute__((hot)) PyObject* finish(OpCall* call, PyObject* result) {
  Ref owned(result);
  return call->tracked && recording() ? with_history(call, result) : without_history(call, result);
}

PyObject* finish_arrays(OpCall* call, PyObject* result) {
  Op* op = call->op;
  if (!PyTuple_CheckExact(result) || op->listed) return result;
  Ref owned(result);
  if (op->n_outputs == 1) return Py_NewRef(PyTuple_GET_ITEM(result, 0));
  return only_outputs(op, result);
}

}  // namespace shmtensor
