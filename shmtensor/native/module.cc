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

namespace shmtensor {

// Called by atexit: Note [Interpreter end].
static PyObject* interpreter_ends(PyObject*, PyObject*) {
  interpreter_end.thread = pthread_self();
  interpreter_end.is_near.store(true);
  Py_RETURN_NONE;
}

static int register_interpreter_end() {
  static PyMethodDef function = {"interpreter_ends", interpreter_ends, METH_NOARGS, nullptr};
  PyObject* module = PyImport_ImportModule("atexit");
  PyObject* callback = module ? PyCFunction_New(&function, nullptr) : nullptr;
  PyObject* result = callback ? PyObject_CallMethod(module, "register", "O", callback) : nullptr;
  const int status = result ? 0 : -1;
  Py_XDECREF(result);
  Py_XDECREF(callback);
  Py_XDECREF(module);
  return status;
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
      shmtensor::add_packed(module) < 0 || shmtensor::register_interpreter_end() < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  shmtensor::tensor_access = {&shmtensor::tensor_type, shmtensor::plain_array, shmtensor::make_tensor};
  return module;
}
