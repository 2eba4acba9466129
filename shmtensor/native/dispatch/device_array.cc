#include "dispatch/device_array.h"

namespace shmtensor {

PyTypeObject* device_array_type;

namespace {

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
  static PyObject* name = attribute_name("copy");
  return Ref(PyObject_CallMethodNoArgs(array, name));
}

bool copy_into(PyObject* target, PyObject* source) {
  if (PyArray_Check(target)) return PyArray_CopyInto(as_array(target), as_array(source)) == 0;
  return PyObject_SetItem(target, Py_Ellipsis, source) == 0;
}

PyObject* is_array(PyObject*, PyObject* x) { return PyBool_FromLong(is_array(x)); }

// set_device_array_type(type or None): the class of a device's arrays.
PyObject* set_device_array_type(PyObject*, PyObject* type) {
  if (type != Py_None && !PyType_Check(type))
    return raise("TypeError", "set_device_array_type: a class or None is needed");
  PyTypeObject* former = device_array_type;
  device_array_type = type == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_XDECREF(former);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
