// See Note [Computing in float32] in half.h.
#include "half/half.h"

#include <structmember.h>

#include <cstddef>
#include <vector>

#include "kernels/arguments.h"

namespace shmtensor {
namespace {

bool holds_half(PyObject* p) {
  if (is_half_array(p)) return true;
  if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (is_half_array(PySequence_Fast_GET_ITEM(p, i))) return true;
  }
  return false;
}

// One call: what was widened, and what its float32 results become.
struct Call {
  int type = 0;  // the 16-bit dtype of the results; 0: they stay as they are
  bool decided = false;
  std::vector<std::pair<PyObject*, Ref>> pairs;  // a 16-bit array (borrowed), its float32 copy

  // The first floating array says what the results are: a float32 one keeps them wide.
  void see(PyArrayObject* a) {
    const int t = PyArray_TYPE(a);
    if (decided || !(PyTypeNum_ISFLOAT(t) || is_half(t))) return;
    decided = true;
    if (is_half(t)) type = t;
  }

  // A borrowed reference to the copy; the same array is widened once.
  PyObject* wide(PyObject* p) {
    for (auto& pair : pairs) {
      if (pair.first == p) return pair.second.get();
    }
    Ref made(widened(as_array(p)));
    if (!made) return nullptr;
    pairs.emplace_back(p, std::move(made));
    return pairs.back().second.get();
  }

  // An argument as the kernel gets it: a new reference.
  PyObject* argument(PyObject* p) {
    if (PyArray_CheckExact(p)) see(as_array(p));
    if (is_half_array(p)) {
      PyObject* copy = wide(p);
      return copy ? Py_NewRef(copy) : nullptr;
    }
    if (PyArray_DescrCheck(p)) {
      auto* dtype = reinterpret_cast<PyArray_Descr*>(p);
      if (is_half(dtype->type_num)) {  // the result's dtype was asked for
        decided = true;
        type = dtype->type_num;
        return reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_FLOAT));
      }
      decided = true;
      type = 0;
      return Py_NewRef(p);
    }
    if ((!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) || !holds_half(p)) return Py_NewRef(p);
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

  // A result, rounded. Steals the reference. A kernel that wrote into a copy wrote into the array.
  PyObject* result(PyObject* r, bool round) {
    for (auto& pair : pairs) {
      if (pair.second.get() != r) continue;
      Py_DECREF(r);
      PyArrayObject* own = as_array(pair.first);
      if (PyArray_ISWRITEABLE(own) && narrow_into(pair.second.array(), own) < 0) return nullptr;
      return Py_NewRef(pair.first);
    }
    if (PyTuple_CheckExact(r) || PyList_CheckExact(r)) return r;
    if (!round || !type) return r;
    if (PyArray_IsScalar(r, Float)) {  // NumPy's scalar for a 0-d result
      PyObject* array = PyArray_FromScalar(r, nullptr);
      Py_DECREF(r);
      if (!array) return nullptr;
      r = array;
    }
    if (!PyArray_Check(r) || PyArray_TYPE(as_array(r)) != NPY_FLOAT) return r;
    PyObject* made = narrowed(as_array(r), type);
    Py_DECREF(r);
    return made;
  }
};

}  // namespace

bool holds_halves(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    if (holds_half(args[i])) return true;
  return false;
}

PyObject* run_wide(const Widening& widening, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  PyObject* first = widening.first;
  if (first && PyFunction_Check(first)) {
    PyObject* out = PyObject_Vectorcall(first, args, static_cast<size_t>(n), nullptr);
    if (out != Py_None) return out;
    Py_DECREF(out);
    first = nullptr;
  }
  PyObject* direct = run_direct(first ? first : kernel, args, n);
  if (direct || PyErr_Occurred()) return direct;
  Call call;
  std::vector<Ref> given;
  given.reserve(static_cast<size_t>(n));
  if (PyObject_TypeCheck(kernel, &PyUFunc_Type)) {  // outputs that cannot be written
    for (Py_ssize_t i = reinterpret_cast<PyUFuncObject*>(kernel)->nin; i < n; ++i) {
      if (!PyArray_Check(args[i]) || PyArray_ISWRITEABLE(as_array(args[i]))) continue;
      PyErr_SetString(PyExc_ValueError, "output array is read-only");  // as NumPy has it, for other dtypes
      return nullptr;
    }
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    given.emplace_back(call.argument(args[i]));
    if (!given.back()) return nullptr;
  }
  std::vector<PyObject*> stack(static_cast<size_t>(n) + 1);
  for (Py_ssize_t i = 0; i < n; ++i) stack[static_cast<size_t>(i) + 1] = given[static_cast<size_t>(i)].get();
  PyObject* r = PyObject_Vectorcall(kernel, stack.data() + 1,
                                    static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (!r) return nullptr;
  if (!PyTuple_CheckExact(r) && !PyList_CheckExact(r)) return call.result(r, true);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(r);
  PyObject* all = PyTuple_New(count);
  for (Py_ssize_t i = 0; all && i < count; ++i) {
    PyObject* one = call.result(Py_NewRef(PySequence_Fast_GET_ITEM(r, i)), i < widening.outputs);
    if (!one) {
      Py_CLEAR(all);
      break;
    }
    PyTuple_SET_ITEM(all, i, one);
  }
  Py_DECREF(r);
  return all;
}

// ---------------------------------------------------------------- InFloat32

namespace {

struct InFloat32 {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* kernel;
};

PyObject* in_float32_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  PyObject* kernel = reinterpret_cast<InFloat32*>(self)->kernel;
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (names || !holds_halves(args, n)) return PyObject_Vectorcall(kernel, args, flags, names);
  return run_wide(Widening{1, nullptr}, kernel, args, n);
}

PyObject* in_float32_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* kernel;
  if (!PyArg_ParseTuple(args, "O:InFloat32", &kernel)) return nullptr;
  InFloat32* self = reinterpret_cast<InFloat32*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->vectorcall = in_float32_call;
  self->kernel = Py_NewRef(kernel);
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
    {"kernel", T_OBJECT_EX, offsetof(InFloat32, kernel), READONLY, "what computes"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("InFloat32(kernel): with 16-bit floats it computes in float32 and rounds once.")},
    {Py_tp_new, reinterpret_cast<void*>(in_float32_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(in_float32_dealloc)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"shmtensor.native.InFloat32", sizeof(InFloat32), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

int add_in_float32(PyObject* module) {
  Ref type(PyType_FromSpec(&spec));
  return type ? PyModule_AddObjectRef(module, "InFloat32", type.get()) : -1;
}

}  // namespace shmtensor
