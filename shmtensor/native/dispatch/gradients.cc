// Gradients: what a node of an op does in a backward. gradients(node, g) calls the row's pullbacks with the arguments
// that they name: the gradient, the table of ops, saved values, an array to write to. A joint pullback is called once for
// all inputs, and told which gradients are needed. gradients(node, g, nodes) computes those gradients alone whose edge
// leads to one of the nodes, which are the keys of a dictionary; the others are None.
//
// It runs on plain arrays, or on Tensors (`create_graph`), where saved arrays become Tensors with their history.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "memory/device/device_lock.h"
#include "memory/gradient_buffer.h"

#include <structmember.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace shmtensor {

namespace {

struct Pullback {
  PyObject* function;
  int n;
  Item items[kMaxArguments];
};

// How a saved value becomes a Tensor: kInput: with the node of edge `index` (-1: none); kOutput: with this node, or its
// output `index`; kConstant: without a node; kAttribute: unchanged.
struct Gradients {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  bool tensors;
  bool listed_outputs;    // g is a list of any length
  bool listed_saved;      // the arrays of a listed input are saved last
  int listed_at;          // index of the listed input among the differentiable ones; -1: none
  int n_joint;            // the number of inputs of a joint pullback; 0: each differentiable input has its own
  int n_saved, n_outputs, n_pullbacks, n_zeros;
  Item saved[kMaxArguments];
  Item zeros[kMaxArguments];      // (kZeros, which saved value, mask: which output)
  Pullback* pullbacks;
  PyObject *event, *ops, *take_buffer, *make_zeros;  // take_buffer(edge) -> an array to write to, or None

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&event, &ops, &take_buffer, &make_zeros}) visit(*p);
    for (int i = 0; i < n_pullbacks; ++i) visit(pullbacks[i].function);
  }
};

Gradients* as_gradients(PyObject* self) { return reinterpret_cast<Gradients*>(self); }

// One backward run of a node.
struct Backward {
  Gradients* plan;
  Node* node;
  PyObject* saved[kMaxArguments + 1];  // borrowed; a listed input's list comes last
  PyObject* g[kMaxArguments];          // borrowed: one for each output; for a listed row, the list
  PyObject* needed = nullptr;          // borrowed: the tuple for a joint pullback
  PyObject* nodes = nullptr;           // borrowed: a dictionary, or null: all
  Py_ssize_t at = 0;                   // the first edge of the next input
  Owned owned;

  PyObject* edge(Py_ssize_t i) const { return PyTuple_GET_ITEM(node->edges, i); }
  bool is_needed(Py_ssize_t i) const {
    PyObject* e = edge(i);
    if (e == Py_None || !nodes) return e != Py_None;
    return PyDict_Contains(nodes, Py_TYPE(e) == port_type ? reinterpret_cast<Port*>(e)->node : e) > 0;
  }
  Py_ssize_t n_extra_edges() const {  // the number of a listed input's edges, less one
    return plan->listed_at < 0 ? 0 : PyTuple_GET_SIZE(node->edges) - n_inputs();
  }
  int n_inputs() const { return plan->n_joint ? plan->n_joint : plan->n_pullbacks; }  // the differentiable ones
  Py_ssize_t n_edges(int input) const { return input == plan->listed_at ? n_extra_edges() + 1 : 1; }
  bool read_saved();
  bool read_gradients(PyObject* grads);
  bool read_listed_gradients(PyObject* grads, PyObject* shape_dtypes);
  PyObject* with_edge(PyObject* array, PyObject* edge);
  PyObject* as_tensor(PyObject* value, const Item& how);
  PyObject* call(const Pullback& pullback, PyObject* edge);
  bool put(PyObject* result, int input, Ref grad);
  bool run_joint(PyObject* result);
  PyObject* run();
};

// A saved array as a Tensor; numbers stay.
PyObject* Backward::with_edge(PyObject* array, PyObject* edge) {
  if (!is_array(array)) return array;
  PyObject* tensor = owned.keep(make_tensor(array));
  if (tensor) Py_SETREF(reinterpret_cast<TensorBase*>(tensor)->node, Py_NewRef(edge));
  return tensor;
}

PyObject* Backward::as_tensor(PyObject* value, const Item& how) {
  switch (how.what) {
    case What::kInput: {
      // a listed input's extra edges shift the edges after it
      const int i = how.index;
      const Py_ssize_t shift = plan->listed_at >= 0 && i > plan->listed_at ? n_extra_edges() : 0;
      return with_edge(value, i < 0 ? Py_None : edge(i + shift));
    }
    case What::kOutput: {
      if (!is_array(value)) return value;
      PyObject* self = reinterpret_cast<PyObject*>(node);
      if (plan->n_outputs == 1) return with_edge(value, self);
      PyObject* port = owned.keep(make_port(self, how.index, value));
      return port ? with_edge(value, port) : nullptr;
    }
    case What::kConstant: return with_edge(value, Py_None);
    default: return value;
  }
}

bool Backward::read_saved() {
  PyObject* values = owned.keep(PyObject_GetAttrString(reinterpret_cast<PyObject*>(node), "saved"));  // checked
  if (!values) return false;
  if (PyTuple_GET_SIZE(values) < plan->n_saved) return raise("RuntimeError", "backward: a node lacks saved values");
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

// A missing gradient becomes zeros.
bool Backward::read_listed_gradients(PyObject* grads, PyObject* shape_dtypes) {
  const Py_ssize_t n = PyList_GET_SIZE(shape_dtypes);
  PyObject* list = owned.keep(PyList_New(n));
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    PyObject* grad = i < PyList_GET_SIZE(grads) ? PyList_GET_ITEM(grads, i) : Py_None;
    grad = grad == Py_None ? PyObject_CallOneArg(plan->make_zeros, PyList_GET_ITEM(shape_dtypes, i)) : Py_NewRef(grad);
    if (!grad) return false;
    PyList_SET_ITEM(list, i, grad);
  }
  g[0] = list;
  return list != nullptr;
}

bool Backward::read_gradients(PyObject* grads) {
  if (plan->listed_outputs) return read_listed_gradients(grads, saved[plan->zeros[0].index]);
  if (plan->n_outputs == 1) {
    g[0] = grads;
    return true;
  }
  for (int i = 0; i < plan->n_outputs; ++i) g[i] = i < PyList_GET_SIZE(grads) ? PyList_GET_ITEM(grads, i) : Py_None;
  for (int i = 0; i < plan->n_zeros; ++i) {
    const Item& zero = plan->zeros[i];
    if (g[zero.mask] != Py_None) continue;
    if (!(g[zero.mask] = owned.keep(PyObject_CallOneArg(plan->make_zeros, saved[zero.index])))) return false;
  }
  return true;
}

PyObject* Backward::call(const Pullback& pullback, PyObject* target) {
  PyObject* space[kMaxArguments + 1];  // the callee may overwrite space[0]
  PyObject** arguments = space + 1;
  Ref buffer;
  for (int i = 0; i < pullback.n; ++i) {
    const Item& item = pullback.items[i];
    switch (item.what) {
      case What::kGradient: arguments[i] = g[item.index]; break;
      case What::kOps: arguments[i] = plan->ops; break;
      case What::kGradBuffer:
        buffer = Ref(plan->tensors || !target ? Py_NewRef(Py_None) : PyObject_CallOneArg(plan->take_buffer, target));
        if (!buffer) return nullptr;
        arguments[i] = buffer.get();
        break;
      case What::kNeeded: arguments[i] = needed; break;
      default: arguments[i] = saved[item.index];
    }
  }
  return PyObject_Vectorcall(pullback.function, arguments, static_cast<size_t>(pullback.n) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                             nullptr);
}

// Moves the gradient of an input to the gradients by edge; that of a listed input is a sequence, or None.
bool Backward::put(PyObject* result, int input, Ref grad) {
  if (input != plan->listed_at) {
    PyTuple_SET_ITEM(result, at++, grad.release());
    return true;
  }
  Ref items(grad.get() == Py_None ? PyTuple_New(0) : PySequence_Fast(grad.get(), "backward: a list is needed"));
  if (!items) return false;
  for (Py_ssize_t i = 0, n = n_edges(input); i < n; ++i) {
    const bool has_item = i < PySequence_Fast_GET_SIZE(items.get());
    PyTuple_SET_ITEM(result, at++, Py_NewRef(has_item ? PySequence_Fast_GET_ITEM(items.get(), i) : Py_None));
  }
  return true;
}

// One call for all inputs, which is told which edges need a gradient. Others get None, whatever it returns.
bool Backward::run_joint(PyObject* result) {
  Py_ssize_t next = 0;
  const auto next_is_needed = [&](Py_ssize_t) { return PyBool_FromLong(is_needed(next++)); };
  needed = owned.keep(tuple_of(plan->n_joint, [&](Py_ssize_t i) {
    return i == plan->listed_at ? tuple_of(n_edges(plan->listed_at), next_is_needed) : next_is_needed(i);
  }));
  Ref grads(needed ? call(plan->pullbacks[0], nullptr) : nullptr);
  if (!grads) return false;
  if (!PyTuple_CheckExact(grads.get()) || PyTuple_GET_SIZE(grads.get()) != plan->n_joint)
    return raise("TypeError", "%s: a joint pullback must return a tuple of %d gradients, not a %s of %zd",
                 PyUnicode_AsUTF8(plan->event), plan->n_joint, Py_TYPE(grads.get())->tp_name,
                 PyTuple_Check(grads.get()) ? PyTuple_GET_SIZE(grads.get()) : Py_ssize_t(1));
  for (int i = 0; i < plan->n_joint; ++i) {
    const bool is_unused = i != plan->listed_at && !is_needed(at);
    if (!put(result, i, Ref(Py_NewRef(is_unused ? Py_None : PyTuple_GET_ITEM(grads.get(), i))))) return false;
  }
  return true;
}

PyObject* Backward::run() {
  Ref result(PyTuple_New(PyTuple_GET_SIZE(node->edges)));
  if (!result) return nullptr;
  if (plan->n_joint) return run_joint(result.get()) ? result.release() : nullptr;
  for (int p = 0; p < plan->n_pullbacks; ++p) {
    bool is_called = plan->n_pullbacks == 1 && p != plan->listed_at;
    for (Py_ssize_t i = 0, n = n_edges(p); i < n && !is_called; ++i) is_called = is_needed(at + i);
    PyObject* target = p == plan->listed_at ? nullptr : edge(at);
    Ref grad(is_called ? call(plan->pullbacks[p], target) : Py_NewRef(Py_None));
    if (!grad || !put(result.get(), p, std::move(grad))) return nullptr;
  }
  return result.release();
}

PyObject* run(Gradients* plan, PyObject* const* args, Py_ssize_t n) {
  if ((n != 2 && !(n == 3 && PyDict_CheckExact(args[2]))) || !PyObject_TypeCheck(args[0], node_type))
    return raise("TypeError", "Gradients: (node, gradient[, dictionary of nodes]) is needed");
  if (plan->n_outputs > 1 && !PyList_CheckExact(args[1]))
    return raise("TypeError", "Gradients: a list of %d gradients is needed", plan->n_outputs);
  Backward backward;
  backward.plan = plan;
  backward.node = reinterpret_cast<Node*>(args[0]);
  if (n == 3) backward.nodes = args[2];
  if (!backward.read_saved() || !backward.read_gradients(args[1])) return nullptr;
  return backward.run();
}

PyObject* gradients_call(PyObject* self, PyObject* const* args, size_t flags, PyObject*) {
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (const uint32_t active = modes_of(kObserved | kProfiled)) {
    const auto plain = [](PyObject* called, PyObject* const* values, Py_ssize_t count, PyObject*) {
      return run(as_gradients(called), values, count);
    };
    return call_in_mode(active, self, args, n, nullptr, plain, as_gradients(self)->event, profiler::kBackward);
  }
  return run(as_gradients(self), args, n);
}

PyObject* gradients_unobserved(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return run(as_gradients(self), args, n);
}

// ---------------------------------------------------------------- the type

// Gradients(event, pullbacks: ((function, items), ...), saved, zeros, n_outputs, listed_at, n_joint, flags, ops,
// take_buffer, make_zeros); flags: tensors, listed_outputs, listed_saved.
PyObject* gradients_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *event, *pullbacks, *saved, *zeros, *flags, *ops, *take_buffer, *make_zeros;
  int n_outputs, listed_at, n_joint;
  if (!PyArg_ParseTuple(args, "UO!OOiiiOOOO:Gradients", &event, &PyTuple_Type, &pullbacks, &saved, &zeros, &n_outputs,
                        &listed_at, &n_joint, &flags, &ops, &take_buffer, &make_zeros))
    return nullptr;
  Ref owned(type->tp_alloc(type, 0));
  Gradients* plan = as_gradients(owned.get());
  if (!plan) return nullptr;
  if (n_outputs > kMaxArguments) return raise("ValueError", "Gradients: too many outputs: %d", n_outputs);
  plan->vectorcall = gradients_call;
  if (!read_flags(
          "Gradients", flags,
          {{"tensors", &plan->tensors}, {"listed_outputs", &plan->listed_outputs}, {"listed_saved", &plan->listed_saved}}))
    return nullptr;
  plan->listed_at = listed_at;
  plan->n_joint = n_joint;
  plan->n_outputs = n_outputs;
  plan->event = Py_NewRef(event);
  plan->ops = Py_NewRef(ops);
  plan->take_buffer = Py_NewRef(take_buffer);
  plan->make_zeros = Py_NewRef(make_zeros);
  const Py_ssize_t n = PyTuple_GET_SIZE(pullbacks);
  if (n_joint < 0 || n_joint > kMaxArguments || (n_joint && n != 1))
    return raise("ValueError", "Gradients: a joint pullback is the only one: %d inputs, %zd pullbacks", n_joint, n);
  plan->pullbacks = static_cast<Pullback*>(PyMem_Calloc(static_cast<size_t>(n), sizeof(Pullback)));
  if (!plan->pullbacks) return PyErr_NoMemory();
  if (!read_items("Gradients", saved, plan->saved, &plan->n_saved) ||
      !read_items("Gradients", zeros, plan->zeros, &plan->n_zeros))
    return nullptr;
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
    method("unobserved", gradients_unobserved, "The call, without modes."),
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef gradients_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Gradients, vectorcall), READONLY, nullptr},
    {"event", T_OBJECT_EX, offsetof(Gradients, event), READONLY, "its name in a profile"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot gradients_slots[] = {
    {Py_tp_doc, const_cast<char*>("Gradients(node, g[, nodes]): the gradients of an op's inputs.")},
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

// ---------------------------------------------------------------- the first gradient of a leaf

// The array whose strides `.grad` of a tensor takes: the tensor's, if it is alive and has the gradient's shape.
Ref layout_of(PyArrayObject* gradient, PyObject* weak) {
  Ref tensor(PyObject_CallNoArgs(weak));
  if (!tensor) return tensor;
  if (is_tensor(tensor.get())) {
    PyObject* array = reinterpret_cast<TensorBase*>(tensor.get())->array;
    if (PyArray_Check(array) && PyArray_SAMESHAPE(as_array(array), gradient)) return Ref(Py_NewRef(array));
  }
  Py_INCREF(gradient);
  return Ref(gradient);
}

// The dictionary's value, which only the caller then refers to. Empty with an exception set.
Ref pop(PyObject* dictionary, PyObject* key) {
  Ref value(Py_XNewRef(PyDict_GetItemWithError(dictionary, key)));
  if (!value) {
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
  } else if (PyDict_DelItem(dictionary, key) < 0) {
    return Ref();
  }
  return value;
}

// The gradient itself if nothing else refers to its memory, a copy in the grad_buffer if that is free, else a copy.
Ref become_grad(Ref gradient, PyObject* tensor, PyObject* grad_buffer) {
  const bool is_unshared = is_seen_by_caller_alone(gradient.get());
  if (grad_buffer != Py_None) {
    if (owns_gradient(grad_buffer, gradient.get())) {
      if (is_unshared) return gradient;
    } else {
      Ref buffer(take_gradient(grad_buffer));
      if (!buffer || buffer.get() != Py_None)
        return buffer && PyArray_CopyInto(buffer.array(), gradient.array()) < 0 ? Ref() : std::move(buffer);
    }
  }
  Ref like = layout_of(gradient.array(), tensor);
  if (!like) return like;
  const bool owns_memory = PyArray_CHKFLAGS(gradient.array(), NPY_ARRAY_OWNDATA);
  if (is_unshared && owns_memory && obeys_layout_contract(gradient.array(), like.array())) return gradient;
  return by_layout_contract(gradient.array(), like.array());
}

// The bytes of a device's array if its elements leave no gaps, in any order of the dimensions; 0: they do; -1: an exception
// is set.
Py_ssize_t dense_nbytes(PyObject* array) {
  static PyObject* names[] = {PyUnicode_InternFromString("shape"), PyUnicode_InternFromString("strides")};
  Ref dtype = array_dtype(array), shape(PyObject_GetAttr(array, names[0])), strides(PyObject_GetAttr(array, names[1]));
  if (!dtype || !shape || !strides) return -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(shape.get());
  Py_ssize_t nbytes = PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr*>(dtype.get()));
  uint64_t done = 0;  // a bit for each dimension
  for (Py_ssize_t left = n; left; --left) {
    Py_ssize_t d = n - 1;
    for (; d >= 0; --d) {
      const Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape.get(), d));
      if (done >> d & 1 || (size != 1 && PyLong_AsSsize_t(PyTuple_GET_ITEM(strides.get(), d)) != nbytes)) continue;
      nbytes *= size;
      break;
    }
    if (d < 0) return 0;
    done |= uint64_t{1} << d;
  }
  return nbytes;
}

// Whether nothing but a device's array refers to its memory: the array of which it is a view, too, is its own, and all of
// it is in the view; the memory is a block of this process that no message and no other process has. The caller has the one reference to the array. CuPy's arrays refer to a MemoryPointer, and that
// to the memory; one with `base` None may share it with others (cupy.lib.stride_tricks). False with an exception set.
bool is_sole_owner(PyObject* array, bool* result) {
#if defined(Py_GIL_DISABLED)
  *result = false;  // other threads' references are not counted
  return array;
#else
  static PyObject* names[] = {PyUnicode_InternFromString("data"), PyUnicode_InternFromString("mem"),
                              PyUnicode_InternFromString("nbytes")};
  static PyObject* owner_name = PyUnicode_InternFromString("_owner");
  *result = false;
  const Py_ssize_t nbytes = dense_nbytes(array);
  if (nbytes <= 0) return nbytes == 0;
  Ref base = array_base(array), pointer(PyObject_GetAttr(array, names[0]));
  if (!base || !pointer) return false;
  Ref memory(PyObject_GetAttr(pointer.get(), names[1]));
  if (!memory) return false;
  if (std::strcmp(Py_TYPE(memory.get())->tp_name, "cupy.cuda.memory.PooledMemory") != 0) {
    Ref owner(PyObject_GetAttr(memory.get(), owner_name));
    if (!owner) PyErr_Clear();  // memory of DLPack
    if (!owner || !is_sole_owner_of_block(owner.get())) return true;
  }
  Py_ssize_t pointer_references = 2, memory_references = 2;  // ours is one of each
  if (base.get() != Py_None) {
    if (!is_device_array(base.get()) || Py_REFCNT(base.get()) != 2) return true;
    Ref size(PyObject_GetAttr(base.get(), names[2])), other(PyObject_GetAttr(base.get(), names[0]));
    if (!size || !other) return false;
    if (PyLong_AsSsize_t(size.get()) != nbytes) return !PyErr_Occurred();
    if (other.get() == pointer.get()) ++pointer_references;
    else if (Py_REFCNT(other.get()) == 2) ++memory_references;
    else return true;
  }
  *result = Py_REFCNT(pointer.get()) == pointer_references && Py_REFCNT(memory.get()) == memory_references;
  return true;
#endif
}

// The same for an array of a device, which has no grad_buffer.
Ref become_device_grad(Ref gradient) {
  bool is_taken = is_meta_array(gradient.get());
  if (!is_taken && is_unique(gradient.get()) && !is_sole_owner(gradient.get(), &is_taken)) return Ref();
  return is_taken ? std::move(gradient) : copy_of(gradient.get());
}

// steal_gradient(sums: dict, accumulate_grad, tensor: weak reference, grad_buffer: GradientBuffer or None): takes the
// gradient out of the sums of a backward, and returns the new `.grad`. A gradient that is not an array is returned as
// it is. See Note [Taking over a gradient] in autograd/engine/backward.py.
PyObject* steal_gradient(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyDict_CheckExact(args[0]) || (args[3] != Py_None && Py_TYPE(args[3]) != gradient_buffer_type))
    return raise("TypeError", "steal_gradient: (sums, accumulate_grad, tensor, grad_buffer) is needed");
  Ref gradient = pop(args[0], args[1]);
  if (!gradient || !is_array(gradient.get())) return gradient.release();
  Ref array = PyArray_Check(gradient.get()) ? become_grad(std::move(gradient), args[2], args[3])
                                            : become_device_grad(std::move(gradient));
  return array ? make_tensor(array.get()) : nullptr;
}

// in_layout_of_grad(gradient, tensor: weak reference): the gradient if it has the strides that `.grad` of the tensor
// needs, else a copy that has them.
PyObject* in_layout_of_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n == 2 && is_device_array(args[0])) return Py_NewRef(args[0]);
  if (n != 2 || !PyArray_Check(args[0])) return raise("TypeError", "in_layout_of_grad: (gradient, tensor) is needed");
  Ref like = layout_of(as_array(args[0]), args[1]);
  if (!like) return nullptr;
  if (obeys_layout_contract(as_array(args[0]), like.array())) return Py_NewRef(args[0]);
  return by_layout_contract(as_array(args[0]), like.array()).release();
}

PyMethodDef functions[] = {
    method("steal_gradient", steal_gradient,
           "steal_gradient(sums, accumulate_grad, tensor, grad_buffer): takes the gradient out of the sums, returns .grad."),
    method("in_layout_of_grad", in_layout_of_grad,
           "in_layout_of_grad(gradient, tensor): the gradient, or a copy with the strides that .grad needs."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_gradients(PyObject* module) {
  Ref type(PyType_FromSpec(&gradients_spec));
  if (!type || PyModule_AddObjectRef(module, "Gradients", type.get()) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
