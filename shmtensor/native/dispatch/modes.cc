// See modes.h.
#include "dispatch/modes.h"

#include <unordered_set>

#include "kernels/arguments.h"
#include "dispatch/autograd_node.h"

namespace shmtensor {

std::atomic<uint32_t> modes{0};
__thread uint32_t modes_left_out = 0;
__thread int overrides_off = 0;

namespace {

PyObject* autocast_function;
PyObject* observed_function;

// Subclasses of Tensor without behaviour of their own (Parameter). They are kept alive.
std::unordered_set<PyTypeObject*>& plain_classes() {
  static auto* classes = new std::unordered_set<PyTypeObject*>();
  return *classes;
}

}  // namespace

PyObject* call_packed(PyObject* function, PyObject* called, PyObject* const* args, Py_ssize_t n, PyObject* names,
                      PyObject* error) {
  Ref positional(PyTuple_New(n)), keywords(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[n + i]) < 0) return nullptr;
  PyObject* arguments[4] = {called, positional.get(), keywords.get(), error};
  return PyObject_Vectorcall(function, arguments, error ? 4 : 3, nullptr);
}

PyObject* call_in_mode(uint32_t active, PyObject* called, PyObject* const* args, Py_ssize_t n, PyObject* names,
                       PlainCall* plain, PyObject* event, profiler::Kind kind) {
  if (active & (kAutocast | kAutocastCuda)) return call_packed(autocast_function, called, args, n, names);
  if (!(active & kProfiled)) return call_packed(observed_function, called, args, n, names);
  const profiler::Begin began = profiler::begin();
  PyObject* result =
      active & kObserved ? call_packed(observed_function, called, args, n, names) : plain(called, args, n, names);
  if (result) profiler::end(began, event, kind);
  return result;
}

bool is_plain_class(PyTypeObject* type) { return type == tensor_type || plain_classes().count(type) != 0; }

PyObject* set_modes(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("set_modes", n, 2)) return nullptr;
  const unsigned long bits = PyLong_AsUnsignedLong(args[0]);
  const int on = PyObject_IsTrue(args[1]);
  if (PyErr_Occurred()) return nullptr;
  if (on) modes.fetch_or(static_cast<uint32_t>(bits), std::memory_order_relaxed);
  else modes.fetch_and(~static_cast<uint32_t>(bits), std::memory_order_relaxed);
  Py_RETURN_NONE;
}

PyObject* leave_out_modes(PyObject*, PyObject* bits) {
  const unsigned long mask = PyLong_AsUnsignedLong(bits);
  if (PyErr_Occurred()) return nullptr;
  const uint32_t former = modes_left_out;
  modes_left_out = static_cast<uint32_t>(mask);
  return PyLong_FromUnsignedLong(former);
}

PyObject* set_mode_functions(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("set_mode_functions", n, 2)) return nullptr;
  Py_XSETREF(autocast_function, Py_NewRef(args[0]));
  Py_XSETREF(observed_function, Py_NewRef(args[1]));
  Py_RETURN_NONE;
}

PyObject* turn_overrides_off(PyObject*, PyObject* step) {
  const long change = PyLong_AsLong(step);
  if (change == -1 && PyErr_Occurred()) return nullptr;
  overrides_off += static_cast<int>(change);
  return PyLong_FromLong(overrides_off);
}

PyObject* add_plain_class(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base_type))
    return raise("TypeError", "add_plain_class: a subclass of TensorBase is needed");
  if (plain_classes().insert(reinterpret_cast<PyTypeObject*>(type)).second) Py_INCREF(type);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
