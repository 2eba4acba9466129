// The large arrays of a sample are copied to a row of the batch's arrays and replaced by views of it: Note [Warm samples]
// in dataloaders/loader/fetch.py.
#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"

namespace shmtensor {
namespace {

constexpr npy_intp kUnlock = 262144;  // bytes

// The array of a sample under a key (None: the sample itself); borrowed, nullptr without an exception: there is none.
PyObject* field_of(PyObject* sample, PyObject* key) {
  if (key == Py_None) return sample;
  if (PyDict_CheckExact(sample)) {
    PyObject* x = PyDict_GetItemWithError(sample, key);
    if (!x) PyErr_Clear();
    return x;
  }
  if (!PyLong_CheckExact(key) || !(PyTuple_CheckExact(sample) || PyList_CheckExact(sample))) return nullptr;
  const Py_ssize_t i = PyLong_AsSsize_t(key);
  return i >= 0 && i < Py_SIZE(sample) ? PySequence_Fast_ITEMS(sample)[i] : nullptr;
}

// Whether the memory of an array of NumPy, to which nothing else refers, dies with it.
bool owns_memory(PyArrayObject* x) {
  PyObject* base = PyArray_BASE(x);
  return !base || (PyArray_CheckExact(base) && Py_REFCNT(base) == 1 && !PyArray_BASE(as_array(base)));
}

// A tensor of PyTorch as an array over its memory. Empty without an exception: NumPy cannot view it, or it is a part of
// another tensor.
Ref view_of_tensor(PyObject* x) {
  Ref base(PyObject_GetAttrString(x, "_base"));
  if (base.get() != Py_None) return PyErr_Clear(), Ref();
  static PyObject* name = PyUnicode_InternFromString("numpy");
  PyObject* array = name ? PyObject_CallMethodNoArgs(x, name) : nullptr;
  if (!array) PyErr_Clear();  // collation raises it again, and names the sample
  return Ref(array);
}

// The array of a sample's new value, to which there are at most `most` references: of NumPy, or, with their class, of
// PyTorch. Empty without an exception: it is none.
Ref new_array(PyObject* x, Py_ssize_t most, PyObject* tensor_class) {
  if (Py_REFCNT(x) > most) return Ref();
  if (PyArray_CheckExact(x)) return owns_memory(as_array(x)) ? Ref(Py_NewRef(x)) : Ref();
  if (reinterpret_cast<PyObject*>(Py_TYPE(x)) != tensor_class) return Ref();
  Ref array = view_of_tensor(x);
  return array && PyArray_CheckExact(array.get()) ? std::move(array) : Ref();
}

// A view of row `i` of an array.
PyObject* row_of(PyArrayObject* part, Py_ssize_t i) {
  Py_INCREF(PyArray_DESCR(part));
  PyObject* row =
      PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(part), PyArray_NDIM(part) - 1, PyArray_DIMS(part) + 1, nullptr,
                           PyArray_BYTES(part) + i * PyArray_STRIDE(part, 0), NPY_ARRAY_CARRAY, nullptr);
  if (!row) return nullptr;
  Py_INCREF(part);
  if (PyArray_SetBaseObject(as_array(row), reinterpret_cast<PyObject*>(part)) < 0) Py_CLEAR(row);
  return row;
}

bool copy_to(PyArrayObject* row, PyArrayObject* x) {
  if (!PyArray_ISCARRAY_RO(x)) return PyArray_CopyInto(row, x) == 0;
  const npy_intp nbytes = PyArray_NBYTES(x);
  Unlocked unlocked(nbytes > kUnlock);
  copy_run(PyArray_BYTES(row), PyArray_BYTES(x), static_cast<size_t>(nbytes));
  return true;
}

}  // namespace

// copy_to_rows(sample, fields, i, tensor_class=None): `fields` has (key, array) pairs; each array of the sample that
// nothing else refers to, and that has the dtype and shape of a row of that array, is replaced by the row, with a copy;
// and so is a tensor of that class, which has `numpy()`.
PyObject* copy_to_rows(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "copy_to_rows";
  if (!takes(where, n, 3, 4)) return nullptr;
  PyObject *sample = args[0], *fields = args[1];
  const Py_ssize_t i = PyLong_AsSsize_t(args[2]);
  if (i == -1 && PyErr_Occurred()) return nullptr;
  if (!PyList_CheckExact(fields)) return raise("TypeError", "%s: fields is not a list: %s", where, Py_TYPE(fields)->tp_name);
  // Besides the caller's variable there is the reference of the call: counts_references in fetch.py checks it.
  if (Py_REFCNT(sample) > 2) return Py_NewRef(sample);
  Ref out;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(fields); ++k) {
    PyObject* field = PyList_GET_ITEM(fields, k);
    if (!PyTuple_CheckExact(field) || PyTuple_GET_SIZE(field) != 2)
      return raise("TypeError", "%s: a field is not a pair: %s", where, Py_TYPE(field)->tp_name);
    PyObject* key = PyTuple_GET_ITEM(field, 0);
    PyArrayObject* part = array_argument(where, "an array", PyTuple_GET_ITEM(field, 1));
    if (!part) return nullptr;
    const int nd = PyArray_NDIM(part) - 1;
    if (!PyArray_ISCARRAY(part) || nd < 0 || i < 0 || i >= PyArray_DIM(part, 0))
      return raise("ValueError", "%s: no row %zd in a contiguous array: %s", where, i, shape_text(part).c_str());
    PyObject* x = field_of(sample, key);
    // An array in `out` has a reference of `out`, too.
    const Py_ssize_t most = key == Py_None || out ? 2 : 1;
    if (!x) continue;
    Ref owner = new_array(x, most, n == 4 ? args[3] : Py_None);
    if (!owner) continue;
    PyArrayObject* a = owner.array();
    if (PyArray_NDIM(a) != nd || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(part) + 1, nd) ||
        PyArray_DESCR(a) != PyArray_DESCR(part) || PyDataType_REFCHK(PyArray_DESCR(a)))
      continue;
    Ref row(row_of(part, i));
    if (!row || !copy_to(row.array(), a)) return nullptr;
    if (key == Py_None) return row.release();
    if (!out) out = Ref(PyDict_CheckExact(sample) ? PyDict_Copy(sample) : PySequence_List(sample));
    if (!out) return nullptr;
    if (PyDict_CheckExact(sample)) {
      if (PyDict_SetItem(out.get(), key, row.get()) < 0) return nullptr;
    } else if (PyList_SetItem(out.get(), PyLong_AsSsize_t(key), row.release()) < 0) {
      return nullptr;
    }
  }
  return out ? out.release() : Py_NewRef(sample);
}

}  // namespace shmtensor
