// Calling a kernel: the heap is open while it runs, and NumPy's scalars come back as 0-d arrays.
#include "call.h"

#include "compute/memory_format.h"
#include "graph.h"
#include "half/half.h"
#include "memory/heap.h"

namespace shmtensor {

namespace {

// NumPy gives a scalar for a 0-d result. Steals the reference; null with an exception set.
PyObject* whole(PyObject* result) {
  if (PyArray_CheckExact(result)) return result;
  if (PyArray_CheckScalar(result)) {
    PyObject* array = PyArray_FromScalar(result, nullptr);
    Py_DECREF(result);
    return array;
  }
  if (PyArray_Check(result)) {  // a subclass: memmap, matrix
    PyObject* array = PyArray_View(reinterpret_cast<PyArrayObject*>(result), nullptr, &PyArray_Type);
    Py_DECREF(result);
    return array;
  }
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
    PyObject* arrays = PyTuple_New(n);
    for (Py_ssize_t i = 0; arrays && i < n; ++i) {
      PyObject* array = whole(Py_NewRef(PySequence_Fast_GET_ITEM(result, i)));
      if (!array)
        Py_CLEAR(arrays);
      else
        PyTuple_SET_ITEM(arrays, i, array);
    }
    Py_DECREF(result);
    return arrays;
  }
  return result;
}

// Are the arrays in rows, and of other numbers than 16-bit floats?
bool is_plain(PyObject* p) {
  if (PyArray_CheckExact(p)) {
    PyArrayObject* a = reinterpret_cast<PyArrayObject*>(p);
    return PyArray_TYPE(a) < NPY_HALF && in_rows(a);
  }
  if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) return true;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(p);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(p, i);
    if (PyArray_CheckExact(item) && !is_plain(item)) return false;
  }
  return true;
}

PyObject* run_as_is(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  return PyObject_Vectorcall(kernel, args, static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

}  // namespace

PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n, const KernelPolicy* policy) {
  PyObject* result;
  {
    Gate open;
    if (!open) return nullptr;
    bool plain = !policy;
    if (policy) {
      plain = true;
      for (Py_ssize_t i = 0; i < n && plain; ++i) plain = is_plain(args[i]);
    }
    if (__builtin_expect(plain, 1)) {
      result = run_as_is(kernel, args, n);
    } else {
      const auto run = [&](PyObject* const* given, Py_ssize_t count) {
        const bool wide = policy->widens && holds_halves(given, count);
        return wide ? run_wide(policy->widening, kernel, given, count) : run_as_is(kernel, given, count);
      };
      result = policy->formatted ? run_formatted(policy->format, run, kernel, args, n) : run(args, n);
    }
    if (result && !PyArray_CheckExact(result)) result = whole(result);
  }
  if (!result && PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("op");
  return result;
}

namespace {

PyObject* as_tensors(PyObject* result) {
  if (!result) return nullptr;
  if (!PyTuple_CheckExact(result)) {
    PyObject* tensor = make_tensor(result);
    Py_DECREF(result);
    return tensor;
  }
  Py_ssize_t n = PyTuple_GET_SIZE(result);
  PyObject* tensors = PyTuple_New(n);
  for (Py_ssize_t i = 0; tensors && i < n; ++i) {
    PyObject* tensor = make_tensor(PyTuple_GET_ITEM(result, i));
    if (!tensor)
      Py_CLEAR(tensors);
    else
      PyTuple_SET_ITEM(tensors, i, tensor);
  }
  Py_DECREF(result);
  return tensors;
}

}  // namespace

// args[0] is our own slot to overwrite, as PY_VECTORCALL_ARGUMENTS_OFFSET asks for.
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "call: (kernel, *arguments) is needed");
  return run_kernel(args[0], args + 1, n - 1);
}

PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return raise("TypeError", "compute: (kernel, *arguments) is needed");
  return as_tensors(run_kernel(args[0], args + 1, n - 1));
}

PyObject* write(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return raise("TypeError", "write: (tensor, kernel, *arguments) is needed");
  if (is_tensor(args[0]) && !may_write_frozen(reinterpret_cast<TensorBase*>(args[0]))) return nullptr;
  PyObject* result = run_kernel(args[1], args + 2, n - 2);
  if (!result) return nullptr;
  Py_DECREF(result);
  return wrote(self, args[0]);
}

}  // namespace shmtensor
