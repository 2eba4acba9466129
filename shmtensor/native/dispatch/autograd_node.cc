// Version, Edge, Node, Port: their types, making, reading and freeing them.
#include "dispatch/device_array.h"
#include "dispatch/function_base.h"

#include "half/bfloat16.h"

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
PyObject* observer;
PyObject* unpacker;

namespace {

// ---------------------------------------------------------------- Version

PyObject* version_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

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
PyType_Spec version_spec = {"shmtensor.native.Version", sizeof(Version), 0, Py_TPFLAGS_DEFAULT, version_slots};

// ---------------------------------------------------------------- Edge

PyObject* edge_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) edge_start(reinterpret_cast<Edge*>(self));
  return self;
}

void edge_clear(Edge* edge) {
  Py_CLEAR(edge->dtype);
  if (edge->sizes != edge->inline_sizes) free(edge->sizes);
  edge->sizes = edge->inline_sizes;
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
  return PyArray_IntTupleFromIntp(edge->ndim, edge->sizes);
}

PyObject* edge_dtype(PyObject* self, void*) {
  PyObject* dtype = reinterpret_cast<PyObject*>(reinterpret_cast<Edge*>(self)->dtype);
  return Py_NewRef(dtype ? dtype : Py_None);
}

PyObject* edge_describe(PyObject* self, PyObject* array) {
  if (!is_array(array)) return raise("TypeError", "Edge.describe: an array is needed");
  if (!describe(reinterpret_cast<Edge*>(self), array)) return nullptr;
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
  int n = node->n_checks;
  node->n_checks = 0;
  node->checks = node->inline_checks;
  Check copy[2];
  bool is_inline = checks == node->inline_checks;
  if (is_inline) {
    memcpy(copy, checks, sizeof copy);
    checks = copy;
  }
  for (int i = 0; i < n; ++i) Py_DECREF(checks[i].version);
  if (!is_inline) free(checks);
}

PyObject* node_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *row, *edges, *saved, *array = Py_None;
  if (!PyArg_ParseTuple(args, "OO!O!|O:Node", &row, &PyTuple_Type, &edges, &PyTuple_Type, &saved, &array)) return nullptr;
  if (type != node_type) return raise("TypeError", "Node: cannot be called on a subclass");
  Py_ssize_t n = PyTuple_GET_SIZE(saved);
  PyObject** items = reinterpret_cast<PyTupleObject*>(saved)->ob_item;
  PyObject* node = make_node(row, edges, items, n, nullptr, nullptr, 0);
  if (node && is_array(array) && !describe(reinterpret_cast<Edge*>(node), array)) Py_CLEAR(node);
  if (node && !notify_observer(node)) Py_CLEAR(node);
  return node;
}

int node_clear(PyObject* self) {
  clear<Node>(self);
  drop_checks(reinterpret_cast<Node*>(self));
  return 0;
}

void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  // Note [Long chains]: node -> edges (a tuple) -> node -> ... is freed without recursion, by the trashcan here and
  // in tuples.
  Py_TRASHCAN_BEGIN(self, node_dealloc) Node* node = reinterpret_cast<Node*>(self);
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
          "backward: Trying to backward through the graph a second time: the saved values of %s are freed. Give "
          "retain_graph=True to the first backward() or grad() if the graph is needed again",
          text);
    Py_DECREF(name);
    return nullptr;
  }
  for (int i = 0; i < node->n_checks; ++i) {
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
  if (node->has_packed && unpacker) return PyObject_CallOneArg(unpacker, node->saved);
  return Py_NewRef(node->saved);
}

// pack(function): saves `function(saved)` instead. If no array remains in it, the counts of writes are no longer
// compared, because the values belong to the hook. Values that are stale already stay, so that reading them is refused.
PyObject* node_pack(PyObject* self, PyObject* function) {
  Node* node = reinterpret_cast<Node*>(self);
  if (!node->saved) Py_RETURN_NONE;
  for (int i = 0; i < node->n_checks; ++i)
    if (node->checks[i].version->count != node->checks[i].count) Py_RETURN_NONE;
  PyObject* result = PyObject_CallOneArg(function, node->saved);
  if (!result) return nullptr;
  if (!PyTuple_CheckExact(result) || PyTuple_GET_SIZE(result) != PyTuple_GET_SIZE(node->saved)) {
    Py_DECREF(result);
    return raise("TypeError", "Node.pack: a tuple of the same length is needed");
  }
  if (result != node->saved) {
    bool has_array = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) has_array |= is_array(PyTuple_GET_ITEM(result, i));
    node->has_packed = true;
    if (!has_array) drop_checks(node);
  }
  Py_SETREF(node->saved, result);
  Py_RETURN_NONE;
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
    {"raw_saved", T_OBJECT, offsetof(Node, saved), READONLY, "the saved values without a check; None: released"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef node_getset[] = {
    {"saved", node_saved, nullptr, "what the pullbacks need, n_checks", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef node_methods[] = {
    {"pack", node_pack, METH_O, "pack(function): replaces the saved values by function(saved)."},
    {"release", node_release, METH_NOARGS, "Frees the saved arrays; a second backward is then an error."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot node_slots[] = {
    {Py_tp_doc, const_cast<char*>("Node(row, edges, saved[, array]): one computed result in the graph.")},
    {Py_tp_new, reinterpret_cast<void*>(node_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Node>)},
    {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
    {Py_tp_members, node_members},
    {Py_tp_getset, node_getset},
    {Py_tp_methods, node_methods},
    {0, nullptr},
};
PyType_Spec node_spec = {"shmtensor.native.Node", sizeof(Node), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, node_slots};

// ---------------------------------------------------------------- Port

}  // namespace

PyObject* make_port(PyObject* node, Py_ssize_t index, PyObject* array) {
  Port* port = reinterpret_cast<Port*>(port_type->tp_alloc(port_type, 0));
  if (!port) return nullptr;
  edge_start(&port->edge);
  port->node = Py_NewRef(node);
  port->index = index;
  if (!describe(&port->edge, array)) {
    Py_DECREF(port);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(port);
}

namespace {

PyObject* port_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *node, *array;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "OnO:Port", &node, &index, &array)) return nullptr;
  if (!is_array(array)) return raise("TypeError", "Port: an array is needed");
  if (type != port_type) return raise("TypeError", "Port: cannot be subclassed");
  return make_port(node, index, array);
}

void port_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, port_dealloc) clear<Port>(self);
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
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Port>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Port>)},
    {Py_tp_members, port_members},
    {0, nullptr},
};
PyType_Spec port_spec = {"shmtensor.native.Port", sizeof(Port), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, port_slots};

bool add_type(PyObject* module, PyType_Spec* spec, PyTypeObject* base, PyTypeObject** out) {
  PyObject* type = base ? PyType_FromSpecWithBases(spec, reinterpret_cast<PyObject*>(base)) : PyType_FromSpec(spec);
  if (!type) return false;
  *out = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddType(module, *out) == 0;
}

}  // namespace

int add_graph_types(PyObject* module) {
  bool ok = add_type(module, &version_spec, nullptr, &version_type) && add_type(module, &edge_spec, nullptr, &edge_type) &&
            add_type(module, &node_spec, edge_type, &node_type) && add_type(module, &port_spec, edge_type, &port_type) &&
            add_type(module, &base_spec, nullptr, &base_type);
  tensor_type = base_type;
  return ok ? 0 : -1;
}

namespace {

// Room for `ndim` sizes. False with an exception set.
bool reserve_sizes(Edge* edge, int ndim) {
  if (ndim > 5 && ndim > edge->ndim) {
    npy_intp* sizes = static_cast<npy_intp*>(malloc(sizeof(npy_intp) * static_cast<size_t>(ndim)));
    if (!sizes) {
      PyErr_NoMemory();
      return false;
    }
    if (edge->sizes != edge->inline_sizes) free(edge->sizes);
    edge->sizes = sizes;
  }
  edge->ndim = ndim;
  return true;
}

bool describe_device_array(Edge* edge, PyObject* array) {
  Ref shape = array_shape(array), dtype = array_dtype(array);
  if (!shape || !dtype || !reserve_sizes(edge, static_cast<int>(PyTuple_GET_SIZE(shape.get())))) return false;
  for (int i = 0; i < edge->ndim; ++i) {
    edge->sizes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape.get(), i));
    if (edge->sizes[i] == -1 && PyErr_Occurred()) return false;
  }
  Py_XSETREF(edge->dtype, reinterpret_cast<PyArray_Descr*>(dtype.release()));
  return true;
}

}  // namespace

__attribute__((hot)) bool describe(Edge* edge, PyObject* x) {
  if (!PyArray_Check(x)) return describe_device_array(edge, x);
  PyArrayObject* array = as_array(x);
  if (!reserve_sizes(edge, PyArray_NDIM(array))) return false;
  for (int i = 0; i < edge->ndim; ++i) edge->sizes[i] = PyArray_DIM(array, i);
  PyArray_Descr* dtype = PyArray_DESCR(array);
  Py_INCREF(dtype);
  Py_XSETREF(edge->dtype, dtype);
  return true;
}

// ---------------------------------------------------------------- new nodes

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

}  // namespace shmtensor
