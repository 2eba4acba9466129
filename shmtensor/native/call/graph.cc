// Version, Edge, Node, Port, TensorBase: making, reading and freeing them.
#include "graph.h"

#include <structmember.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace shmtensor {

PyTypeObject* version_type;
PyTypeObject* edge_type;
PyTypeObject* node_type;
PyTypeObject* port_type;
PyTypeObject* base_type;
PyTypeObject* tensor_type;

namespace {

template <class T>
void untrack_and_free(T* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(reinterpret_cast<PyObject*>(self));
  Py_DECREF(type);
}

// ---------------------------------------------------------------- Version

PyObject* version_new(PyTypeObject* type, PyObject*, PyObject*) {
  return type->tp_alloc(type, 0);
}

void version_dealloc(PyObject* self) { untrack_and_free(self); }

PyMemberDef version_members[] = {
    {"count", T_PYSSIZET, offsetof(Version, count), 0, "in-place writes so far"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot version_slots[] = {
    {Py_tp_doc, const_cast<char*>("Counts in-place writes to memory that tensors share.")},
    {Py_tp_new, reinterpret_cast<void*>(version_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(version_dealloc)},
    {Py_tp_members, version_members},
    {0, nullptr},
};
PyType_Spec version_spec = {"shmtensor.native.Version", sizeof(Version), 0, Py_TPFLAGS_DEFAULT,
                            version_slots};

// ---------------------------------------------------------------- Edge

void edge_start(Edge* edge) {
  edge->dtype = nullptr;
  edge->ndim = 0;
  edge->sizes = edge->few;
}

PyObject* edge_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) edge_start(reinterpret_cast<Edge*>(self));
  return self;
}

void edge_clear(Edge* edge) {
  Py_CLEAR(edge->dtype);
  if (edge->sizes != edge->few) free(edge->sizes);
  edge->sizes = edge->few;
  edge->ndim = 0;
}

int edge_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

void edge_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  edge_clear(reinterpret_cast<Edge*>(self));
  untrack_and_free(self);
}

PyObject* edge_shape(PyObject* self, void*) {
  Edge* edge = reinterpret_cast<Edge*>(self);
  PyObject* shape = PyTuple_New(edge->ndim);
  for (int i = 0; shape && i < edge->ndim; ++i) {
    PyObject* size = PyLong_FromSsize_t(edge->sizes[i]);
    if (!size) {
      Py_CLEAR(shape);
      break;
    }
    PyTuple_SET_ITEM(shape, i, size);
  }
  return shape;
}

PyObject* edge_dtype(PyObject* self, void*) {
  PyObject* dtype = reinterpret_cast<PyObject*>(reinterpret_cast<Edge*>(self)->dtype);
  return Py_NewRef(dtype ? dtype : Py_None);
}

PyObject* edge_describe(PyObject* self, PyObject* array) {
  if (!PyArray_Check(array)) return raise("TypeError", "Edge.describe: an array is needed");
  if (!describe(reinterpret_cast<Edge*>(self), reinterpret_cast<PyArrayObject*>(array)))
    return nullptr;
  Py_RETURN_NONE;
}

PyGetSetDef edge_getset[] = {
    {"shape", edge_shape, nullptr, "shape of the gradient that belongs here", nullptr},
    {"dtype", edge_dtype, nullptr, "dtype of the gradient that belongs here", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef edge_methods[] = {
    {"describe", edge_describe, METH_O, "Takes shape and dtype from an array."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot edge_slots[] = {
    {Py_tp_doc, const_cast<char*>("Where a gradient arrives: its dtype and shape.")},
    {Py_tp_new, reinterpret_cast<void*>(edge_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(edge_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(edge_traverse)},
    {Py_tp_getset, edge_getset},
    {Py_tp_methods, edge_methods},
    {0, nullptr},
};
PyType_Spec edge_spec = {"shmtensor.native.Edge", sizeof(Edge), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, edge_slots};

// ---------------------------------------------------------------- Node

void drop_checks(Node* node) {
  Check* checks = node->checks;
  int n = node->checked;
  node->checked = 0;
  node->checks = node->two;
  Check copy[2];
  bool inside = checks == node->two;
  if (inside) {
    memcpy(copy, checks, sizeof copy);
    checks = copy;
  }
  for (int i = 0; i < n; ++i) Py_DECREF(checks[i].version);
  if (!inside) free(checks);
}

PyObject* node_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *row, *edges, *saved, *array = Py_None;
  if (!PyArg_ParseTuple(args, "OO!O!|O:Node", &row, &PyTuple_Type, &edges, &PyTuple_Type, &saved, &array))
    return nullptr;
  if (type != node_type) return raise("TypeError", "Node: cannot be subclassed");
  Py_ssize_t n = PyTuple_GET_SIZE(saved);
  PyObject** items = reinterpret_cast<PyTupleObject*>(saved)->ob_item;
  PyObject* node = make_node(row, edges, items, n, nullptr, nullptr, 0);
  if (node && PyArray_Check(array) &&
      !describe(reinterpret_cast<Edge*>(node), reinterpret_cast<PyArrayObject*>(array)))
    Py_CLEAR(node);
  return node;
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Node* node = reinterpret_cast<Node*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(node->row);
  Py_VISIT(node->edges);
  Py_VISIT(node->saved);
  Py_VISIT(node->hooks);
  return 0;
}

int node_clear(PyObject* self) {
  Node* node = reinterpret_cast<Node*>(self);
  Py_CLEAR(node->row);
  Py_CLEAR(node->edges);
  Py_CLEAR(node->saved);
  Py_CLEAR(node->hooks);
  drop_checks(node);
  return 0;
}

void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  // Note [Long chains]: node -> edges (a tuple) -> node -> ... is freed without recursion, by the trashcan here and
  // in tuples.
  Py_TRASHCAN_BEGIN(self, node_dealloc)
  Node* node = reinterpret_cast<Node*>(self);
  if (node->weak) PyObject_ClearWeakRefs(self);
  node_clear(self);
  edge_clear(&node->edge);
  untrack_and_free(self);
  Py_TRASHCAN_END
}

PyObject* node_saved(PyObject* self, void*) {
  Node* node = reinterpret_cast<Node*>(self);
  if (!node->saved) {
    PyObject* name = PyObject_GetAttrString(node->row, "name");
    const char* text = name ? PyUnicode_AsUTF8(name) : nullptr;
    if (!text) {
      Py_XDECREF(name);
      return nullptr;
    }
    raise("RuntimeError",
          "backward: Trying to backward through the graph a second time: what %s had saved is freed. Give "
          "retain_graph=True to the first backward() or grad() if the graph is needed again",
          text);
    Py_DECREF(name);
    return nullptr;
  }
  for (int i = 0; i < node->checked; ++i) {
    Check& check = node->checks[i];
    if (check.version->count == check.count) continue;
    PyObject* name = PyObject_GetAttrString(node->row, "name");
    const char* text = name ? PyUnicode_AsUTF8(name) : nullptr;
    if (text) {
      raise("RuntimeError",
            "backward: one of the variables needed for gradient computation has been modified by an inplace "
            "operation: %s saved it at version %zd, it is at version %zd now. Write to a clone() of it, or use the "
            "out-of-place form of the write",
            text, check.count, check.version->count);
    }
    Py_XDECREF(name);
    return nullptr;
  }
  return Py_NewRef(node->saved);
}

PyObject* node_release(PyObject* self, PyObject*) {
  Node* node = reinterpret_cast<Node*>(self);
  if (node->holds_arrays) {
    Py_CLEAR(node->saved);
    drop_checks(node);
  }
  Py_RETURN_NONE;
}

PyMemberDef node_members[] = {
    {"row", T_OBJECT_EX, offsetof(Node, row), READONLY, "what was computed"},
    {"edges", T_OBJECT_EX, offsetof(Node, edges), 0, "where the inputs' gradients go"},
    {"hooks", T_OBJECT_EX, offsetof(Node, hooks), 0, "hooks, or None"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef node_getset[] = {
    {"saved", node_saved, nullptr, "what the pullbacks need, checked", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef node_methods[] = {
    {"release", node_release, METH_NOARGS, "Frees the saved arrays; a second backward is refused then."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot node_slots[] = {
    {Py_tp_doc, const_cast<char*>("Node(row, edges, saved[, array]): one computed result in the graph.")},
    {Py_tp_new, reinterpret_cast<void*>(node_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
    {Py_tp_members, node_members},
    {Py_tp_getset, node_getset},
    {Py_tp_methods, node_methods},
    {0, nullptr},
};
PyType_Spec node_spec = {"shmtensor.native.Node", sizeof(Node), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, node_slots};

// ---------------------------------------------------------------- Port

PyObject* make_port(PyObject* node, Py_ssize_t index, PyObject* array) {
  Port* port = reinterpret_cast<Port*>(port_type->tp_alloc(port_type, 0));
  if (!port) return nullptr;
  edge_start(&port->edge);
  port->node = Py_NewRef(node);
  port->index = index;
  if (!describe(&port->edge, reinterpret_cast<PyArrayObject*>(array))) {
    Py_DECREF(port);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(port);
}

PyObject* port_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *node, *array;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "OnO!:Port", &node, &index, &PyArray_Type, &array)) return nullptr;
  if (type != port_type) return raise("TypeError", "Port: cannot be subclassed");
  return make_port(node, index, array);
}

int port_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Port*>(self)->node);
  return 0;
}

int port_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Port*>(self)->node);
  return 0;
}

void port_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, port_dealloc)
  port_clear(self);
  edge_clear(reinterpret_cast<Edge*>(self));
  untrack_and_free(self);
  Py_TRASHCAN_END
}

PyMemberDef port_members[] = {
    {"node", T_OBJECT_EX, offsetof(Port, node), READONLY, "the node"},
    {"index", T_PYSSIZET, offsetof(Port, index), READONLY, "which of its outputs"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot port_slots[] = {
    {Py_tp_doc, const_cast<char*>("Port(node, index, array): one output of a node that has several.")},
    {Py_tp_new, reinterpret_cast<void*>(port_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(port_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(port_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(port_clear)},
    {Py_tp_members, port_members},
    {0, nullptr},
};
PyType_Spec port_spec = {"shmtensor.native.Port", sizeof(Port), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, port_slots};

// ---------------------------------------------------------------- TensorBase

PyObject* start_tensor(PyTypeObject* type, PyObject* array) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(type->tp_alloc(type, 0));
  if (!tensor) return nullptr;
  tensor->array = Py_NewRef(array);
  tensor->node = Py_NewRef(Py_None);
  tensor->version = Py_NewRef(Py_None);
  tensor->base = Py_NewRef(Py_None);
  tensor->leaf = Py_NewRef(Py_None);
  return reinterpret_cast<PyObject*>(tensor);
}

PyObject* base_new(PyTypeObject* type, PyObject*, PyObject*) { return start_tensor(type, Py_None); }

int base_traverse(PyObject* self, visitproc visit, void* arg) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(tensor->array);
  Py_VISIT(tensor->node);
  Py_VISIT(tensor->version);
  Py_VISIT(tensor->base);
  Py_VISIT(tensor->leaf);
  return 0;
}

int base_clear(PyObject* self) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(self);
  Py_CLEAR(tensor->array);
  Py_CLEAR(tensor->node);
  Py_CLEAR(tensor->version);
  Py_CLEAR(tensor->base);
  Py_CLEAR(tensor->leaf);
  return 0;
}

void base_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, base_dealloc)
  if (reinterpret_cast<TensorBase*>(self)->weak) PyObject_ClearWeakRefs(self);
  base_clear(self);
  untrack_and_free(self);
  Py_TRASHCAN_END
}

PyMemberDef base_members[] = {
    {"array", T_OBJECT_EX, offsetof(TensorBase, array), 0, "the memory"},
    {"node", T_OBJECT_EX, offsetof(TensorBase, node), 0, "its place in the graph, or None"},
    {"version", T_OBJECT_EX, offsetof(TensorBase, version), 0, "counter of in-place writes, or None"},
    {"base", T_OBJECT_EX, offsetof(TensorBase, base), 0, "(parent, count seen, row, attributes)"},
    {"leaf", T_OBJECT_EX, offsetof(TensorBase, leaf), 0, "owner of .grad, or None"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorBase, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot base_slots[] = {
    {Py_tp_doc, const_cast<char*>("The slots of Tensor.")},
    {Py_tp_new, reinterpret_cast<void*>(base_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(base_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(base_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(base_clear)},
    {Py_tp_members, base_members},
    {0, nullptr},
};
PyType_Spec base_spec = {"shmtensor.native.TensorBase", sizeof(TensorBase), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, base_slots};

bool add_type(PyObject* module, PyType_Spec* spec, PyTypeObject* base, PyTypeObject** out) {
  PyObject* type = base ? PyType_FromSpecWithBases(spec, reinterpret_cast<PyObject*>(base))
                        : PyType_FromSpec(spec);
  if (!type) return false;
  *out = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddType(module, *out) == 0;
}

// A check that the tensor's memory is as it is now, when the node is walked.
bool add_check(Node* node, int room, Version* version) {
  if (!version) return false;
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

int add_graph_types(PyObject* module) {
  bool ok = add_type(module, &version_spec, nullptr, &version_type) &&
            add_type(module, &edge_spec, nullptr, &edge_type) &&
            add_type(module, &node_spec, edge_type, &node_type) &&
            add_type(module, &port_spec, edge_type, &port_type) &&
            add_type(module, &base_spec, nullptr, &base_type);
  tensor_type = base_type;
  return ok ? 0 : -1;
}

bool describe(Edge* edge, PyArrayObject* array) {
  int ndim = PyArray_NDIM(array);
  if (ndim > 5 && ndim > edge->ndim) {
    npy_intp* more = static_cast<npy_intp*>(malloc(sizeof(npy_intp) * static_cast<size_t>(ndim)));
    if (!more) {
      PyErr_NoMemory();
      return false;
    }
    if (edge->sizes != edge->few) free(edge->sizes);
    edge->sizes = more;
  }
  for (int i = 0; i < ndim; ++i) edge->sizes[i] = PyArray_DIM(array, i);
  edge->ndim = ndim;
  PyArray_Descr* dtype = PyArray_DESCR(array);
  Py_INCREF(dtype);
  Py_XSETREF(edge->dtype, dtype);
  return true;
}

Version* version_of(TensorBase* tensor) {
  if (tensor->version == Py_None) {
    PyObject* made = version_type->tp_alloc(version_type, 0);
    if (!made) return nullptr;
    Py_SETREF(tensor->version, made);
  }
  return reinterpret_cast<Version*>(tensor->version);
}

PyObject* make_tensor(PyObject* array) { return start_tensor(tensor_type, array); }

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
  return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type);
}

PyObject* set_tensor_class(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base_type))
    return raise("TypeError", "set_tensor_class: a subclass of TensorBase is needed");
  Py_INCREF(type);
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}

PyObject* wrap(PyObject*, PyObject* array) { return make_tensor(array); }

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

bool mark_view(PyObject* result, TensorBase* parent, PyObject* row, PyObject* attributes) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(result);
  if (tensor->array != parent->array &&
      !lies_in(reinterpret_cast<PyArrayObject*>(tensor->array), reinterpret_cast<PyArrayObject*>(parent->array)))
    return true;
  Version* version = version_of(parent);
  if (!version) return false;
  PyObject* count = PyLong_FromSsize_t(version->count);
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
  PyObject* tensor = record(self, given, count);
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
  ++version->count;
  Py_SETREF(tensor->node, node);
  return Py_NewRef(args[0]);
}

// wrote(tensor): one more in-place write to its memory.
PyObject* wrote(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise("TypeError", "wrote: a Tensor is needed");
  Version* version = version_of(reinterpret_cast<TensorBase*>(tensor));
  if (!version) return nullptr;
  ++version->count;
  return Py_NewRef(tensor);
}

}  // namespace shmtensor
