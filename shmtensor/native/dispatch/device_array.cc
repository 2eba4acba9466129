#include "dispatch/device_array.h"

namespace shmtensor {

PyTypeObject* device_array_type;

namespace {

PyObject* device_copy;       // copy(array) -> a copy, made on the array's device; null: array.copy()
PyObject* device_copy_into;  // copy_into(target, source): target[...] = source, on its device; null: so

PyObject* attribute_name(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace

Ref array_dtype(PyObject* array) {
  if (PyArray_Check(array)) return Ref(Py_NewRef(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array(array)))));
  static PyObject* name = attribute_name("dtype");
  Ref dtype(PyObject_GetAttr(array, name));
  if (dtype && !PyArray_DescrCheck(dtype.get())) {
    raise("TypeError", "a device's array: its dtype is not NumPy's");
    return Ref();
  }
  return dtype;
}

Ref array_shape(PyObject* array) {
  if (PyArray_Check(array)) {
    PyArrayObject* x = as_array(array);
    Ref shape(PyTuple_New(PyArray_NDIM(x)));
    for (int i = 0; shape && i < PyArray_NDIM(x); ++i) {
      PyObject* size = PyLong_FromSsize_t(PyArray_DIM(x, i));
      if (!size) return Ref();
      PyTuple_SET_ITEM(shape.get(), i, size);
    }
    return shape;
  }
  static PyObject* name = attribute_name("shape");
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
  static PyObject* name = attribute_name("base");
  return Ref(PyObject_GetAttr(array, name));
}

Ref copy_of(PyObject* array) {
  if (PyArray_Check(array)) return Ref(PyArray_NewCopy(as_array(array), NPY_KEEPORDER));
  if (device_copy) return Ref(PyObject_CallOneArg(device_copy, array));
  static PyObject* name = attribute_name("copy");
  return Ref(PyObject_CallMethodNoArgs(array, name));
}

bool copy_into(PyObject* target, PyObject* source) {
  if (PyArray_Check(target)) return PyArray_CopyInto(as_array(target), as_array(source)) == 0;
  if (!device_copy_into) return PyObject_SetItem(target, Py_Ellipsis, source) == 0;
  PyObject* arguments[] = {target, source};
  return static_cast<bool>(Ref(PyObject_Vectorcall(device_copy_into, arguments, 2, nullptr)));
}

PyObject* is_array(PyObject*, PyObject* x) { return PyBool_FromLong(is_array(x)); }

// set_device_array_type(type or None, copy or None, copy_into or None): the class of a device's arrays.
PyObject* set_device_array_type(PyObject*, PyObject* args) {
  PyObject *type, *copy = Py_None, *copy_into = Py_None;
  if (!PyArg_ParseTuple(args, "O|OO:set_device_array_type", &type, &copy, &copy_into)) return nullptr;
  if (type != Py_None && !PyType_Check(type))
    return raise("TypeError", "set_device_array_type: a class or None is needed");
  Py_XSETREF(device_copy, copy == Py_None ? nullptr : Py_NewRef(copy));
  Py_XSETREF(device_copy_into, copy_into == Py_None ? nullptr : Py_NewRef(copy_into));
  PyTypeObject* former = device_array_type;
  device_array_type = type == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_XDECREF(former);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
