// The kernel's arrays -> Tensors, with a node where history is recorded.
//
// First what any recorded call needs: nodes, views and writes, for the ops below and for Python. Then the results of an
// op, in the order of its columns. One file, because a result and its node are read together.
#include "dispatch/op_function.h"

#include "half/bfloat16.h"

#include <cstdlib>
#include <cstring>

namespace shmtensor {

namespace {

// A check that the tensor's memory is as it is now, when the node is walked.
bool add_check(Node* node, int room, Version* version) {
  if (!version) return false;
  if (version == frozen) {
    raise("RuntimeError",
          "autograd: Inference tensors cannot be saved for backward: make a clone() outside inference_mode() and use "
          "that");
    return false;
  }
  if (node->checked == 2 && node->checks == node->two) {
    Check* more = static_cast<Check*>(malloc(sizeof(Check) * static_cast<size_t>(room)));
    if (!more) {
      PyErr_NoMemory();
      return false;
    }
    memcpy(more, node->two, sizeof node->two);
    node->checks = more;
  }
  Py_INCREF(version);
  node->checks[node->checked++] = {version, version->count};
  return true;
}

}  // namespace

// Shows a node that is complete to whoever looks. False: exception set.
bool observed(PyObject* node) {
  if (!observer) return true;
  PyObject* kept = Py_NewRef(observer);  // it may be taken away meanwhile
  PyObject* result = PyObject_CallOneArg(kept, node);
  Py_DECREF(kept);
  Py_XDECREF(result);
  return result != nullptr;
}

PyObject* make_node(PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n,
                    PyObject* const* outputs, PyObject* const* tensors, Py_ssize_t n_outputs,
                    Py_ssize_t ahead) {
  Node* node = reinterpret_cast<Node*>(node_type->tp_alloc(node_type, 0));
  if (!node) return nullptr;
  edge_start(&node->edge);
  node->checks = node->two;
  node->row = Py_NewRef(row);
  node->edges = Py_NewRef(edges);
  node->hooks = Py_NewRef(Py_None);
  node->saved = PyTuple_New(n);
  if (!node->saved) goto failed;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* value = saved[i];
    int room = static_cast<int>(n);
    if (is_tensor(value)) {
      TensorBase* tensor = reinterpret_cast<TensorBase*>(value);
      if (!add_check(node, room, version_of(tensor))) goto failed;
      value = tensor->array;
      node->holds_arrays = true;
    } else if (PyArray_Check(value)) {
      node->holds_arrays = true;
      for (Py_ssize_t j = 0; j < n_outputs; ++j) {
        if (value != outputs[j]) continue;
        if (!add_check(node, room, version_of(reinterpret_cast<TensorBase*>(tensors[j])))) goto failed;
        node->checks[node->checked - 1].count += ahead;
      }
    }
    PyTuple_SET_ITEM(node->saved, i, Py_NewRef(value));
  }
  return reinterpret_cast<PyObject*>(node);
failed:
  Py_DECREF(node);
  return nullptr;
}

bool is_differentiable(PyObject* array) {
  const int type = PyArray_TYPE(as_array(array));
  return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type) || type == bfloat16_num;
}

PyObject* record(PyObject* array, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n) {
  Ref tensor(make_tensor(array));
  if (!tensor || !is_differentiable(array)) return tensor.release();
  PyObject* made = tensor.get();
  Ref node(make_node(row, edges, saved, n, &array, &made, 1));
  if (!node || !describe(reinterpret_cast<Edge*>(node.get()), reinterpret_cast<PyArrayObject*>(array))) return nullptr;
  Py_SETREF(reinterpret_cast<TensorBase*>(made)->node, Py_NewRef(node.get()));
  return observed(node.get()) ? tensor.release() : nullptr;
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
  return observed(node.get()) ? tensors.release() : nullptr;
}

namespace {

// Note [What is a view]: a result whose memory belongs to the input's owner. `result.base is not None` alone is also
// true of copies made by fancy indexing.
bool lies_in(PyArrayObject* result, PyArrayObject* x) {
  PyObject* owner = PyArray_BASE(result);
  return owner && (owner == reinterpret_cast<PyObject*>(x) || owner == PyArray_BASE(x));
}

// Note [Unrecorded views]: a view made under no_grad of what requires grad. The count that it has seen is stored as its
// complement: no count is equal to it, so whoever uses the view asks autograd/engine/views_and_inplace.py.
bool is_unrecorded(TensorBase* view, TensorBase* parent, PyObject* row) {
  if (row != Py_None || view->node != Py_None) return false;
  if (parent->node != Py_None) return true;
  if (parent->base == Py_None) return false;
  return PyLong_AsSsize_t(PyTuple_GET_ITEM(parent->base, 1)) < 0;
}

}  // namespace

bool mark_view(PyObject* result, TensorBase* parent, PyObject* row, PyObject* attributes) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(result);
  if (tensor->array != parent->array &&
      !lies_in(reinterpret_cast<PyArrayObject*>(tensor->array), reinterpret_cast<PyArrayObject*>(parent->array)))
    return true;
  Version* version = version_of(parent);
  if (!version) return false;
  if (version == frozen) {  // inference tensors have no history: a view is one like them, and has no base
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
  if (!node || !describe(reinterpret_cast<Edge*>(node.get()), reinterpret_cast<PyArrayObject*>(tensor->array)))
    return nullptr;
  Version* version = version_of(tensor);
  if (!version) return nullptr;
  if (version != frozen) ++version->count;
  Py_SETREF(tensor->node, Py_NewRef(node.get()));
  return observed(node.get()) ? Py_NewRef(self) : nullptr;
}

// ---------------------------------------------------------------- for Python

PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !is_tensor(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "mark: (tensor, parent, row, attributes) is needed");
  if (!mark_view(args[0], reinterpret_cast<TensorBase*>(args[1]), args[2], args[3])) return nullptr;
  return Py_NewRef(args[0]);
}

PyObject* view_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyArray_Check(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "view_of: (array, parent, row, attributes) is needed");
  return make_view(args[0], reinterpret_cast<TensorBase*>(args[1]), args[2], args[3]);
}

PyObject* rewrite(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !is_tensor(args[0]) || !PyTuple_CheckExact(args[2]))
    return raise("TypeError", "rewrite: (tensor, row, edges, *saved) is needed");
  return rewrite(reinterpret_cast<TensorBase*>(args[0]), args[1], args[2], args + 3, n - 3);
}

// wrote(tensor): one more in-place write to its memory.
PyObject* wrote(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise("TypeError", "wrote: a Tensor is needed");
  Version* version = version_of(reinterpret_cast<TensorBase*>(tensor));
  if (!version) return nullptr;
  if (version != frozen) ++version->count;
  return Py_NewRef(tensor);
}

// ---------------------------------------------------------------- results of an op

namespace {

PyObject* shape_tuple(PyArrayObject* a) {
  PyObject* shape = PyTuple_New(PyArray_NDIM(a));
  for (int i = 0; shape && i < PyArray_NDIM(a); ++i) {
    PyObject* size = PyLong_FromSsize_t(PyArray_DIM(a, i));
    if (!size) Py_CLEAR(shape);
    else PyTuple_SET_ITEM(shape, i, size);
  }
  return shape;
}

// Of a number: () and None.
PyObject* shape_or_dtype(PyObject* x, bool shape) {
  if (!PyArray_Check(x)) return shape ? PyTuple_New(0) : Py_NewRef(Py_None);
  if (shape) return shape_tuple(as_array(x));
  return Py_NewRef(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array(x))));
}

PyObject* shapes_or_dtypes(PyObject* list, bool shape) {
  PyObject* made = PyList_New(PyList_GET_SIZE(list));
  for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = shape_or_dtype(PyList_GET_ITEM(list, i), shape);
    if (!item) Py_CLEAR(made);
    else PyList_SET_ITEM(made, i, item);
  }
  return made;
}

// (shape, dtype): what zeros in the place of a missing gradient are made of.
PyObject* likeness(PyObject* array) {
  Ref shape(shape_tuple(as_array(array)));
  return shape ? PyTuple_Pack(2, shape.get(), PyArray_DESCR(as_array(array))) : nullptr;
}

PyObject* likenesses(PyObject* arrays) {
  PyObject* made = PyList_New(PyTuple_GET_SIZE(arrays));
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(arrays); ++i) {
    PyObject* item = likeness(PyTuple_GET_ITEM(arrays, i));
    if (!item) Py_CLEAR(made);
    else PyList_SET_ITEM(made, i, item);
  }
  return made;
}

PyObject* output(OpCall* call, PyObject* result, int index) {
  return PyTuple_CheckExact(result) && !call->op->listed ? PyTuple_GET_ITEM(result, index) : result;
}

PyObject* attributes_of(OpCall* call) {
  Op* op = call->op;
  PyObject* made = PyTuple_New(op->n_arguments - op->n_inputs);
  for (int i = op->n_inputs; made && i < op->n_arguments; ++i)
    PyTuple_SET_ITEM(made, i - op->n_inputs, Py_NewRef(call->slots[i]));
  return made;
}

// The outputs without what the kernel kept for pullbacks. New reference.
PyObject* outputs_alone(Op* op, PyObject* result) {
  if (op->listed || PyTuple_GET_SIZE(result) == op->n_outputs) return Py_NewRef(result);
  return PyTuple_GetSlice(result, 0, op->n_outputs);
}

// Several outputs that are views of the first input may not be written in grad mode. Steals; null passes.
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

// Steals; null passes.
PyObject* with_names(Op* op, PyObject* tensors) {
  if (!tensors || op->listed || op->result == Py_None) return tensors;
  Ref owned(tensors);
  PyObject* given[2] = {op->result, tensors};
  static PyObject* make = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__");
  return make ? PyObject_Vectorcall(make, given, 2, nullptr) : nullptr;
}

PyObject* without_history(OpCall* call, PyObject* result) {
  Op* op = call->op;
  if (op->view && !op->many()) {
    Ref attributes(attributes_of(call));
    if (!attributes) return nullptr;
    // A view made under no_grad() has no rule: it may not be written in grad mode.
    return make_view(result, reinterpret_cast<TensorBase*>(call->slots[0]), call->tracked ? Py_None : op->rule,
                     attributes.get());
  }
  if (!op->many()) return make_tensor(output(call, result, 0));
  const Py_ssize_t n = op->listed ? PyTuple_GET_SIZE(result) : op->n_outputs;
  PyObject* made = PyTuple_New(n);
  for (Py_ssize_t i = 0; made && i < n; ++i) {
    PyObject* tensor = make_tensor(PyTuple_GET_ITEM(result, i));
    if (!tensor) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, i, tensor);
  }
  return with_names(op, mark_views(call, made));
}

PyObject* with_history(OpCall* call, PyObject* result) {
  Op* op = call->op;
  Ref edges(edges_of(call));
  Values saved;
  if (!edges || !push_saved(call, result, nullptr, &saved)) return nullptr;
  if (op->many()) {
    Ref shown(outputs_alone(op, result));
    if (!shown) return nullptr;
    PyObject* tensors = record_many(shown.get(), op->rule, edges.get(), saved.data(), saved.size());
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

PyObject* call_kernel(OpCall* call, PyObject* last) {
  Op* op = call->op;
  PyObject* space[kMost + 2];  // space[0] is the callee's to overwrite
  PyObject** given = space + 1;
  int n = op->n_kernel;
  for (int i = 0; i < n; ++i) {
    const Item& item = op->kernel_items[i];
    given[i] = item.what == What::kInput       ? call->arrays[item.index]
               : item.what == What::kAttribute ? call->slots[item.index]
                                               : PyTuple_GET_ITEM(op->constants, item.index);
  }
  if (last) given[n++] = last;
  return run_kernel(op->kernel, given, n, &op->policy);
}

// One per differentiable input; those of a listed input lie side by side.
PyObject* edges_of(OpCall* call) {
  Op* op = call->op;
  if (call->list_nodes && op->n_differentiable == 1) return Py_NewRef(call->list_nodes);
  const Py_ssize_t more = call->list_nodes ? PyTuple_GET_SIZE(call->list_nodes) - 1 : 0;
  PyObject* edges = PyTuple_New(op->n_differentiable + more);
  Py_ssize_t n = 0;
  for (int i = 0; edges && i < op->n_inputs; ++i) {
    if (!op->arguments[i].differentiable) continue;
    if (!op->arguments[i].listed) {
      PyTuple_SET_ITEM(edges, n++, Py_NewRef(call->nodes[i] ? call->nodes[i] : Py_None));
      continue;
    }
    for (Py_ssize_t j = 0; j <= more; ++j) PyTuple_SET_ITEM(edges, n++, Py_NewRef(PyTuple_GET_ITEM(call->list_nodes, j)));
  }
  return edges;
}

bool push_saved(OpCall* call, PyObject* result, PyObject* old, Values* values) {
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
        PyObject* made = call->owned.keep(listed ? shapes_or_dtypes(x, shape) : shape_or_dtype(x, shape));
        if (!made) return false;
        values->push(made);
        break;
      }
      case What::kOutput:
        values->push(output(call, result, item.index));
        break;
      case What::kZeros: {
        PyObject* made = call->owned.keep(op->listed ? likenesses(result) : likeness(output(call, result, item.index)));
        if (!made) return false;
        values->push(made);
        break;
      }
      default:
        values->push(call->slots[item.index]);
    }
  }
  return true;
}

PyObject* finish(OpCall* call, PyObject* result) {
  Ref owned(result);
  return call->tracked && recording() ? with_history(call, result) : without_history(call, result);
}

PyObject* finish_arrays(OpCall* call, PyObject* result) {
  Op* op = call->op;
  if (!PyTuple_CheckExact(result) || op->listed) return result;
  Ref owned(result);
  if (op->n_outputs == 1) return Py_NewRef(PyTuple_GET_ITEM(result, 0));
  return outputs_alone(op, result);
}

}  // namespace shmtensor
