// Making tensors with history, and marking views: what generated dispatch functions call.
#include <cstdlib>
#include <cstring>

#include "graph.h"

#include "bfloat16.h"

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

// Only floating and complex results have gradients.
static bool differentiable(PyObject* array) {
  int type = PyArray_TYPE(reinterpret_cast<PyArrayObject*>(array));
  return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type) || type == bfloat16_num;
}

// record(array, row, edges, *saved) -> Tensor whose node is Node(row, edges, saved).
// A Tensor among the saved is kept as its array, with a check of its version; so is the array itself.
PyObject* record(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !PyArray_Check(args[0]) || !PyTuple_CheckExact(args[2]))
    return raise("TypeError", "record: (array, row, edges, *saved) is needed");
  PyObject* tensor = make_tensor(args[0]);
  if (!tensor || !differentiable(args[0])) return tensor;
  PyObject* node = make_node(args[1], args[2], args + 3, n - 3, args, &tensor, 1);
  if (!node || !describe(reinterpret_cast<Edge*>(node), reinterpret_cast<PyArrayObject*>(args[0]))) {
    Py_XDECREF(node);
    Py_DECREF(tensor);
    return nullptr;
  }
  Py_SETREF(reinterpret_cast<TensorBase*>(tensor)->node, node);
  if (!observed(node)) Py_CLEAR(tensor);
  return tensor;
}

// record_many(arrays: tuple, row, edges, *saved) -> tuple of Tensors; those with a floating dtype get a Port.
PyObject* record_many(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !PyTuple_CheckExact(args[0]) || !PyTuple_CheckExact(args[2]))
    return raise("TypeError", "record_many: (arrays, row, edges, *saved) is needed");
  Py_ssize_t count = PyTuple_GET_SIZE(args[0]);
  PyObject** arrays = reinterpret_cast<PyTupleObject*>(args[0])->ob_item;
  PyObject* tensors = PyTuple_New(count);
  if (!tensors) return nullptr;
  PyObject** items = reinterpret_cast<PyTupleObject*>(tensors)->ob_item;
  PyObject* node = nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    items[i] = make_tensor(arrays[i]);
    if (!items[i]) goto failed;
  }
  node = make_node(args[1], args[2], args + 3, n - 3, arrays, items, count);
  if (!node) goto failed;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!differentiable(arrays[i])) continue;
    PyObject* port = make_port(node, i, arrays[i]);
    if (!port) goto failed;
    Py_SETREF(reinterpret_cast<TensorBase*>(items[i])->node, port);
  }
  if (!observed(node)) goto failed;
  Py_DECREF(node);
  return tensors;
failed:
  Py_XDECREF(node);
  Py_DECREF(tensors);
  return nullptr;
}

namespace {

// Note [What is a view]: a result whose memory belongs to the input's owner. `result.base is not None` alone is also
// true of copies made by fancy indexing.
bool lies_in(PyArrayObject* result, PyArrayObject* x) {
  PyObject* owner = PyArray_BASE(result);
  return owner && (owner == reinterpret_cast<PyObject*>(x) || owner == PyArray_BASE(x));
}

// Note [Unrecorded views]: a view made under no_grad of what requires grad. The count that it has seen is stored as its
// complement: no count is equal to it, so whoever uses the view asks autograd/view.py.
bool is_unrecorded(TensorBase* view, TensorBase* parent, PyObject* row) {
  if (row != Py_None || view->node != Py_None) return false;
  if (parent->node != Py_None) return true;
  if (parent->base == Py_None) return false;
  return PyLong_AsSsize_t(PyTuple_GET_ITEM(parent->base, 1)) < 0;
}

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

}  // namespace

// mark(tensor, parent: Tensor, row or None, attributes): makes it a view of parent if its memory lies there.
PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !is_tensor(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "mark: (tensor, parent, row, attributes) is needed");
  if (!mark_view(args[0], reinterpret_cast<TensorBase*>(args[1]), args[2], args[3])) return nullptr;
  return Py_NewRef(args[0]);
}

// view_of(array, parent: Tensor, row or None, attributes) -> Tensor without history.
PyObject* view_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyArray_Check(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "view_of: (array, parent, row, attributes) is needed");
  PyObject* tensor = make_tensor(args[0]);
  if (tensor && !mark_view(tensor, reinterpret_cast<TensorBase*>(args[1]), args[2], args[3]))
    Py_CLEAR(tensor);
  return tensor;
}

// record_view(array, row, edges, parent: Tensor, attributes, *saved) -> Tensor with history that may be a view.
PyObject* record_view(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 5 || !is_tensor(args[3]))
    return raise("TypeError", "record_view: (array, row, edges, parent, attributes, *saved) is needed");
  PyObject* few[16];
  PyObject* const* given = args;
  Py_ssize_t count = n - 2;
  PyObject** many = few;
  if (count > 16) {
    many = static_cast<PyObject**>(malloc(sizeof(PyObject*) * static_cast<size_t>(count)));
    if (!many) return PyErr_NoMemory();
  }
  for (int i = 0; i < 3; ++i) many[i] = args[i];
  for (Py_ssize_t i = 5; i < n; ++i) many[i - 2] = args[i];
  given = many;
  TensorBase* parent = reinterpret_cast<TensorBase*>(args[3]);
  PyObject* tensor = frozen && parent->version == reinterpret_cast<PyObject*>(frozen)
                         ? make_tensor(args[0])
                         : record(self, given, count);
  if (many != few) free(many);
  if (tensor && !mark_view(tensor, reinterpret_cast<TensorBase*>(args[3]), args[1], args[4]))
    Py_CLEAR(tensor);
  return tensor;
}

// rewrite(tensor, row, edges, *saved): the tensor was written in place; its node becomes Node(row, edges, saved).
// The count of writes is raised: a saved operand that shares the memory is stale from birth, the saved result is not.
PyObject* rewrite(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !is_tensor(args[0]) || !PyTuple_CheckExact(args[2]))
    return raise("TypeError", "rewrite: (tensor, row, edges, *saved) is needed");
  TensorBase* tensor = reinterpret_cast<TensorBase*>(args[0]);
  PyObject* node = make_node(args[1], args[2], args + 3, n - 3, &tensor->array, args, 1, 1);
  if (!node || !describe(reinterpret_cast<Edge*>(node), reinterpret_cast<PyArrayObject*>(tensor->array))) {
    Py_XDECREF(node);
    return nullptr;
  }
  Version* version = version_of(tensor);
  if (!version) {
    Py_DECREF(node);
    return nullptr;
  }
  if (version != frozen) ++version->count;
  Py_SETREF(tensor->node, node);
  if (!observed(node)) return nullptr;
  return Py_NewRef(args[0]);
}

// wrote(tensor): one more in-place write to its memory.
PyObject* wrote(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise("TypeError", "wrote: a Tensor is needed");
  Version* version = version_of(reinterpret_cast<TensorBase*>(tensor));
  if (!version) return nullptr;
  if (version != frozen) ++version->count;
  return Py_NewRef(tensor);
}

}  // namespace shmtensor
