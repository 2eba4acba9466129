// Arrays in messages: the block, and the layout of the array in it. In C because a message of 100 tensors needs it 100
// times on either side, and NumPy's attributes (`__array_interface__`, `dtype.str`) take microseconds.
#include "memory/ledger/block.h"
#include "memory/gradient_buffer.h"
#include "memory/ledger/ledger.h"
#include "python.h"
#include "ipc/codec/array_layout.h"

namespace shmtensor {

namespace {

// A number for the types that are the same in every process, the dtype object for the others.
PyObject* describe_dtype(PyArray_Descr* descr) {
  bool plain = is_plain(descr);
  return plain ? PyLong_FromLong(wire_of(descr->type_num)) : Py_NewRef(reinterpret_cast<PyObject*>(descr));
}

PyObject* array_layout(PyObject*, PyObject* object) {
  if (!PyArray_Check(object)) return raise("TypeError", "array_layout: not an array: %s", Py_TYPE(object)->tp_name);
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
  if (!is_shared(PyArray_DATA(array)) || PyDataType_REFCHK(PyArray_DESCR(array))) Py_RETURN_NONE;
  BlockRef block = block_around(PyArray_DATA(array));
  if (!block.arena) Py_RETURN_NONE;
  mark_sent(array);
  PyObject* strides = PyArray_IS_C_CONTIGUOUS(array) ? Py_NewRef(Py_None)
                                                     : PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_STRIDES(array));
  return Py_BuildValue("NNNNnO", PyLong_FromVoidPtr(block.base), describe_dtype(PyArray_DESCR(array)),
                       PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array)), strides,
                       static_cast<Py_ssize_t>(PyArray_BYTES(array) - block.base),
                       PyArray_ISWRITEABLE(array) ? Py_True : Py_False);
}

bool read_sizes(PyObject* tuple, npy_intp* out, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++) {
    out[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

PyObject* array_at(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (!takes("array_at", n, 6)) return nullptr;
  Py_buffer view;
  if (!PyTuple_Check(a[2]) || PyTuple_GET_SIZE(a[2]) > NPY_MAXDIMS || (a[3] != Py_None && !PyTuple_Check(a[3])))
    return raise("TypeError", "array_at: shape and strides are tuples");
  Py_ssize_t ndim = PyTuple_GET_SIZE(a[2]);
  npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  if (!read_sizes(a[2], shape, ndim)) return nullptr;
  if (a[3] != Py_None && (PyTuple_GET_SIZE(a[3]) != ndim || !read_sizes(a[3], strides, ndim)))
    return PyErr_Occurred() ? Raised{} : raise("ValueError", "array_at: shape and strides differ in length");
  Py_ssize_t offset = PyLong_AsSsize_t(a[4]);
  if (offset == -1 && PyErr_Occurred()) return nullptr;
  PyArray_Descr* descr;
  if (PyLong_Check(a[1])) {
    long number = PyLong_AsLong(a[1]);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    if (!is_plain_number(number)) return raise("TypeError", "array_at: no number of a dtype: %ld", number);
    descr = PyArray_DescrFromType(type_of(static_cast<int>(number)));
  } else if (PyArray_DescrCheck(a[1])) {
    descr = reinterpret_cast<PyArray_Descr*>(Py_NewRef(a[1]));
  } else {
    return raise("TypeError", "array_at: not a dtype: %s", Py_TYPE(a[1])->tp_name);
  }
  if (!descr) return nullptr;
  int writeable = PyObject_IsTrue(a[5]);
  if (writeable < 0 || PyObject_GetBuffer(a[0], &view, PyBUF_WRITABLE) < 0) {
    Py_DECREF(descr);
    return nullptr;
  }
  char* base = static_cast<char*>(view.buf);
  size_t nbytes = static_cast<size_t>(view.len);
  PyBuffer_Release(&view);  // the array keeps the block
  return view_block(a[0], base, nbytes, descr, static_cast<int>(ndim), shape, a[3] == Py_None ? nullptr : strides, offset,
                    writeable != 0);
}

PyMethodDef methods[] = {
    {"array_layout", array_layout, METH_O,
     "array_layout(array) -> (base of its block, dtype, shape, strides or None, offset, writeable), or None: not shared."},
    method("array_at", array_at,
           "array_at(block, dtype, shape, strides, offset, writeable) -> array over the block. Copies: none."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* readonly_view(PyObject* buffer) {
  PyObject* view = PyMemoryView_FromObject(buffer);
  PyObject* readonly = view ? PyObject_CallMethod(view, "toreadonly", nullptr) : nullptr;
  Py_XDECREF(view);
  return readonly;
}

// Whether it is one of NumPy's own number types, which have neither references nor fields.
static bool is_number(PyArray_Descr* descr) { return descr->type_num >= 0 && descr->type_num < NPY_OBJECT; }

bool is_inside(size_t nbytes, npy_intp element, int ndim, const npy_intp* shape, const npy_intp* strides, npy_intp offset,
               npy_intp* low, npy_intp* high) {
  npy_intp step = element;
  bool empty = false, good = !__builtin_add_overflow(offset, step, high);
  *low = offset;
  for (int i = ndim - 1; i >= 0 && good; i--) {
    npy_intp reach;
    const npy_intp stride = strides ? strides[i] : step;
    if (!strides) good = !__builtin_mul_overflow(step, shape[i] ? shape[i] : 1, &step);
    empty |= shape[i] == 0;
    npy_intp* end = stride < 0 ? low : high;
    good = good && shape[i] >= 0 && !__builtin_mul_overflow(shape[i] ? shape[i] - 1 : 0, stride, &reach) &&
           !__builtin_add_overflow(*end, reach, end);
  }
  return good && offset >= 0 && static_cast<size_t>(offset) <= nbytes &&
         (empty || (*low >= 0 && *high >= 0 && static_cast<size_t>(*high) <= nbytes));
}

PyObject* view_block(PyObject* owner, char* base, size_t nbytes, PyArray_Descr* descr, int ndim, const npy_intp* shape,
                     const npy_intp* strides, Py_ssize_t offset, bool writeable) {
  const npy_intp element = PyDataType_ELSIZE(descr);
  // Other processes wrote the bytes of the block: the dtype must have no pointers, and a size.
  if (element <= 0 || (!is_number(descr) && (PyDataType_REFCHK(descr) || PyDataType_HASSUBARRAY(descr)))) {
    raise("TypeError", "array_at: no dtype of plain bytes: %s", Py_TYPE(descr)->tp_name);
    Py_DECREF(descr);
    return nullptr;
  }
  npy_intp low, high;
  if (!is_inside(nbytes, element, ndim, shape, strides, offset, &low, &high)) {
    Py_DECREF(descr);
    return raise("ValueError",
                 "array_at: the array is not inside the block: offset %zd, %d dimensions, bytes %zd to %zd of %zu", offset,
                 ndim, static_cast<Py_ssize_t>(low), static_cast<Py_ssize_t>(high), nbytes);
  }
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, descr, ndim, const_cast<npy_intp*>(shape), const_cast<npy_intp*>(strides),
                           base + offset, writeable ? NPY_ARRAY_WRITEABLE : 0, nullptr);
  if (!array) return nullptr;
  // The base of a read-only array is a read-only buffer; else NumPy would allow setting its writeable flag again.
  PyObject* base_object = writeable ? Py_NewRef(owner) : readonly_view(owner);
  if (!base_object || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), base_object) < 0) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}

int add_array_layout(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace shmtensor
