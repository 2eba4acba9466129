// KernelOrFallback(kernel, plain): calls the kernel; where it answers None, the plain form. One C object in
// place of a Python frame on the way of every small op.
#include "dispatch/function.h"
#include "dispatch/views.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {
namespace {

struct KernelOrFallback {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* kernel;
  PyObject* plain;

  template <class Visit>
  void each_reference(Visit visit) {
    visit(kernel);
    visit(plain);
  }
};

PyObject* kernel_or_fallback_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  KernelOrFallback* object = reinterpret_cast<KernelOrFallback*>(self);
  PyObject* out = PyObject_Vectorcall(object->kernel, args, flags, names);
  if (out != Py_None) return out;
  Py_DECREF(out);
  return PyObject_Vectorcall(object->plain, args, flags, names);
}

PyObject* kernel_or_fallback_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *kernel, *plain;
  if (!PyArg_ParseTuple(args, "OO", &kernel, &plain)) return nullptr;
  KernelOrFallback* object = reinterpret_cast<KernelOrFallback*>(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  object->call = kernel_or_fallback_call;
  object->kernel = Py_NewRef(kernel);
  object->plain = Py_NewRef(plain);
  return reinterpret_cast<PyObject*>(object);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelOrFallback, call), READONLY, nullptr},
    {"kernel", T_OBJECT_EX, offsetof(KernelOrFallback, kernel), READONLY, "asked first"},
    {"plain", T_OBJECT_EX, offsetof(KernelOrFallback, plain), READONLY, "asked where the kernel answers None"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("KernelOrFallback(kernel, plain): the kernel, or what stands in for it.")},
    {Py_tp_new, reinterpret_cast<void*>(kernel_or_fallback_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<KernelOrFallback>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<KernelOrFallback>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<KernelOrFallback>)},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"shmtensor.native.KernelOrFallback", sizeof(KernelOrFallback), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

int add_either(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  const int failed = PyModule_AddObjectRef(module, "KernelOrFallback", type);
  Py_DECREF(type);
  return failed;
}

}  // namespace shmtensor
