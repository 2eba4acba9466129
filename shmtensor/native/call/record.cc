// Making tensors with history, and marking views.
#include <cstdlib>
#include <cstring>

#include "graph.h"

#include "bfloat16.h"
#include "compute/array.h"

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

PyObject* record(PyObject* array, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n) {
  Ref tensor(make_tensor(array));
  if (!tensor || !differentiable(array)) return tensor.release();
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
    if (!differentiable(arrays[i])) continue;
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
// complement: no count is equal to it, so whoever uses the view asks autograd/view.py.
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

}  // namespace shmtensor
