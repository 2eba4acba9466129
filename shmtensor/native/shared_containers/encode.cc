// Writing one element. Exact types only: subclasses are pickled, so that they keep their attributes.
#include "dispatch/autograd_node.h"
#include "ipc/codec/array_layout.h"
#include "kernels/shape/memcpy.h"
#include "shared_containers/pack.h"

namespace shmtensor::packed {

namespace {

template <class T>
bool write_int(Buffer& out, Tag tag, T value) {
  return out.add(tag) && out.add(&value, sizeof value);
}

bool write_counted(Buffer& out, Tag tag, const void* bytes, Py_ssize_t n) {
  return out.add(tag) && out.add_number(uint64_t(n)) && out.add(bytes, size_t(n));
}

// Steals the reference to `bytes`, which may be null with an exception set.
bool write_owned(Buffer& out, Tag tag, PyObject* bytes) {
  bool good = bytes && PyBytes_Check(bytes) &&
              write_counted(out, tag, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
  Py_XDECREF(bytes);
  return good;
}

bool write_long(Buffer& out, PyObject* value) {
  int overflow;
  long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (!overflow) {
    if (n == int8_t(n)) return write_int(out, kInt1, int8_t(n));
    if (n == int16_t(n)) return write_int(out, kInt2, int16_t(n));
    if (n == int32_t(n)) return write_int(out, kInt4, int32_t(n));
    return write_int(out, kInt8, int64_t(n));
  }
  PyObject* bits = PyObject_CallMethod(value, "bit_length", nullptr);
  Py_ssize_t n_bits = bits ? PyLong_AsSsize_t(bits) : -1;
  Py_XDECREF(bits);
  if (n_bits < 0) return false;
  PyObject* to = PyObject_GetAttrString(value, "to_bytes");
  PyObject* args = Py_BuildValue("(ns)", n_bits / 8 + 1, "little");
  PyObject* kwargs = Py_BuildValue("{sO}", "signed", Py_True);
  PyObject* bytes = to && args && kwargs ? PyObject_Call(to, args, kwargs) : nullptr;
  Py_XDECREF(to);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return write_owned(out, kBigInt, bytes);
}

bool write_text(Buffer& out, PyObject* text) {
  if (PyUnicode_IS_COMPACT_ASCII(text))
    return write_counted(out, kString, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text));
  // Not PyUnicode_AsUTF8: that one keeps the UTF-8 in the string as long as the string lives.
  return write_owned(out, kString, PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
}

bool write_pickle(Buffer& out, PyObject* value) {
  PyObject* pickle = PyImport_ImportModule("pickle");
  PyObject* bytes = pickle ? PyObject_CallMethod(pickle, "dumps", "Oi", value, 5) : nullptr;
  Py_XDECREF(pickle);
  return write_owned(out, kPickle, bytes);
}

// The elements of a snapshot: pickling one of them may run code that changes the container.
bool write_all(Buffer& out, Tag tag, PyObject* snapshot) {
  if (!snapshot) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(snapshot);
  bool good = out.add(tag) && out.add_number(uint64_t(n));
  for (Py_ssize_t i = 0; good && i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(snapshot, i);
    good = tag == kDictTag ? write_value(out, PyTuple_GET_ITEM(item, 0)) &&
                                 write_value(out, PyTuple_GET_ITEM(item, 1))
                           : write_value(out, item);
  }
  Py_DECREF(snapshot);
  return good;
}

bool is_packable(PyArray_Descr* descr) {
  return PyDataType_ISLEGACY(descr) && !PyDataType_REFCHK(descr);
}

bool write_array(Buffer& out, Tag tag, PyArrayObject* array) {
  PyArray_Descr* descr = PyArray_DESCR(array);
  bool fortran = PyArray_IS_F_CONTIGUOUS(array) && !PyArray_IS_C_CONTIGUOUS(array);
  int type = wire_of(descr->type_num), ndim = PyArray_NDIM(array);
  bool plain = is_plain_number(type) && PyArray_ISNBO(descr->byteorder);
  if (!out.add(tag) || !out.add(plain ? uint8_t(type) : kOtherType)) return false;
  if (!plain && !write_pickle(out, reinterpret_cast<PyObject*>(descr))) return false;
  if (!out.add(uint8_t(fortran)) || !out.add(uint8_t(ndim))) return false;
  for (int i = 0; i < ndim; ++i)
    if (!out.add_number(uint64_t(PyArray_DIM(array, i)))) return false;
  npy_intp nbytes = PyArray_NBYTES(array);
  PyArrayObject* dense = reinterpret_cast<PyArrayObject*>(
      fortran || PyArray_IS_C_CONTIGUOUS(array) ? Py_NewRef(reinterpret_cast<PyObject*>(array))
                                                : PyArray_NewCopy(array, NPY_CORDER));
  size_t gap = data_offset(out.size, uint64_t(nbytes)) - out.size;
  bool good = dense && out.reserve(gap + size_t(nbytes));
  if (good) {
    memset(out.base + out.size, 0, gap);
    copy_run(out.base + out.size + gap, PyArray_DATA(dense), size_t(nbytes));
    out.size += gap + size_t(nbytes);
  }
  Py_XDECREF(dense);
  return good;
}

// An array of another library, of which foreign_arrays.packed_parts knows library and memory; by pickle if that says None.
bool write_foreign(Buffer& out, PyObject* value) {
  PyObject* module = PyImport_ImportModule("shmtensor.tensor.foreign_arrays");
  PyObject* parts = module ? PyObject_CallMethod(module, "packed_parts", "(O)", value) : nullptr;
  Py_XDECREF(module);
  if (!parts) return false;
  uint8_t library;
  PyArrayObject* array;
  bool good;
  if (parts == Py_None)
    good = write_pickle(out, value);
  else
    good = PyArg_ParseTuple(parts, "bO!:packed_parts", &library, &PyArray_Type, &array) && out.add(kForeign) &&
           out.add(library) && write_array(out, kArray, array);
  Py_DECREF(parts);
  return good;
}

bool write_other(Buffer& out, PyObject* value) {
  if (PyArray_CheckExact(value)) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(value);
    if (is_packable(PyArray_DESCR(array))) return write_array(out, kArray, array);
  } else if (Py_TYPE(value) == tensor_type) {
    TensorBase* tensor = reinterpret_cast<TensorBase*>(value);
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(tensor->array);
    if (tensor->node == Py_None && tensor->accumulate_grad == Py_None && is_packable(PyArray_DESCR(array)))
      return write_array(out, kTensor, array);
  } else if (PyArray_IsScalar(value, Generic)) {
    PyObject* array = PyArray_FromScalar(value, nullptr);
    if (!array) return false;
    bool fits = is_packable(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(array)));
    bool good = fits && write_array(out, kScalar, reinterpret_cast<PyArrayObject*>(array));
    Py_DECREF(array);
    if (fits) return good;
  } else {
    return write_foreign(out, value);
  }
  return write_pickle(out, value);
}

bool write_any(Buffer& out, PyObject* value) {
  if (PyTuple_CheckExact(value)) return write_all(out, kTuple, Py_NewRef(value));
  if (PyList_CheckExact(value)) return write_all(out, kListTag, PyList_AsTuple(value));
  if (PyDict_CheckExact(value)) return write_all(out, kDictTag, PyDict_Items(value));
  return write_other(out, value);
}

}  // namespace

bool Buffer::reserve(size_t more) {
  if (more <= capacity - size) return true;
  size_t new_capacity = capacity + capacity / 2;
  if (new_capacity < size + more) new_capacity = size + more;
  if (new_capacity < 4096) new_capacity = 4096;
  void* memory = PyMem_RawRealloc(base, new_capacity);
  if (!memory) return PyErr_NoMemory(), false;
  base = static_cast<uint8_t*>(memory);
  capacity = new_capacity;
  return true;
}

bool Buffer::add_number(uint64_t n) {
  uint8_t bytes[10];
  size_t length = 0;
  do {
    bytes[length++] = uint8_t(n & 0x7F) | (n > 0x7F ? 0x80 : 0);
    n >>= 7;
  } while (n);
  return add(bytes, length);
}

bool write_value(Buffer& out, PyObject* value) {
  if (PyUnicode_CheckExact(value)) return write_text(out, value);
  if (PyLong_CheckExact(value)) return write_long(out, value);
  if (PyFloat_CheckExact(value)) return write_int(out, kFloat, PyFloat_AS_DOUBLE(value));
  if (value == Py_None) return out.add(kNone);
  if (value == Py_True) return out.add(kTrue);
  if (value == Py_False) return out.add(kFalse);
  if (PyBytes_CheckExact(value))
    return write_counted(out, kBytes, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  if (PyComplex_CheckExact(value)) {
    double parts[2] = {PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value)};
    return out.add(kComplex) && out.add(parts, sizeof parts);
  }
  if (Py_EnterRecursiveCall(" while packing")) return false;
  bool good = write_any(out, value);
  Py_LeaveRecursiveCall();
  return good;
}

}  // namespace shmtensor::packed
