// KernelOrFallback(kernel, fallback): calls the kernel, and the fallback where the kernel returns None. One C object
// instead of a Python frame in every small op.
#include "dispatch/function_base.h"
#include "dispatch/views.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {
namespace {

struct KernelOrFallback {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* kernel;
  PyObject* fallback;

  template <class Visit>
  void each_reference(Visit visit) {
    visit(kernel);
    visit(fallback);
  }
};

PyObject* kernel_or_fallback_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  KernelOrFallback* object = reinterpret_cast<KernelOrFallback*>(self);
  PyObject* out = PyObject_Vectorcall(object->kernel, args, flags, names);
  if (out != Py_None) return out;
  Py_DECREF(out);
  return PyObject_Vectorcall(object->fallback, args, flags, names);
}

PyObject* kernel_or_fallback_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *kernel, *fallback;
  if (!PyArg_ParseTuple(args, "OO", &kernel, &fallback)) return nullptr;
  KernelOrFallback* object = reinterpret_cast<KernelOrFallback*>(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  object->call = kernel_or_fallback_call;
  object->kernel = Py_NewRef(kernel);
  object->fallback = Py_NewRef(fallback);
  return reinterpret_cast<PyObject*>(object);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelOrFallback, call), READONLY, nullptr},
    {"kernel", T_OBJECT_EX, offsetof(KernelOrFallback, kernel), READONLY, "called first"},
    {"fallback", T_OBJECT_EX, offsetof(KernelOrFallback, fallback), READONLY, "called where the kernel returns None"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char*>("KernelOrFallback(kernel, fallback): calls the kernel, or the fallback if it returns None.")},
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

int add_kernel_or_fallback(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  const int status = PyModule_AddObjectRef(module, "KernelOrFallback", type);
  Py_DECREF(type);
  return status;
}

}  // namespace shmtensor
