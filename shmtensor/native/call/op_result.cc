// The kernel's arrays -> Tensors, with a node where history is recorded.
#include "op.h"

namespace shmtensor {

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
