// The Python face of half/.
#include "kernels/arguments.h"
#include "half/half.h"

namespace shmtensor {
namespace {

template <PyObject* (*F)(PyObject*, PyObject* const*, Py_ssize_t)>
PyCFunction fast() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(F));
}

// recast(x, dtype): a copy, with the axes in the same order. recast(x, out): into an array of that shape.
PyObject* recast(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("recast", n, 2, 2) < 0) return nullptr;
  PyArrayObject* x = array_argument("recast", "x", args[0]);
  if (!x) return nullptr;
  if (PyArray_Check(args[1])) {
    PyArrayObject* out = as_array(args[1]);
    const bool rounds = PyArray_TYPE(x) == NPY_FLOAT && is_half(PyArray_TYPE(out)) && PyArray_SAMESHAPE(x, out) &&
                        PyArray_ISWRITEABLE(out);
    if ((rounds ? narrow_into(x, out) : PyArray_CopyInto(out, x)) < 0) return nullptr;
    return Py_NewRef(args[1]);
  }
  if (!PyArray_DescrCheck(args[1]))
    return raise("TypeError", "recast: a dtype or an array is needed: %s", Py_TYPE(args[1])->tp_name);
  auto* dtype = reinterpret_cast<PyArray_Descr*>(args[1]);
  const int from = PyArray_TYPE(x), to = dtype->type_num;
  if (is_half(from) && to == NPY_FLOAT) return widened(x);
  if (from == NPY_FLOAT && is_half(to)) return narrowed(x, to);
  if (is_half(from) && is_half(to) && from != to) {
    Ref wide(widened(x));
    return wide ? narrowed(wide.array(), to) : nullptr;
  }
  Py_INCREF(dtype);
  Ref out(PyArray_NewLikeArray(x, NPY_KEEPORDER, dtype, 0));
  if (!out || PyArray_CopyInto(out.array(), x) < 0) return nullptr;
  return out.release();
}

// DLPack's own layout (dlpack.h): what stands before the dtype of a tensor in a capsule.
struct DltensorHead {
  void* data;
  int32_t device[2];
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
};
struct VersionedHead {
  uint32_t version[2];
  void* context;
  void* deleter;
  uint64_t flags;
  DltensorHead tensor;
};

// retype(capsule, code, other): the tensor's type code becomes `other` if it is `code` of 16 bits. NumPy knows no
// bfloat16 there (code 4): it gives and takes the bits as unsigned integers (code 1).
PyObject* retype(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("retype", n, 3, 3) < 0) return nullptr;
  const long code = PyLong_AsLong(args[1]), other = PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return nullptr;
  DltensorHead* head;
  if (PyCapsule_IsValid(args[0], "dltensor_versioned")) {
    head = &static_cast<VersionedHead*>(PyCapsule_GetPointer(args[0], "dltensor_versioned"))->tensor;
  } else if (PyCapsule_IsValid(args[0], "dltensor")) {
    head = static_cast<DltensorHead*>(PyCapsule_GetPointer(args[0], "dltensor"));
  } else {
    return raise("TypeError", "retype: not a fresh DLPack capsule: %s", Py_TYPE(args[0])->tp_name);
  }
  if (head->code != code || head->bits != 16 || head->lanes != 1) Py_RETURN_FALSE;
  head->code = static_cast<uint8_t>(other);
  Py_RETURN_TRUE;
}

PyMethodDef methods[] = {
    {"recast", fast<recast>(), METH_FASTCALL, "recast(x, dtype or out, /): a copy of another dtype, or into an array of another."},
    {"retype", fast<retype>(), METH_FASTCALL,
     "retype(capsule, code, other, /) -> bool: a 16-bit DLPack tensor's type code, replaced."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_half(PyObject* module) {
  if (add_bfloat16(module) < 0 || add_in_float32(module) < 0) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
