#include "dispatch/device_array.h"

namespace shmtensor {

PyTypeObject* device_array_type;
PyTypeObject* meta_array_type;
bool has_device_arrays;
DeviceHooks device_hooks;

bool is_of_a_device(PyObject* x) { return Py_TYPE(x) == device_array_type || is_meta_array(x); }

PyArray_Descr* device_dtype(PyObject* array) { return reinterpret_cast<PyArray_Descr*>(array_dtype(array).get()); }

Ref array_dtype(PyObject* array) {
  if (PyArray_Check(array)) return Ref(Py_NewRef(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array(array)))));
  static PyObject* name = PyUnicode_InternFromString("dtype");
  Ref dtype(PyObject_GetAttr(array, name));
  if (dtype && !PyArray_DescrCheck(dtype.get())) {
    raise("TypeError", "a device's array: its dtype is not NumPy's");
    return Ref();
  }
  return dtype;
}

Ref array_shape(PyObject* array) {
  if (PyArray_Check(array))
    return Ref(PyArray_IntTupleFromIntp(PyArray_NDIM(as_array(array)), PyArray_DIMS(as_array(array))));
  static PyObject* name = PyUnicode_InternFromString("shape");
  Ref shape(PyObject_GetAttr(array, name));
  if (shape && !PyTuple_CheckExact(shape.get())) {
    raise("TypeError", "a device's array: its shape is not a tuple");
    return Ref();
  }
  return shape;
}

Ref array_base(PyObject* array) {
  if (PyArray_Check(array)) {
    PyObject* base = PyArray_BASE(as_array(array));
    return Ref(Py_NewRef(base ? base : Py_None));
  }
  static PyObject* name = PyUnicode_InternFromString("base");
  return Ref(PyObject_GetAttr(array, name));
}

Ref copy_of(PyObject* array) {
  if (PyArray_Check(array)) return Ref(PyArray_NewCopy(as_array(array), NPY_KEEPORDER));
  if (is_meta_array(array)) return Ref(PyObject_CallMethod(array, "copy", nullptr));
  return Ref(PyObject_CallOneArg(device_hooks.copy, array));
}

bool copy_into(PyObject* target, PyObject* source) {
  if (PyArray_Check(target)) return PyArray_CopyInto(as_array(target), as_array(source)) == 0;
  if (is_meta_array(target)) return static_cast<bool>(Ref(PyObject_CallMethod(target, "assign", "O", source)));
  PyObject* arguments[2] = {target, source};
  return static_cast<bool>(Ref(PyObject_Vectorcall(device_hooks.assign, arguments, 2, nullptr)));
}

PyObject* is_array(PyObject*, PyObject* x) { return PyBool_FromLong(is_array(x)); }

// set_device_arrays(type, assign, copy): the class of a device's arrays, from now on.
PyObject* set_device_arrays(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3 || !PyType_Check(args[0])) return raise("TypeError", "set_device_arrays: (class, assign, copy) is needed");
  Py_XSETREF(device_hooks.assign, Py_NewRef(args[1]));
  Py_XSETREF(device_hooks.copy, Py_NewRef(args[2]));
  Py_XSETREF(device_array_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0])));
  has_device_arrays = true;
  Py_RETURN_NONE;
}

// set_meta_arrays(type): the class of arrays without data, from now on. It has `copy()` and `assign(source)`.
PyObject* set_meta_arrays(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) return raise("TypeError", "set_meta_arrays: a class is needed");
  Py_XSETREF(meta_array_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(type)));
  has_device_arrays = true;
  Py_RETURN_NONE;
}

}  // namespace shmtensor
