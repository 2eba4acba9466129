// The kernel of a call, and its arrays as Tensors, with a node if history is recorded.
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "memory/heap/heap.h"

namespace shmtensor {

// ---------------------------------------------------------------- running a kernel

namespace {

// Converts NumPy's scalars and array subclasses to arrays. Steals the reference; null with an exception set.
PyObject* as_arrays(PyObject* result) {
  if (PyArray_CheckExact(result)) return result;
  if (PyArray_CheckScalar(result)) {
    PyObject* array = PyArray_FromScalar(result, nullptr);
    Py_DECREF(result);
    return array;
  }
  if (PyArray_Check(result)) {  // a subclass: memmap, matrix
    PyObject* array = PyArray_View(reinterpret_cast<PyArrayObject*>(result), nullptr, &PyArray_Type);
    Py_DECREF(result);
    return array;
  }
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    PyObject* arrays = tuple_of(PySequence_Fast_GET_SIZE(result),
                                [&](Py_ssize_t i) { return as_arrays(Py_NewRef(PySequence_Fast_GET_ITEM(result, i))); });
    Py_DECREF(result);
    return arrays;
  }
  return result;
}

// Are all arrays contiguous, and none of 16-bit floats?
__attribute__((hot)) bool needs_no_policy(PyObject* p) {
  if (PyArray_CheckExact(p)) {
    PyArrayObject* a = reinterpret_cast<PyArrayObject*>(p);
    return PyArray_TYPE(a) < NPY_HALF && suggests_contiguous(a);
  }
  if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) return true;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(p, i);
    if (PyArray_CheckExact(item) && !needs_no_policy(item)) return false;
  }
  return true;
}

PyObject* run_as_is(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  return PyObject_Vectorcall(kernel, args, static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

}  // namespace

__attribute__((hot)) PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n,
                                          const KernelPolicy* policy) {
  PyObject* result;
  {
    Gate open;
    if (!open) return nullptr;
    bool as_is = true;
    for (Py_ssize_t i = 0; policy && i < n && as_is; ++i) as_is = needs_no_policy(args[i]);
    if (__builtin_expect(as_is, 1)) {
      result = run_as_is(kernel, args, n);
    } else {
      const auto run = [&](PyObject* const* arguments, Py_ssize_t count) {
        const bool wide = policy->widens && holds_halves(arguments, count);
        return wide ? run_wide(policy->widening, kernel, arguments, count) : run_as_is(kernel, arguments, count);
      };
      result = policy->formatted ? run_formatted(policy->format, run, kernel, args, n) : run(args, n);
    }
    if (result && !PyArray_CheckExact(result)) result = as_arrays(result);
  }
  if (!result && PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("allocate");
  return result;
}

namespace {

PyObject* as_tensors(PyObject* result) {
  if (!result) return nullptr;
  if (!PyTuple_CheckExact(result)) {
    PyObject* tensor = make_tensor(result);
    Py_DECREF(result);
    return tensor;
  }
  PyObject* tensors =
      tuple_of(PyTuple_GET_SIZE(result), [&](Py_ssize_t i) { return make_tensor(PyTuple_GET_ITEM(result, i)); });
  Py_DECREF(result);
  return tensors;
}

}  // namespace

// For Python. The kernel may overwrite args[0], as PY_VECTORCALL_ARGUMENTS_OFFSET allows.
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "call: (kernel, *arguments) is needed");
  return run_kernel(args[0], args + 1, n - 1);
}

PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "compute: (kernel, *arguments) is needed");
  return as_tensors(run_kernel(args[0], args + 1, n - 1));
}

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

// ---------------------------------------------------------------- views

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
