// See Note [Computing in float32] in half.h.
#include "half/half.h"

#include <structmember.h>

#include <cstddef>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/dtype_object.h"
#include "simd/kernel_table.h"
#include "numpy_loops/parallel_ufunc.h"

namespace shmtensor {
namespace {

bool contains_half(PyObject* p) {
  if (is_half_array(p)) return true;
  if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (is_half_array(PySequence_Fast_GET_ITEM(p, i))) return true;
  }
  return false;
}

// One call: the arrays that were cast to float32, and the dtype of its results.
struct Call {
  int type = 0;  // the 16-bit dtype of the results; 0: they stay float32
  bool is_decided = false;
  std::vector<std::pair<PyObject*, Ref>> pairs;  // a 16-bit array (borrowed), its float32 copy

  // The first floating-point array decides the dtype of the results: float32 keeps them float32.
  void note_dtype(PyArrayObject* a) {
    const int t = PyArray_TYPE(a);
    if (is_decided || !(PyTypeNum_ISFLOAT(t) || is_half(t))) return;
    is_decided = true;
    if (is_half(t)) type = t;
  }

  // A borrowed reference to the float32 copy; the same array is cast once.
  PyObject* widened_copy(PyObject* p) {
    for (auto& pair : pairs) {
      if (pair.first == p) return pair.second.get();
    }
    Ref copy(widen_array(as_array(p)));
    if (!copy) return nullptr;
    pairs.emplace_back(p, std::move(copy));
    return pairs.back().second.get();
  }

  // The argument that the kernel gets: a new reference.
  PyObject* argument(PyObject* p) {
    if (PyArray_CheckExact(p)) note_dtype(as_array(p));
    if (is_half_array(p)) {
      PyObject* copy = widened_copy(p);
      return copy ? Py_NewRef(copy) : nullptr;
    }
    PyArray_Descr* dtype = canonical_dtype(p);
    if (!dtype && PyArray_DescrCheck(p)) dtype = reinterpret_cast<PyArray_Descr*>(p);
    if (dtype) {
      if (is_half(dtype->type_num)) {  // the caller chose the result's dtype
        is_decided = true;
        type = dtype->type_num;
        return reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_FLOAT));
      }
      is_decided = true;
      type = 0;
      return Py_NewRef(p);
    }
    if ((!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) || !contains_half(p)) return Py_NewRef(p);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
    Ref list(PyList_New(n));
    for (Py_ssize_t i = 0; list && i < n; ++i) {
      PyObject* item = argument(PySequence_Fast_GET_ITEM(p, i));
      if (!item) return nullptr;
      PyList_SET_ITEM(list.get(), i, item);
    }
    if (list && PyTuple_CheckExact(p)) return PyList_AsTuple(list.get());
    return list.release();
  }

  // Rounds a result. Steals the reference. If the result is the copy of an argument, it is written back to the
  // argument.
  PyObject* result(PyObject* result_object, bool round) {
    for (auto& pair : pairs) {
      if (pair.second.get() != result_object) continue;
      Py_DECREF(result_object);
      PyArrayObject* array = as_array(pair.first);
      if (PyArray_ISWRITEABLE(array) && !narrow_into(pair.second.array(), array)) return nullptr;
      return Py_NewRef(pair.first);
    }
    if (PyTuple_CheckExact(result_object) || PyList_CheckExact(result_object)) return result_object;
    if (!round || !type) return result_object;
    if (PyArray_IsScalar(result_object, Float)) {  // NumPy's scalar for a 0-d result
      PyObject* array = PyArray_FromScalar(result_object, nullptr);
      Py_DECREF(result_object);
      if (!array) return nullptr;
      result_object = array;
    }
    if (!PyArray_Check(result_object) || PyArray_TYPE(as_array(result_object)) != NPY_FLOAT) return result_object;
    PyObject* copy = narrow_array(as_array(result_object), type);
    Py_DECREF(result_object);
    return copy;
  }
};

// The 16-bit dtype to which a ufunc of bool results (a comparison) rounds its numbers, as PyTorch does; 0: to none.
// A third argument is the output.
int dtype_of_compared_numbers(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  int result;
  if ((n != 2 && n != 3) || PyArray_CheckExact(args[0]) == PyArray_CheckExact(args[1])) return 0;
  if (!PyObject_TypeCheck(kernel, &PyUFunc_Type) || !float32_loop(kernel, &result) || result != NPY_BOOL) return 0;
  PyObject* array = args[PyArray_CheckExact(args[0]) ? 0 : 1];
  return is_half_array(array) ? PyArray_TYPE(as_array(array)) : 0;
}

// A number rounded to a 16-bit dtype, as a float; other objects, and numbers beyond a double, as they are.
PyObject* rounded_number(PyObject* number, int type) {
  if (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)) return Py_NewRef(number);
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return Py_NewRef(number);
  }
  const float wide = static_cast<float>(value);
  uint16_t bits;
  float rounded;
  half_kernels().narrow[type != NPY_HALF](&wide, &bits, 1);
  half_kernels().widen[type != NPY_HALF](&bits, &rounded, 1);
  return PyFloat_FromDouble(static_cast<double>(rounded));
}

}  // namespace

bool holds_halves(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    if (contains_half(args[i])) return true;
  return false;
}

PyObject* run_wide(const Widening& widening, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  PyObject* compared[3];
  Ref number;
  if (const int type = dtype_of_compared_numbers(kernel, args, n)) {
    const int at = PyArray_CheckExact(args[0]);
    number = Ref(rounded_number(args[at], type));
    if (!number) return nullptr;
    compared[at] = number.get();
    compared[!at] = args[!at];
    if (n == 3) compared[2] = args[2];
    args = compared;
  }
  PyObject* first = widening.first;
  if (first && PyFunction_Check(first)) {
    PyObject* out = PyObject_Vectorcall(first, args, static_cast<size_t>(n), nullptr);
    if (out != Py_None) return out;
    Py_DECREF(out);
    first = nullptr;
  }
  PyObject* half_result = run_half_kernel(first ? first : kernel, args, n);
  if (half_result || PyErr_Occurred()) return half_result;
  Call call;
  std::vector<Ref> call_args;
  call_args.reserve(static_cast<size_t>(n));
  if (PyObject_TypeCheck(kernel, &PyUFunc_Type)) {  // read-only outputs
    for (Py_ssize_t i = reinterpret_cast<PyUFuncObject*>(kernel)->nin; i < n; ++i) {
      if (!PyArray_Check(args[i]) || PyArray_ISWRITEABLE(as_array(args[i]))) continue;
      PyErr_SetString(PyExc_ValueError, "output array is read-only");  // NumPy's message for other dtypes
      return nullptr;
    }
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    call_args.emplace_back(call.argument(args[i]));
    if (!call_args.back()) return nullptr;
  }
  std::vector<PyObject*> stack(static_cast<size_t>(n) + 1);
  for (Py_ssize_t i = 0; i < n; ++i) stack[static_cast<size_t>(i) + 1] = call_args[static_cast<size_t>(i)].get();
  PyObject* output =
      PyObject_Vectorcall(kernel, stack.data() + 1, static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (!output) return nullptr;
  if (!PyTuple_CheckExact(output) && !PyList_CheckExact(output)) return call.result(output, true);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(output);
  PyObject* results = PyTuple_New(count);
  for (Py_ssize_t i = 0; results && i < count; ++i) {
    PyObject* item = call.result(Py_NewRef(PySequence_Fast_GET_ITEM(output, i)), i < widening.outputs);
    if (!item) {
      Py_CLEAR(results);
      break;
    }
    PyTuple_SET_ITEM(results, i, item);
  }
  Py_DECREF(output);
  return results;
}

// ---------------------------------------------------------------- InFloat32

namespace {

struct InFloat32 {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* kernel;
  Py_ssize_t outputs;
};

PyObject* in_float32_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* kwnames) {
  PyObject* kernel = reinterpret_cast<InFloat32*>(self)->kernel;
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (kwnames || !holds_halves(args, n)) return PyObject_Vectorcall(kernel, args, flags, kwnames);
  return run_wide(Widening{reinterpret_cast<InFloat32*>(self)->outputs, nullptr}, kernel, args, n);
}

PyObject* in_float32_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* kernel;
  Py_ssize_t outputs = 1;
  if (!PyArg_ParseTuple(args, "O|n:InFloat32", &kernel, &outputs)) return nullptr;
  InFloat32* self = reinterpret_cast<InFloat32*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = in_float32_call;
  self->kernel = Py_NewRef(kernel);
  self->outputs = outputs;
  return reinterpret_cast<PyObject*>(self);
}

void in_float32_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<InFloat32*>(self)->kernel);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(InFloat32, vectorcall), READONLY, nullptr},
    {"kernel", T_OBJECT_EX, offsetof(InFloat32, kernel), READONLY, "the wrapped kernel"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("InFloat32(kernel, outputs=1): computes 16-bit floats in float32, rounds once.")},
    {Py_tp_new, reinterpret_cast<void*>(in_float32_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(in_float32_dealloc)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"shmtensor.native.InFloat32", sizeof(InFloat32), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                    slots};

}  // namespace

int add_in_float32(PyObject* module) {
  Ref type(PyType_FromSpec(&spec));
  return type ? PyModule_AddObjectRef(module, "InFloat32", type.get()) : -1;
}

}  // namespace shmtensor
