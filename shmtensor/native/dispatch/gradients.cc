// Gradients: what a node of an op does in a backward. gradients(node, g) calls the row's pullbacks with what they name:
// the gradient, the table of ops, saved values, a place to write to.
//
// On plain arrays; or on Tensors (`create_graph`), where saved arrays become Tensors again, with their history.
#include "dispatch/op_function.h"

#include "memory/gradient_buffer.h"

#include <structmember.h>

#include <cstddef>
#include <utility>

namespace shmtensor {

namespace {

struct Pullback {
  PyObject* function;
  int n;
  Item items[kMost];
};

// How a saved value becomes a Tensor: kInput: with the node of edge `index` (-1: none); kOutput: with this node, or its
// output `index`; kConstant: without a node; kAttribute: it stays as it is.
struct Gradients {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  bool tensors;
  bool listed_outputs;    // g is a list of any length
  bool listed_saved;      // the arrays of a listed input are saved, after the others
  int listed_at;          // the pullback of a listed input; -1: none
  int n_saved, n_outputs, n_pullbacks, n_zeros;
  Item saved[kMost];
  Item zeros[kMost];      // (kZeros, which saved value, mask: which output)
  Pullback* pullbacks;
  PyObject *event, *ops, *offered, *make_zeros;  // offered(edge) -> an array to write to, or None

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&event, &ops, &offered, &make_zeros}) visit(*p);
    for (int i = 0; i < n_pullbacks; ++i) visit(pullbacks[i].function);
  }
};

Gradients* as_gradients(PyObject* self) { return reinterpret_cast<Gradients*>(self); }

// One run of a node backward.
struct Backward {
  Gradients* plan;
  Node* node;
  PyObject* saved[kMost + 1];  // borrowed; a listed input's list comes last
  PyObject* g[kMost];          // borrowed: one for each output; of a listed row, the list
  Owned owned;

  PyObject* edge(Py_ssize_t i) const { return PyTuple_GET_ITEM(node->edges, i); }
  Py_ssize_t more() const {  // how many edges a listed input has beyond one
    return plan->listed_at < 0 ? 0 : PyTuple_GET_SIZE(node->edges) - plan->n_pullbacks;
  }
  bool read_saved();
  bool read_gradients(PyObject* given);
  bool read_listed_gradients(PyObject* given, PyObject* likenesses);
  PyObject* with_edge(PyObject* array, PyObject* edge);
  PyObject* as_tensor(PyObject* value, const Item& how);
  PyObject* call(const Pullback& pullback, PyObject* edge);
  PyObject* run();
};

// A saved array as a Tensor again; numbers stay.
PyObject* Backward::with_edge(PyObject* array, PyObject* edge) {
  if (!PyArray_Check(array)) return array;
  PyObject* tensor = owned.keep(make_tensor(array));
  if (tensor) Py_SETREF(reinterpret_cast<TensorBase*>(tensor)->node, Py_NewRef(edge));
  return tensor;
}

PyObject* Backward::as_tensor(PyObject* value, const Item& how) {
  switch (how.what) {
    case What::kInput: {
      // edges after a listed input's lie further on
      const int i = how.index;
      return with_edge(value, i < 0 ? Py_None : edge(i + (plan->listed_at >= 0 && i > plan->listed_at ? more() : 0)));
    }
    case What::kOutput: {
      if (!PyArray_Check(value)) return value;
      PyObject* self = reinterpret_cast<PyObject*>(node);
      if (plan->n_outputs == 1) return with_edge(value, self);
      PyObject* port = owned.keep(make_port(self, how.index, value));
      return port ? with_edge(value, port) : nullptr;
    }
    case What::kConstant:
      return with_edge(value, Py_None);
    default:
      return value;
  }
}

bool Backward::read_saved() {
  PyObject* values = owned.keep(PyObject_GetAttrString(reinterpret_cast<PyObject*>(node), "saved"));  // checked
  if (!values) return false;
  if (PyTuple_GET_SIZE(values) < plan->n_saved) return raise("RuntimeError", "backward: a node without its values");
  for (int i = 0; i < plan->n_saved; ++i) {
    saved[i] = PyTuple_GET_ITEM(values, i);
    if (plan->tensors && !(saved[i] = as_tensor(saved[i], plan->saved[i]))) return false;
  }
  if (!plan->listed_saved) return true;
  const Py_ssize_t n = PyTuple_GET_SIZE(values) - plan->n_saved;
  PyObject* list = owned.keep(PyList_New(n));
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    PyObject* value = PyTuple_GET_ITEM(values, plan->n_saved + i);
    if (plan->tensors) value = with_edge(value, plan->listed_at < 0 ? Py_None : edge(plan->listed_at + i));
    if (!value) return false;
    PyList_SET_ITEM(list, i, Py_NewRef(value));
  }
  saved[plan->n_saved] = list;
  return list != nullptr;
}

// A gradient that did not come is zeros.
bool Backward::read_listed_gradients(PyObject* given, PyObject* likenesses) {
  const Py_ssize_t n = PyList_GET_SIZE(likenesses);
  PyObject* list = owned.keep(PyList_New(n));
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    PyObject* one = i < PyList_GET_SIZE(given) ? PyList_GET_ITEM(given, i) : Py_None;
    one = one == Py_None ? PyObject_CallOneArg(plan->make_zeros, PyList_GET_ITEM(likenesses, i)) : Py_NewRef(one);
    if (!one) return false;
    PyList_SET_ITEM(list, i, one);
  }
  g[0] = list;
  return list != nullptr;
}

bool Backward::read_gradients(PyObject* given) {
  if (plan->listed_outputs) return read_listed_gradients(given, saved[plan->zeros[0].index]);
  if (plan->n_outputs == 1) {
    g[0] = given;
    return true;
  }
  for (int i = 0; i < plan->n_outputs; ++i) g[i] = i < PyList_GET_SIZE(given) ? PyList_GET_ITEM(given, i) : Py_None;
  for (int i = 0; i < plan->n_zeros; ++i) {
    const Item& zero = plan->zeros[i];
    if (g[zero.mask] != Py_None) continue;
    if (!(g[zero.mask] = owned.keep(PyObject_CallOneArg(plan->make_zeros, saved[zero.index])))) return false;
  }
  return true;
}

PyObject* Backward::call(const Pullback& pullback, PyObject* to) {
  PyObject* space[kMost + 1];  // space[0] is the callee's to overwrite
  PyObject** given = space + 1;
  Ref into;
  for (int i = 0; i < pullback.n; ++i) {
    const Item& item = pullback.items[i];
    switch (item.what) {
      case What::kGradient:
        given[i] = g[item.index];
        break;
      case What::kOps:
        given[i] = plan->ops;
        break;
      case What::kInto:
        into = Ref(plan->tensors || !to ? Py_NewRef(Py_None) : PyObject_CallOneArg(plan->offered, to));
        if (!into) return nullptr;
        given[i] = into.get();
        break;
      default:
        given[i] = saved[item.index];
    }
  }
  return PyObject_Vectorcall(pullback.function, given,
                             static_cast<size_t>(pullback.n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

PyObject* Backward::run() {
  Ref result(PyTuple_New(PyTuple_GET_SIZE(node->edges)));
  Py_ssize_t at = 0;
  for (int p = 0; result && p < plan->n_pullbacks; ++p) {
    const Pullback& pullback = plan->pullbacks[p];
    const Py_ssize_t n = p == plan->listed_at ? more() + 1 : 1;
    bool needed = plan->n_pullbacks == 1 && p != plan->listed_at;
    for (Py_ssize_t i = 0; i < n && !needed; ++i) needed = edge(at + i) != Py_None;
    Ref made(needed ? call(pullback, p == plan->listed_at ? nullptr : edge(at)) : Py_NewRef(Py_None));
    if (!made) return nullptr;
    if (p != plan->listed_at) {
      PyTuple_SET_ITEM(result.get(), at++, made.release());
      continue;
    }
    Ref items(made.get() == Py_None ? PyTuple_New(0) : PySequence_Fast(made.get(), "backward: a list is needed"));
    if (!items) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) {
      const bool there = i < PySequence_Fast_GET_SIZE(items.get());
      PyTuple_SET_ITEM(result.get(), at++, Py_NewRef(there ? PySequence_Fast_GET_ITEM(items.get(), i) : Py_None));
    }
  }
  return result.release();
}

PyObject* run(Gradients* plan, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyObject_TypeCheck(args[0], node_type)) return raise("TypeError", "Gradients: (node, gradient) is needed");
  if (plan->n_outputs > 1 && !PyList_CheckExact(args[1]))
    return raise("TypeError", "Gradients: a list of %d gradients is needed", plan->n_outputs);
  Backward backward;
  backward.plan = plan;
  backward.node = reinterpret_cast<Node*>(args[0]);
  if (!backward.read_saved() || !backward.read_gradients(args[1])) return nullptr;
  return backward.run();
}

PyObject* gradients_call(PyObject* self, PyObject* const* args, size_t flags, PyObject*) {
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (const uint32_t found = modes_of(kObserved)) return call_in_mode(found, self, args, n, nullptr);
  return run(as_gradients(self), args, n);
}

PyObject* gradients_unobserved(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return run(as_gradients(self), args, n);
}

// ---------------------------------------------------------------- the type

// Gradients(event, pullbacks: ((function, items), ...), saved, zeros, n_outputs, listed_at, flags, ops, offered,
// make_zeros); flags: 1 tensors, 2 listed outputs, 4 a listed input is saved.
PyObject* gradients_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *event, *pullbacks, *saved, *zeros, *ops, *offered, *make_zeros;
  int n_outputs, listed_at;
  unsigned flags;
  if (!PyArg_ParseTuple(args, "UO!OOiiIOOO:Gradients", &event, &PyTuple_Type, &pullbacks, &saved, &zeros, &n_outputs,
                        &listed_at, &flags, &ops, &offered, &make_zeros))
    return nullptr;
  Ref owned(type->tp_alloc(type, 0));
  Gradients* plan = as_gradients(owned.get());
  if (!plan) return nullptr;
  if (n_outputs > kMost) return raise("ValueError", "Gradients: too many outputs: %d", n_outputs);
  plan->vectorcall = gradients_call;
  plan->tensors = flags & 1;
  plan->listed_outputs = flags & 2;
  plan->listed_saved = flags & 4;
  plan->listed_at = listed_at;
  plan->n_outputs = n_outputs;
  plan->event = Py_NewRef(event);
  plan->ops = Py_NewRef(ops);
  plan->offered = Py_NewRef(offered);
  plan->make_zeros = Py_NewRef(make_zeros);
  const Py_ssize_t n = PyTuple_GET_SIZE(pullbacks);
  plan->pullbacks = static_cast<Pullback*>(PyMem_Calloc(static_cast<size_t>(n), sizeof(Pullback)));
  if (!plan->pullbacks) return PyErr_NoMemory();
  if (!read_items("Gradients", saved, plan->saved, &plan->n_saved) || !read_items("Gradients", zeros, plan->zeros, &plan->n_zeros)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Pullback& pullback = plan->pullbacks[i];
    PyObject *function, *items;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pullbacks, i), "OO", &function, &items) ||
        !read_items("Gradients", items, pullback.items, &pullback.n))
      return nullptr;
    pullback.function = Py_NewRef(function);
    ++plan->n_pullbacks;
  }
  return owned.release();
}

void gradients_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear<Gradients>(self);
  PyMem_Free(as_gradients(self)->pullbacks);
  untrack_and_free(as_gradients(self));
}

PyObject* gradients_repr(PyObject* self) { return PyUnicode_FromFormat("<%U>", as_gradients(self)->event); }

PyMethodDef gradients_methods[] = {
    {"unobserved", method(gradients_unobserved), METH_FASTCALL, "The call, which no mode looks at."},
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef gradients_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Gradients, vectorcall), READONLY, nullptr},
    {"event", T_OBJECT_EX, offsetof(Gradients, event), READONLY, "its name in a profile"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot gradients_slots[] = {
    {Py_tp_doc, const_cast<char*>("Gradients(node, g): what flows to the inputs of an op.")},
    {Py_tp_new, reinterpret_cast<void*>(gradients_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(gradients_repr)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Gradients>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Gradients>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(gradients_dealloc)},
    {Py_tp_methods, gradients_methods},
    {Py_tp_members, gradients_members},
    {0, nullptr},
};
PyType_Spec gradients_spec = {"shmtensor.native.Gradients", sizeof(Gradients), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, gradients_slots};

// ---------------------------------------------------------------- what becomes `.grad`

// The array that `.grad` of a tensor is laid like: the tensor's, if it lives and has the gradient's shape.
Ref laid_like(PyArrayObject* gradient, PyObject* weak) {
  Ref tensor(PyObject_CallNoArgs(weak));
  if (!tensor) return tensor;
  if (is_tensor(tensor.get())) {
    PyObject* array = reinterpret_cast<TensorBase*>(tensor.get())->array;
    if (PyArray_Check(array) && PyArray_SAMESHAPE(as_array(array), gradient)) return Ref(Py_NewRef(array));
  }
  Py_INCREF(gradient);
  return Ref(gradient);
}

// The dictionary's value, and now the caller's alone. Empty with an exception set.
Ref popped(PyObject* dictionary, PyObject* key) {
  Ref value(Py_XNewRef(PyDict_GetItemWithError(dictionary, key)));
  if (!value) {
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
  } else if (PyDict_DelItem(dictionary, key) < 0) {
    return Ref();
  }
  return value;
}

// The gradient's memory if nobody else sees it, the grad_buffer's if that is free, else a copy.
Ref taken_over(Ref gradient, PyObject* tensor, PyObject* grad_buffer) {
  const bool is_alone = is_seen_by_caller_alone(gradient.get());
  if (grad_buffer != Py_None) {
    if (owns_gradient(grad_buffer, gradient.get())) {
      if (is_alone) return gradient;
    } else {
      Ref own(take_gradient(grad_buffer));
      if (!own || own.get() != Py_None)
        return own && PyArray_CopyInto(own.array(), gradient.array()) < 0 ? Ref() : std::move(own);
    }
  }
  Ref like = laid_like(gradient.array(), tensor);
  if (!like) return like;
  const bool owns_memory = PyArray_CHKFLAGS(gradient.array(), NPY_ARRAY_OWNDATA);
  if (is_alone && owns_memory && obeys_layout_contract(gradient.array(), like.array())) return gradient;
  return by_layout_contract(gradient.array(), like.array());
}

// steal_gradient(sums: dict, leaf, tensor: weak reference, grad_buffer: GradientBuffer or None): takes the leaf's gradient out of the
// walk's sums; what becomes `.grad`. What is no array becomes it as it is.
// Note [Taking over a gradient] in autograd/engine/run_backward.py.
PyObject* steal_gradient(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyDict_CheckExact(args[0]) || (args[3] != Py_None && Py_TYPE(args[3]) != gradient_buffer_type))
    return raise("TypeError", "steal_gradient: (sums, leaf, tensor, grad_buffer) is needed");
  Ref gradient = popped(args[0], args[1]);
  if (!gradient || !PyArray_Check(gradient.get())) return gradient.release();
  Ref array = taken_over(std::move(gradient), args[2], args[3]);
  return array ? make_tensor(array.get()) : nullptr;
}

// in_layout_of_grad(gradient, tensor: weak reference): the gradient if it lies as `.grad` of the tensor has to, else a copy
// that does.
PyObject* in_layout_of_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyArray_Check(args[0])) return raise("TypeError", "in_layout_of_grad: (gradient, tensor) is needed");
  Ref like = laid_like(as_array(args[0]), args[1]);
  if (!like) return nullptr;
  if (obeys_layout_contract(as_array(args[0]), like.array())) return Py_NewRef(args[0]);
  return by_layout_contract(as_array(args[0]), like.array()).release();
}

PyMethodDef functions[] = {
    {"steal_gradient", method(steal_gradient), METH_FASTCALL,
     "steal_gradient(sums, leaf, tensor, grad_buffer): takes the leaf's gradient out of the sums; what becomes .grad."},
    {"in_layout_of_grad", method(in_layout_of_grad), METH_FASTCALL,
     "in_layout_of_grad(gradient, tensor): the gradient or a copy, as .grad of a weakly referred tensor lies."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_gradients(PyObject* module) {
  Ref type(PyType_FromSpec(&gradients_spec));
  if (!type || PyModule_AddObjectRef(module, "Gradients", type.get()) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
