// Slots -> arrays and nodes. Two operands of different dtypes are cast to their common dtype here; all else is left to
// the general path (`hooks.call_general`).
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"

#include "half/half.h"
#include "memory/heap/heap.h"

namespace shmtensor {

namespace {

inline PyArray_Descr* dtype_of(PyObject* array) { return PyArray_DESCR(as_array(array)); }

// Of an array of the op's class. Borrowed from the array; null with an exception set.
inline PyArray_Descr* operand_dtype(Op* op, PyObject* array) {
  return __builtin_expect(!op->on_device, 1) ? dtype_of(array) : device_dtype(array);
}

// Does the number fit into an integer dtype? If not, the general path wraps it around.
bool fits(PyObject* number, PyArray_Descr* dtype) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  const int bits = 8 * static_cast<int>(PyDataType_ELSIZE(dtype));
  if (overflow) return false;
  if (dtype->kind == 'u') return value >= 0 && (bits == 64 || value >> bits == 0);
  return bits == 64 || (value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1));
}

inline bool is_inexact(PyArray_Descr* dtype) { return dtype->kind == 'f' || dtype->kind == 'c'; }

// The array and the node of one tensor. *dtype: that of the promoted inputs so far, or null.
Outcome read_tensor(OpCall* call, const Argument& argument, PyObject* x, PyObject** array, PyObject** node,
                    PyArray_Descr** dtype) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  // else a NumPy scalar, or an array of another device
  if (Py_TYPE(tensor->array) != call->op->array_class) return Outcome::kGeneral;
  *array = tensor->array;
  if (argument.promoted) {
    PyArray_Descr* array_dtype = operand_dtype(call->op, tensor->array);
    if (!array_dtype) return Outcome::kError;
    if (!*dtype) *dtype = array_dtype;
    else if (*dtype != array_dtype) return Outcome::kGeneral;
  }
  if (!argument.differentiable) return Outcome::kFast;
  *node = node_of(tensor);
  if (!*node) return Outcome::kError;
  if (*node != Py_None) call->tracked |= 1u << (&argument - call->op->arguments);
  return Outcome::kFast;
}

Outcome read_list(OpCall* call, int at, PyArray_Descr** dtype) {
  PyObject* x = call->slots[at];
  if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) return Outcome::kGeneral;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
  if (!n) return Outcome::kGeneral;
  PyObject* list = call->owned.keep(PyList_New(n));
  PyObject* nodes = call->owned.keep(PyTuple_New(n));
  if (!list || !nodes) return Outcome::kError;
  const Argument& argument = call->op->arguments[at];
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    PyObject *array, *node = nullptr;
    if (!is_plain(item)) return Outcome::kGeneral;
    const Outcome outcome = read_tensor(call, argument, item, &array, &node, dtype);
    if (outcome != Outcome::kFast) {
      Py_XDECREF(node);
      return outcome;
    }
    PyList_SET_ITEM(list, i, Py_NewRef(array));
    PyTuple_SET_ITEM(nodes, i, node ? node : Py_NewRef(Py_None));
  }
  call->arrays[at] = list;
  call->list_nodes = nodes;
  return Outcome::kFast;
}

// Note [Common dtype of two operands]: PyTorch's common dtype depends on the kind of each operand: a number's class, or
// a tensor's dtype and whether it has dimensions. Python computes it once (`hooks.common_dtype`); this table keeps the
// result until the default dtype changes.
constexpr int kDtypes = 25;  // NumPy's type numbers; bfloat16 comes last
constexpr int kKinds = 2 * kDtypes + 2;
PyArray_Descr* common_dtypes[2][kKinds][kKinds];

int operand_kind(PyObject* x) {
  if (PyFloat_CheckExact(x)) return 2 * kDtypes;
  if (PyLong_CheckExact(x)) return 2 * kDtypes + 1;
  PyArrayObject* array = as_array(reinterpret_cast<TensorBase*>(x)->array);
  const int type = PyArray_TYPE(array);
  const int number = type == bfloat16_num ? kDtypes - 1 : type;
  return number < kDtypes ? 2 * number + (PyArray_NDIM(array) == 0) : -1;
}

PyArray_Descr* common_dtype(Op* op, PyObject* x, PyObject* y) {  // borrowed; null with or without an exception
  const int a = operand_kind(x), b = operand_kind(y);
  if (a < 0 || b < 0) return nullptr;
  const bool floats = op->promotion == Promotion::kFloat;
  PyArray_Descr*& dtype = common_dtypes[floats][a][b];
  if (!dtype) {
    Ref result(PyObject_CallFunction(hooks.common_dtype, "sOO", floats ? "float" : "common", x, y));
    if (!result) return nullptr;
    if (PyArray_DescrCheck(result.get())) dtype = reinterpret_cast<PyArray_Descr*>(result.release());
  }
  return dtype;
}

// A tensor in another dtype. The row `_to_copy` casts 16-bit floats, because it rounds as PyTorch does.
PyObject* cast(PyObject* x, PyArray_Descr* dtype) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  PyArrayObject* array = as_array(tensor->array);
  if (tensor->node != Py_None || tensor->base != Py_None || is_half(PyArray_TYPE(array)) || is_half(dtype->type_num)) {
    PyObject* arguments[2] = {x, reinterpret_cast<PyObject*>(dtype)};
    return PyObject_Vectorcall(hooks.cast, arguments, 2, nullptr);
  }
  Gate open;
  if (!open) return nullptr;
  Py_INCREF(dtype);
  Ref result(PyArray_NewLikeArray(array, NPY_KEEPORDER, dtype, 0));
  if (!result || PyArray_CopyInto(result.array(), array) < 0) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("allocate");
    return nullptr;
  }
  return make_tensor(result.get());
}

Outcome promote_pair(OpCall* call) {
  Op* op = call->op;
  bool tensors[2];
  if (op->on_device) return Outcome::kGeneral;
  for (int i = 0; i < 2; ++i) {
    PyObject* x = call->slots[i];
    tensors[i] = is_plain(x);
    if (tensors[i] ? !PyArray_CheckExact(reinterpret_cast<TensorBase*>(x)->array)
                   : !(op->arguments[i].number && (PyFloat_CheckExact(x) || PyLong_CheckExact(x))))
      return Outcome::kGeneral;
  }
  if (!tensors[0] && !tensors[1]) return Outcome::kGeneral;
  PyArray_Descr* dtype = common_dtype(op, call->slots[0], call->slots[1]);
  if (!dtype) return PyErr_Occurred() ? Outcome::kError : Outcome::kGeneral;
  if (!is_inexact(dtype) && !(tensors[0] && tensors[1])) return Outcome::kGeneral;  // an integer may wrap around
  for (int i = 0; i < 2; ++i) {
    if (!tensors[i] || dtype_of(reinterpret_cast<TensorBase*>(call->slots[i])->array) == dtype) continue;
    PyObject* tensor = call->owned.keep(cast(call->slots[i], dtype));
    if (!tensor) return Outcome::kError;
    call->slots[i] = tensor;
  }
  return Outcome::kFast;
}

void release_nodes(OpCall* call) {
  for (int i = 0; i < call->n_nodes; ++i) Py_CLEAR(call->nodes[i]);
  call->tracked = 0;
}

__attribute__((hot)) Outcome read_once(OpCall* call) {
  Op* op = call->op;
  PyArray_Descr* dtype = nullptr;
  call->n_nodes = op->n_inputs;
  for (int i = 0; i < op->n_inputs; ++i) call->nodes[i] = nullptr;
  // In a reflected operator the second input, the tensor, decides the dtype.
  const bool second_first = op->form == Form::kReflected;
  for (int k = 0; k < op->n_inputs; ++k) {
    const int i = second_first && k < 2 ? 1 - k : k;
    const Argument& argument = op->arguments[i];
    PyObject* x = call->slots[i];
    Outcome outcome;
    if (__builtin_expect(argument.listed, 0)) {
      outcome = read_list(call, i, &dtype);
    } else if (__builtin_expect(is_plain(x), 1)) {
      outcome = read_tensor(call, argument, x, &call->arrays[i], &call->nodes[i], &dtype);
    } else if (argument.number && dtype && PyFloat_CheckExact(x)) {
      call->arrays[i] = x;
      outcome = is_inexact(dtype) ? Outcome::kFast : Outcome::kGeneral;
    } else if (argument.number && dtype && PyLong_CheckExact(x)) {
      call->arrays[i] = x;
      const bool is_fast = is_inexact(dtype) || (dtype->kind != 'b' && (!op->wraps || fits(x, dtype)));
      outcome = is_fast ? Outcome::kFast : Outcome::kGeneral;
    } else if (argument.optional && x == Py_None) {
      call->arrays[i] = Py_None;
      outcome = Outcome::kFast;
    } else {
      outcome = Outcome::kGeneral;
    }
    if (outcome != Outcome::kFast) return outcome;
  }
  if (op->promotion == Promotion::kFloat && dtype && !is_inexact(dtype)) return Outcome::kGeneral;
  return Outcome::kFast;
}

// A NumPy scalar as a 0-d array. Borrowed from `owned`; null with an exception set.
PyObject* as_array_argument(OpCall* call, PyObject* x) {
  if (PyArray_CheckExact(x) || !PyArray_IsScalar(x, Generic)) return x;
  return call->owned.keep(PyArray_FromScalar(x, nullptr));
}

}  // namespace

bool recording() { return is_true(hooks.recording, true); }

PyObject* node_of(TensorBase* tensor) {
  if (__builtin_expect(PyTuple_CheckExact(tensor->base), 0)) {
    const Version* version = reinterpret_cast<Version*>(tensor->version);
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(tensor->base, 1)) != version->count)
      return PyObject_CallOneArg(hooks.view_node, reinterpret_cast<PyObject*>(tensor));
  }
  return Py_NewRef(tensor->node);
}

__attribute__((hot)) Outcome read_operands(OpCall* call) {
  Outcome outcome = read_once(call);
  if (outcome != Outcome::kGeneral || !call->op->pair) return outcome;
  release_nodes(call);
  outcome = promote_pair(call);
  return outcome == Outcome::kFast ? read_once(call) : outcome;
}

Outcome read_arrays(OpCall* call) {
  Op* op = call->op;
  for (int i = 0; i < op->n_inputs; ++i) {
    if (!op->arguments[i].listed) {
      if (!(call->arrays[i] = as_array_argument(call, call->slots[i]))) return Outcome::kError;
      continue;
    }
    PyObject* list = call->owned.keep(PySequence_List(call->slots[i]));
    if (!list) return Outcome::kError;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(list); ++j) {
      PyObject* array = as_array_argument(call, PyList_GET_ITEM(list, j));
      if (!array || PyList_SetItem(list, j, Py_NewRef(array)) < 0) return Outcome::kError;
    }
    call->arrays[i] = list;
  }
  return Outcome::kFast;
}

PyObject* forget_promotions(PyObject*, PyObject*) {
  for (auto& table : common_dtypes)
    for (auto& line : table)
      for (PyArray_Descr*& dtype : line) Py_CLEAR(dtype);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
