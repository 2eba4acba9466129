// Two operands of different dtypes are cast to their common dtype; all else is left to the general path.
#include "dispatch/op_function.h"

#include "half/half.h"
#include "memory/heap/heap.h"

namespace shmtensor {

namespace {

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

}  // namespace

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

PyObject* forget_promotions(PyObject*, PyObject*) {
  for (auto& table : common_dtypes)
    for (auto& line : table)
      for (PyArray_Descr*& dtype : line) Py_CLEAR(dtype);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
