#include "shared_containers/dtype.h"

#include <limits.h>

namespace shmtensor::packed {

namespace {

// Whether a field at `offset` is inside the item.
bool contains_field(PyArray_Descr* outer, PyArray_Descr* field, npy_intp offset) {
  npy_intp end;
  return offset >= 0 && !__builtin_add_overflow(offset, PyDataType_ELSIZE(field), &end) && end <= PyDataType_ELSIZE(outer);
}

bool has_sound_fields(PyArray_Descr* descr, int depth) {
  PyObject* names = PyDataType_NAMES(descr);
  PyObject* fields = PyDataType_FIELDS(descr);
  if (!names && !fields) return true;
  if (!names || !fields || !PyTuple_Check(names) || !PyDict_Check(fields)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (!PyUnicode_Check(name)) return false;
    PyObject* field = PyDict_GetItemWithError(fields, name);  // (dtype, offset) or (dtype, offset, title)
    if (!field || !PyTuple_Check(field) || PyTuple_GET_SIZE(field) < 2 || PyTuple_GET_SIZE(field) > 3) return false;
    PyObject *part = PyTuple_GET_ITEM(field, 0), *offset = PyTuple_GET_ITEM(field, 1);
    if (!PyArray_DescrCheck(part) || !PyLong_Check(offset)) return false;
    auto* inner = reinterpret_cast<PyArray_Descr*>(part);
    if (!is_sound(inner, depth + 1) || !contains_field(descr, inner, PyLong_AsSsize_t(offset))) return false;
  }
  return true;
}

bool has_sound_subarray(PyArray_Descr* descr, int depth) {
  PyArray_ArrayDescr* sub = PyDataType_SUBARRAY(descr);
  if (!sub) return true;
  if (!sub->base || !sub->shape || !PyTuple_Check(sub->shape) || !is_sound(sub->base, depth + 1)) return false;
  npy_intp total = PyDataType_ELSIZE(sub->base);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sub->shape); ++i) {
    PyObject* n = PyTuple_GET_ITEM(sub->shape, i);
    const Py_ssize_t size = PyLong_Check(n) ? PyLong_AsSsize_t(n) : -1;
    if (size < 0 || __builtin_mul_overflow(total, npy_intp(size), &total)) return false;
  }
  return total == PyDataType_ELSIZE(descr);
}

}  // namespace

bool is_sound(PyArray_Descr* descr, int depth) {
  constexpr int kMaxDepth = 32;
  if (depth > kMaxDepth || !PyDataType_ISLEGACY(descr) || PyDataType_REFCHK(descr)) return false;
  const npy_intp size = PyDataType_ELSIZE(descr), alignment = PyDataType_ALIGNMENT(descr);
  if (size < 0 || size > INT_MAX || alignment < 1 || alignment > 64 || (alignment & (alignment - 1))) return false;
  switch (descr->type_num) {
    case NPY_OBJECT: return false;
    case NPY_STRING: return true;
    case NPY_UNICODE: return size % 4 == 0;
    case NPY_VOID: return has_sound_fields(descr, depth) && has_sound_subarray(descr, depth);
    default: {
      PyArray_Descr* plain = PyArray_DescrFromType(descr->type_num);
      const bool good = plain && PyDataType_ELSIZE(plain) == size;
      if (!plain) PyErr_Clear();
      Py_XDECREF(plain);
      return good;
    }
  }
}

}  // namespace shmtensor::packed
