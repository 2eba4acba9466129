// The extension module shmtensor.native._core: NumPy's table, and what each folder adds.
#define SHMTENSOR_IMPORT_ARRAY
#include "methods.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

#include "dispatch/autograd_node.h"
#include "ipc/codec/codec.h"

namespace shmtensor {

Raised raise(const char* name, const char* format, ...) {
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
  return {};
}

bool takes(const char* where, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most) {
  if (n >= least && n <= (most < 0 ? least : most)) return true;
  if (most < 0) return raise("TypeError", "%s: wrong number of arguments: %zd, expected %zd", where, n, least);
  return raise("TypeError", "%s: wrong number of arguments: %zd, expected %zd to %zd", where, n, least, most);
}

bool read_timeout(PyObject* object, double* seconds) {
  *seconds = object == Py_None ? -1.0 : PyFloat_AsDouble(object);
  if (*seconds == -1.0 && PyErr_Occurred()) return false;
  if (object != Py_None && !(*seconds > 0)) *seconds = 0.0;
  return true;
}

void append(PyObject** list, PyObject* item) {
  if (*list && (!item || PyList_Append(*list, item) < 0)) Py_CLEAR(*list);
  Py_XDECREF(item);
}

// The array of a tensor without history, gradient or hooks, borrowed; else null.
static PyObject* plain_array(PyObject* object) {
  TensorBase* tensor = reinterpret_cast<TensorBase*>(object);
  return tensor->node == Py_None && tensor->accumulate_grad == Py_None ? tensor->array : nullptr;
}

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

// Refuses a second load in one process, from this file or from a copy of it: each would register its
// own bfloat16 with NumPy, and have its own heap. Python's import system does not come here for a
// module that it has loaded before under the same name. -1 with an ImportError.
static int check_loaded_once() {
  Dl_info file;
  const char* path = dladdr(reinterpret_cast<void*>(check_loaded_once), &file) ? file.dli_fname : "?";
  PyObject* state = PyInterpreterState_GetDict(PyInterpreterState_Get());
  if (!state) {
    PyErr_SetString(PyExc_ImportError, "shmtensor.native._core: the interpreter has no state for extensions");
    return -1;
  }
  if (PyObject* before = PyDict_GetItemString(state, "shmtensor.native._core")) {
    PyErr_Format(PyExc_ImportError,
                 "shmtensor.native._core: this process has loaded it already, by another name or from another "
                 "folder: %U, now %s; import it as shmtensor only, hint: import shmtensor.as_torch gives it "
                 "the name torch",
                 before, path);
    return -1;
  }
  PyObject* name = PyUnicode_DecodeFSDefault(path);
  const int status = name ? PyDict_SetItemString(state, "shmtensor.native._core", name) : -1;
  Py_XDECREF(name);
  return status;
}

}  // namespace shmtensor

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "shmtensor.native._core",
    "The C++ core of shmtensor.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__core() {
  import_array();
  import_umath();
  if (shmtensor::check_loaded_once() < 0) return nullptr;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  if (shmtensor::add_memory(module) < 0 || shmtensor::add_sync(module) < 0 || shmtensor::add_compute(module) < 0 ||
      shmtensor::add_half(module) < 0 || shmtensor::add_call(module) < 0 || shmtensor::add_packed(module) < 0 ||
      shmtensor::add_profiler(module) < 0 || shmtensor::register_interpreter_end() < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  shmtensor::tensor_access = {&shmtensor::tensor_type, shmtensor::plain_array, shmtensor::make_tensor};
  return module;
}
