// either(kernel, plain): calls the kernel; where it answers None, the plain form. One C object in
// place of a Python frame on the way of every small op.
#include "dispatch/function.h"
#include "dispatch/views.h"

#include <structmember.h>

#include <cstddef>

namespace shmtensor {
namespace {

struct Either {
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

PyObject* either_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Either* either = reinterpret_cast<Either*>(self);
  PyObject* out = PyObject_Vectorcall(either->kernel, args, flags, names);
  if (out != Py_None) return out;
  Py_DECREF(out);
  return PyObject_Vectorcall(either->plain, args, flags, names);
}

PyObject* either_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *kernel, *plain;
  if (!PyArg_ParseTuple(args, "OO", &kernel, &plain)) return nullptr;
  Either* either = reinterpret_cast<Either*>(type->tp_alloc(type, 0));
  if (!either) return nullptr;
  either->call = either_call;
  either->kernel = Py_NewRef(kernel);
  either->plain = Py_NewRef(plain);
  return reinterpret_cast<PyObject*>(either);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Either, call), READONLY, nullptr},
    {"kernel", T_OBJECT_EX, offsetof(Either, kernel), READONLY, "asked first"},
    {"plain", T_OBJECT_EX, offsetof(Either, plain), READONLY, "asked where the kernel answers None"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Either(kernel, plain): the kernel, or what stands in for it.")},
    {Py_tp_new, reinterpret_cast<void*>(either_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Either>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Either>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<Either>)},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"shmtensor.native.Either", sizeof(Either), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

int add_either(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  const int failed = PyModule_AddObjectRef(module, "Either", type);
  Py_DECREF(type);
  return failed;
}

}  // namespace shmtensor
