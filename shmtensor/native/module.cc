// The extension module shmtensor.native._core: NumPy's table, and what each folder adds.
#define SHMTENSOR_IMPORT_ARRAY
#include "python.h"

#include <cstdarg>
#include <cstdio>

#include "dispatch/autograd_node.h"
#include "ipc/codec/codec.h"

namespace shmtensor {

PyObject* raise(const char* name, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  PyObject* module = PyImport_ImportModule("shmtensor.errors");
  PyObject* type = module ? PyObject_GetAttrString(module, name) : nullptr;
  if (module && !type) {
    PyErr_Clear();
    PyObject* builtins = PyEval_GetBuiltins();
    type = PyDict_GetItemString(builtins, name);
    Py_XINCREF(type);
  }
  // `explained`, as errors.explained marks Python's: the message says where, what is wrong, and the values.
  PyObject* error = type ? PyObject_CallFunction(type, "s", text) : nullptr;
  if (error && PyObject_SetAttrString(error, "explained", Py_True) == 0) PyErr_SetObject(type, error);
  Py_XDECREF(error);
  Py_XDECREF(type);
  Py_XDECREF(module);
  return nullptr;
}

// The array of a tensor without history, gradient or hooks, borrowed; else null.
static PyObject* plain_array(PyObject* object) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(object);
  return tensor->node == Py_None && tensor->accumulate_grad == Py_None ? tensor->array : nullptr;
}

}  // namespace shmtensor

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "shmtensor.native._core", "The C++ core of shmtensor.", -1, nullptr,
    nullptr, nullptr, nullptr, nullptr,
};

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__core() {
  import_array();
  import_umath();
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  if (shmtensor::add_memory(module) < 0 || shmtensor::add_sync(module) < 0 ||
      shmtensor::add_compute(module) < 0 || shmtensor::add_half(module) < 0 ||
      shmtensor::add_call(module) < 0 ||
      shmtensor::add_packed(module) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  shmtensor::tensor_access = {&shmtensor::tensor_type, shmtensor::plain_array, shmtensor::make_tensor};
  return module;
}
