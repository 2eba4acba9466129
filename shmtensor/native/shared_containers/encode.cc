// Writing one element. Exact types only: subclasses are pickled, so that they keep their attributes.
#include "shared_containers/store.h"

#include "dispatch/autograd_node.h"
#include "ipc/codec/array_layout.h"
#include "kernels/shape/memcpy.h"

namespace shmtensor::packed {

namespace {

bool add_number(Buffer& out, uint64_t n) {
  uint8_t bytes[10];
  return out.add(bytes, encode_number(n, bytes));
}

bool write_counted(Buffer& out, Tag tag, const void* bytes, Py_ssize_t n) {
  return out.add(tag) && add_number(out, uint64_t(n)) && out.add(bytes, size_t(n));
}

// Steals the reference to `bytes`, which may be null with an exception set.
bool write_owned(Buffer& out, Tag tag, PyObject* bytes) {
  Ref owned(bytes);
  return owned && PyBytes_Check(bytes) && write_counted(out, tag, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
}

bool write_long(Buffer& out, PyObject* value) {
  int overflow;
  const long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (!overflow) {
    uint8_t bytes[9];
    return out.add(bytes, encode_int(n, bytes));
  }
  Ref text(PyNumber_ToBase(value, 16));
  return text && write_counted(out, kBigInt, PyUnicode_1BYTE_DATA(text.get()), PyUnicode_GET_LENGTH(text.get()));
}

bool write_text(Buffer& out, PyObject* text) {
  if (PyUnicode_IS_COMPACT_ASCII(text))
    return write_counted(out, kString, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text));
  // Not PyUnicode_AsUTF8: that one keeps the UTF-8 in the string as long as the string lives.
  return write_owned(out, kString, PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
}

bool write_pickle(Buffer& out, PyObject* value) {
  return write_owned(out, kPickle, call("pickle", "dumps", "Oi", value, 5));
}

// The elements of a snapshot: pickling one of them may run code that changes the container.
bool write_all(Buffer& out, Tag tag, PyObject* snapshot) {
  Ref owned(snapshot);
  if (!owned) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(snapshot);
  bool good = out.add(tag) && add_number(out, uint64_t(n));
  for (Py_ssize_t i = 0; good && i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(snapshot, i);
    good = tag == kDictTag
               ? write_value(out, PyTuple_GET_ITEM(item, 0)) && write_value(out, PyTuple_GET_ITEM(item, 1))
               : write_value(out, item);
  }
  return good;
}

// The array of `value`, which is pickled if the dtype has objects, or no words.
bool write_array(Buffer& out, Tag tag, PyArrayObject* array, PyObject* value) {
  PyArray_Descr* descr = PyArray_DESCR(array);
  const bool is_known = is_plain(descr);
  Ref words;
  if (!is_known) {
    if (!is_packable(descr)) return write_pickle(out, value);
    words = Ref(call("shmtensor.shared_containers.packing", "describe_dtype", "(O)", descr));
    if (!words) return false;
    if (words.get() == Py_None) return write_pickle(out, value);
  }
  if (!out.add(tag) || !out.add(is_known ? uint8_t(wire_of(descr->type_num)) : kOtherType)) return false;
  if (!is_known && !write_value(out, words.get())) return false;
  const bool fortran = PyArray_IS_F_CONTIGUOUS(array) && !PyArray_IS_C_CONTIGUOUS(array);
  if (!out.add(uint8_t(fortran)) || !out.add(uint8_t(PyArray_NDIM(array)))) return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (!add_number(out, uint64_t(PyArray_DIM(array, i)))) return false;
  Ref dense(fortran || PyArray_IS_C_CONTIGUOUS(array) ? Py_NewRef(reinterpret_cast<PyObject*>(array))
                                                      : PyArray_NewCopy(array, NPY_CORDER));
  const size_t nbytes = size_t(PyArray_NBYTES(array)), gap = data_offset(out.size, nbytes) - out.size;
  if (!dense || !out.reserve(gap + nbytes)) return false;
  memset(out.base + out.size, 0, gap);
  copy_run(out.base + out.size + gap, data<void>(dense), nbytes);
  out.size += gap + nbytes;
  return true;
}

// An array of another library, if foreign_arrays.packed_parts knows library and memory.
bool write_foreign(Buffer& out, PyObject* value) {
  Ref parts(call("shmtensor.tensor.foreign_arrays", "packed_parts", "(O)", value));
  if (!parts) return false;
  if (parts.get() == Py_None) return write_pickle(out, value);
  return out.add(kForeign) && write_value(out, parts.get());
}

bool write_any(Buffer& out, PyObject* value) {
  if (PyTuple_CheckExact(value)) return write_all(out, kTuple, Py_NewRef(value));
  if (PyList_CheckExact(value)) return write_all(out, kListTag, PyList_AsTuple(value));
  if (PyDict_CheckExact(value)) return write_all(out, kDictTag, PyDict_Items(value));
  if (PyArray_CheckExact(value)) return write_array(out, kArray, as_array(value), value);
  if (Py_TYPE(value) == tensor_type) {
    TensorBase* tensor = reinterpret_cast<TensorBase*>(value);
    const bool is_alone = tensor->node == Py_None && tensor->accumulate_grad == Py_None;
    return is_alone ? write_array(out, kTensor, as_array(tensor->array), value) : write_pickle(out, value);
  }
  if (PyArray_IsScalar(value, Generic)) {
    Ref array(PyArray_FromScalar(value, nullptr));
    return array && write_array(out, kScalar, array.array(), value);
  }
  return write_foreign(out, value);
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

size_t encode_int(long long value, uint8_t* out) {
  const int log = value == int8_t(value) ? 0 : value == int16_t(value) ? 1 : value == int32_t(value) ? 2 : 3;
  out[0] = uint8_t(kInt1 + log);
  memcpy(out + 1, &value, sizeof value);
  return 1 + (size_t{1} << log);
}

size_t encode_number(uint64_t n, uint8_t* out) {
  size_t length = 0;
  for (; n > 0x7F; n >>= 7) out[length++] = uint8_t(n | 0x80);
  out[length++] = uint8_t(n);
  return length;
}

bool write_value(Buffer& out, PyObject* value) {
  if (PyUnicode_CheckExact(value)) return write_text(out, value);
  if (PyLong_CheckExact(value)) return write_long(out, value);
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    return out.add(kFloat) && out.add(&number, sizeof number);
  }
  if (value == Py_None) return out.add(kNone);
  if (value == Py_True) return out.add(kTrue);
  if (value == Py_False) return out.add(kFalse);
  if (PyBytes_CheckExact(value)) return write_counted(out, kBytes, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  if (PyComplex_CheckExact(value)) {
    const double parts[2] = {PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value)};
    return out.add(kComplex) && out.add(parts, sizeof parts);
  }
  if (Py_EnterRecursiveCall(" while packing")) return false;
  const bool good = write_any(out, value);
  Py_LeaveRecursiveCall();
  return good;
}

}  // namespace shmtensor::packed
