// The Python bindings of half/.
#include "kernels/arguments.h"
#include "half/half.h"
#include "kernels/dtype_object.h"

namespace shmtensor {
namespace {

// recast(x, dtype): a copy with the same order of axes in memory. recast(x, out): into an array of x's shape.
PyObject* recast(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("recast", n, 2)) return nullptr;
  PyArrayObject* x = array_argument("recast", "x", args[0]);
  if (!x) return nullptr;
  if (PyArray_Check(args[1])) {
    PyArrayObject* out = as_array(args[1]);
    const int from_type = PyArray_TYPE(x), to_type = PyArray_TYPE(out);
    const bool fits = PyArray_SAMESHAPE(x, out) && PyArray_ISWRITEABLE(out) && !overlap(x, out);
    if (fits && from_type == NPY_FLOAT && is_half(to_type)) {
      if (!narrow_into(x, out)) return nullptr;
    } else if (fits && is_half(from_type) && to_type == NPY_FLOAT) {
      if (!widen_into(x, out)) return nullptr;
    } else if (PyArray_CopyInto(out, x) < 0) {
      return nullptr;
    }
    return Py_NewRef(args[1]);
  }
  PyArray_Descr* dtype = canonical_dtype(args[1]);
  if (!dtype && !PyArray_DescrCheck(args[1]))
    return raise("TypeError", "recast: expected a dtype or an array: %s", Py_TYPE(args[1])->tp_name);
  if (!dtype) dtype = reinterpret_cast<PyArray_Descr*>(args[1]);
  const int from_type = PyArray_TYPE(x), to_type = dtype->type_num;
  if (is_half(from_type) && to_type == NPY_FLOAT) return widen_array(x);
  if (from_type == NPY_FLOAT && is_half(to_type)) return narrow_array(x, to_type);
  if (is_half(from_type) && is_half(to_type) && from_type != to_type) {
    Ref wide(widen_array(x));
    return wide ? narrow_array(wide.array(), to_type) : nullptr;
  }
  Py_INCREF(dtype);
  Ref out(PyArray_NewLikeArray(x, NPY_KEEPORDER, dtype, 0));
  if (!out || PyArray_CopyInto(out.array(), x) < 0) return nullptr;
  return out.release();
}

// DLPack's layout (dlpack.h) up to the dtype of the tensor in a capsule.
struct DltensorPrefix {
  void* data;
  int32_t device[2];
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
};
struct VersionedPrefix {
  uint32_t version[2];
  void* context;
  void* deleter;
  uint64_t flags;
  DltensorPrefix tensor;
};

// The tensor of an unused capsule, or nullptr with an exception set.
DltensorPrefix* tensor_of_capsule(const char* where, PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    return &static_cast<VersionedPrefix*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"))->tensor;
  if (PyCapsule_IsValid(capsule, "dltensor")) return static_cast<DltensorPrefix*>(PyCapsule_GetPointer(capsule, "dltensor"));
  const char* name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : Py_TYPE(capsule)->tp_name;
  return raise("ValueError", "%s: not an unused DLPack capsule: %s", where, name ? name : "a capsule without name");
}

// capsule_device(capsule) -> (DLPack's device type, index)
PyObject* capsule_device(PyObject*, PyObject* capsule) {
  const DltensorPrefix* tensor = tensor_of_capsule("from_dlpack", capsule);
  return tensor ? Py_BuildValue("ii", tensor->device[0], tensor->device[1]) : nullptr;
}

// is_versioned_capsule(capsule): is it of DLPack 1.0 or later?
PyObject* is_versioned_capsule(PyObject*, PyObject* capsule) {
  return PyBool_FromLong(PyCapsule_IsValid(capsule, "dltensor_versioned"));
}

// retype(capsule, code, new_code): replaces the tensor's type code if it is `code` with 16 bits. NumPy's DLPack does
// not support bfloat16 (code 4); it exchanges the bits as unsigned integers (code 1).
PyObject* retype(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("retype", n, 3)) return nullptr;
  const long code = PyLong_AsLong(args[1]), new_code = PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return nullptr;
  DltensorPrefix* dltensor = tensor_of_capsule("retype", args[0]);
  if (!dltensor) return nullptr;
  if (dltensor->code != code || dltensor->bits != 16 || dltensor->lanes != 1) Py_RETURN_FALSE;
  dltensor->code = static_cast<uint8_t>(new_code);
  Py_RETURN_TRUE;
}

PyMethodDef methods[] = {
    method("recast", recast, "recast(x, dtype or out, /): a copy in another dtype, or into an array of another dtype."),
    method("retype", retype,
           "retype(capsule, code, new_code, /) -> bool: replaces the type code of a 16-bit DLPack tensor."),
    {"capsule_device", capsule_device, METH_O, "capsule_device(capsule, /) -> (type, index), as __dlpack_device__()."},
    {"is_versioned_capsule", is_versioned_capsule, METH_O, "is_versioned_capsule(capsule, /): of DLPack 1.0 or later."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_half(PyObject* module) {
  if (add_bfloat16(module) < 0 || add_in_float32(module) < 0) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
