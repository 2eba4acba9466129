// Slots -> arrays and nodes. Two operands of unlike dtypes are brought to their common one here; whatever else is odd
// about them is left to Python (`hooks.odd`).
#include "dispatch/op_function.h"

#include "half/half.h"
#include "memory/heap/heap.h"

namespace shmtensor {

namespace {

inline PyArray_Descr* dtype_of(PyObject* array) { return PyArray_DESCR(as_array(array)); }

// Is the number an element of an integer dtype? If not it wraps around, which is `odd`'s work.
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
  if (!PyArray_CheckExact(tensor->array)) return Outcome::kOdd;  // a NumPy scalar, or another device's array
  *array = tensor->array;
  if (argument.promoted) {
    PyArray_Descr* own = dtype_of(tensor->array);
    if (!*dtype)
      *dtype = own;
    else if (*dtype != own)
      return Outcome::kOdd;
  }
  if (!argument.differentiable) return Outcome::kUsual;
  *node = node_of(tensor);
  if (!*node) return Outcome::kError;
  if (*node != Py_None) call->tracked |= 1u << (&argument - call->op->arguments);
  return Outcome::kUsual;
}

Outcome read_list(OpCall* call, int at, PyArray_Descr** dtype) {
  PyObject* x = call->slots[at];
  if (!PyList_CheckExact(x) && !PyTuple_CheckExact(x)) return Outcome::kOdd;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
  if (!n) return Outcome::kOdd;
  PyObject* list = call->owned.keep(PyList_New(n));
  PyObject* nodes = call->owned.keep(PyTuple_New(n));
  if (!list || !nodes) return Outcome::kError;
  const Argument& argument = call->op->arguments[at];
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    PyObject *array, *node = nullptr;
    if (!is_plain(item)) return Outcome::kOdd;
    const Outcome outcome = read_tensor(call, argument, item, &array, &node, dtype);
    if (outcome != Outcome::kUsual) {
      Py_XDECREF(node);
      return outcome;
    }
    PyList_SET_ITEM(list, i, Py_NewRef(array));
    PyTuple_SET_ITEM(nodes, i, node ? node : Py_NewRef(Py_None));
  }
  call->arrays[at] = list;
  call->list_nodes = nodes;
  return Outcome::kUsual;
}

// Note [A pair's dtype]: PyTorch's common dtype of two operands depends on the kind of each: a number's class, or a
// tensor's dtype and whether it has dimensions. Python works it out once (`hooks.common`); the table keeps the answer
// until the default dtype changes.
constexpr int kDtypes = 25;  // NumPy's numbers of dtypes; bfloat16 comes last
constexpr int kKinds = 2 * kDtypes + 2;
PyArray_Descr* pairs[2][kKinds][kKinds];

int kind_of(PyObject* x) {
  if (PyFloat_CheckExact(x)) return 2 * kDtypes;
  if (PyLong_CheckExact(x)) return 2 * kDtypes + 1;
  PyArrayObject* array = as_array(reinterpret_cast<TensorBase*>(x)->array);
  const int type = PyArray_TYPE(array);
  const int number = type == bfloat16_num ? kDtypes - 1 : type;
  return number < kDtypes ? 2 * number + (PyArray_NDIM(array) == 0) : -1;
}

PyArray_Descr* common_dtype(Op* op, PyObject* x, PyObject* y) {  // borrowed; null with or without an exception
  const int a = kind_of(x), b = kind_of(y);
  if (a < 0 || b < 0) return nullptr;
  const bool floats = op->promotion == Promotion::kFloat;
  PyArray_Descr*& found = pairs[floats][a][b];
  if (!found) {
    Ref answer(PyObject_CallFunction(hooks.common, "sOO", floats ? "float" : "common", x, y));
    if (!answer) return nullptr;
    if (PyArray_DescrCheck(answer.get())) found = reinterpret_cast<PyArray_Descr*>(answer.release());
  }
  return found;
}

// A tensor in another dtype. 16-bit floats are cast by the row `cast`, which rounds as PyTorch does.
PyObject* cast(PyObject* x, PyArray_Descr* dtype) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(x);
  PyArrayObject* array = as_array(tensor->array);
  if (tensor->node != Py_None || tensor->base != Py_None || is_half(PyArray_TYPE(array)) || is_half(dtype->type_num)) {
    PyObject* given[2] = {x, reinterpret_cast<PyObject*>(dtype)};
    return PyObject_Vectorcall(hooks.cast, given, 2, nullptr);
  }
  Gate open;
  if (!open) return nullptr;
  Py_INCREF(dtype);
  Ref made(PyArray_NewLikeArray(array, NPY_KEEPORDER, dtype, 0));
  if (!made || PyArray_CopyInto(made.array(), array) < 0) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("op");
    return nullptr;
  }
  return make_tensor(made.get());
}

Outcome promote_pair(OpCall* call) {
  Op* op = call->op;
  bool tensors[2];
  for (int i = 0; i < 2; ++i) {
    PyObject* x = call->slots[i];
    tensors[i] = is_plain(x);
    if (tensors[i] ? !PyArray_CheckExact(reinterpret_cast<TensorBase*>(x)->array)
                   : !(op->arguments[i].number && (PyFloat_CheckExact(x) || PyLong_CheckExact(x))))
      return Outcome::kOdd;
  }
  if (!tensors[0] && !tensors[1]) return Outcome::kOdd;
  PyArray_Descr* dtype = common_dtype(op, call->slots[0], call->slots[1]);
  if (!dtype) return PyErr_Occurred() ? Outcome::kError : Outcome::kOdd;
  if (!is_inexact(dtype) && !(tensors[0] && tensors[1])) return Outcome::kOdd;  // an integer may have to wrap around
  for (int i = 0; i < 2; ++i) {
    if (!tensors[i] || dtype_of(reinterpret_cast<TensorBase*>(call->slots[i])->array) == dtype) continue;
    PyObject* made = call->owned.keep(cast(call->slots[i], dtype));
    if (!made) return Outcome::kError;
    call->slots[i] = made;
  }
  return Outcome::kUsual;
}

void forget_operands(OpCall* call) {
  for (int i = 0; i < call->n_nodes; ++i) Py_CLEAR(call->nodes[i]);
  call->tracked = 0;
}

Outcome read_once(OpCall* call) {
  Op* op = call->op;
  PyArray_Descr* dtype = nullptr;
  call->n_nodes = op->n_inputs;
  for (int i = 0; i < op->n_inputs; ++i) call->nodes[i] = nullptr;
  // A reflected operator's second input, the tensor, says what the dtype is.
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
      outcome = is_inexact(dtype) ? Outcome::kUsual : Outcome::kOdd;
    } else if (argument.number && dtype && PyLong_CheckExact(x)) {
      call->arrays[i] = x;
      outcome = is_inexact(dtype) || (dtype->kind != 'b' && (!op->wraps || fits(x, dtype))) ? Outcome::kUsual : Outcome::kOdd;
    } else if (argument.optional && x == Py_None) {
      call->arrays[i] = Py_None;
      outcome = Outcome::kUsual;
    } else {
      outcome = Outcome::kOdd;
    }
    if (outcome != Outcome::kUsual) return outcome;
  }
  if (op->promotion == Promotion::kFloat && dtype && !is_inexact(dtype)) return Outcome::kOdd;
  return Outcome::kUsual;
}

// A NumPy scalar as a 0-d array. Borrowed from `owned`; null with an exception set.
PyObject* whole_array(OpCall* call, PyObject* x) {
  if (PyArray_CheckExact(x) || !PyArray_IsScalar(x, Generic)) return x;
  return call->owned.keep(PyArray_FromScalar(x, nullptr));
}

}  // namespace

bool recording() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(hooks.recording, nullptr, &value) < 0) {
    PyErr_Clear();
    return true;
  }
  const bool on = value == Py_True;
  Py_XDECREF(value);
  return on;
}

PyObject* node_of(TensorBase* tensor) {
  if (__builtin_expect(PyTuple_CheckExact(tensor->base), 0)) {
    const Version* version = reinterpret_cast<Version*>(tensor->version);
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(tensor->base, 1)) != version->count)
      return PyObject_CallOneArg(hooks.history, reinterpret_cast<PyObject*>(tensor));
  }
  return Py_NewRef(tensor->node);
}

Outcome read_operands(OpCall* call) {
  Outcome outcome = read_once(call);
  if (outcome != Outcome::kOdd || !call->op->pair) return outcome;
  forget_operands(call);
  outcome = promote_pair(call);
  return outcome == Outcome::kUsual ? read_once(call) : outcome;
}

Outcome read_arrays(OpCall* call) {
  Op* op = call->op;
  for (int i = 0; i < op->n_inputs; ++i) {
    if (!op->arguments[i].listed) {
      if (!(call->arrays[i] = whole_array(call, call->slots[i]))) return Outcome::kError;
      continue;
    }
    PyObject* list = call->owned.keep(PySequence_List(call->slots[i]));
    if (!list) return Outcome::kError;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(list); ++j) {
      PyObject* array = whole_array(call, PyList_GET_ITEM(list, j));
      if (!array || PyList_SetItem(list, j, Py_NewRef(array)) < 0) return Outcome::kError;
    }
    call->arrays[i] = list;
  }
  return Outcome::kUsual;
}

bool forget_promotions() {
  for (auto& table : pairs)
    for (auto& line : table)
      for (PyArray_Descr*& dtype : line) Py_CLEAR(dtype);
  return true;
}

}  // namespace shmtensor
