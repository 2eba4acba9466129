// Note [Corrupt bytes]: every length is compared with the rest of the part before it is used, a container of n elements
// needs n bytes, sizes are multiplied with an overflow check, Python's recursion limit bounds nesting, and an unpickled
// dtype must not contain objects or reach outside its items. Each field is copied once (load), so that it cannot change
// between check and use; the bytes of a string are copied before they are decoded.
#include "shared_containers/decode.h"

#include "dispatch/autograd_node.h"
#include "ipc/codec/array_layout.h"
#include "shared_containers/dtype.h"

namespace shmtensor::packed {

PyObject* corrupt(const Reader& r, const char* what) {
  return PyErr_Format(PyExc_ValueError, "packed data: corrupt: %s: byte %zd of %zd", what,
                      Py_ssize_t(r.p - r.part->base), Py_ssize_t(r.part->nbytes));
}

bool read_more(Reader& r, uint64_t* n) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && r.p < r.end; shift += 7) {
    uint64_t byte = load<uint8_t>(r.p++);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) {
      *n = value;
      return true;
    }
  }
  corrupt(r, "a number has no end");
  return false;
}

namespace {

// n bytes of the part; null with an exception set.
const uint8_t* take(Reader& r, uint64_t n) {
  if (n > uint64_t(r.end - r.p)) {
    corrupt(r, "an element reaches beyond its part");
    return nullptr;
  }
  const uint8_t* p = r.p;
  r.p += n;
  return p;
}

const uint8_t* take_counted(Reader& r, uint64_t* n) {
  return read_number(r, n) ? take(r, *n) : nullptr;
}

template <class T>
PyObject* read_int(Reader& r) {
  const uint8_t* p = take(r, sizeof(T));
  return p ? PyLong_FromLongLong(load<T>(p)) : nullptr;
}

PyObject* read_big(Reader& r) {
  uint64_t n;
  const uint8_t* p = take_counted(r, &n);
  if (!p) return nullptr;
  PyObject* from = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyLong_Type), "from_bytes");
  PyObject* args =
      Py_BuildValue("(y#s)", reinterpret_cast<const char*>(p), Py_ssize_t(n), "little");
  PyObject* kwargs = Py_BuildValue("{sO}", "signed", Py_True);
  PyObject* value = from && args && kwargs ? PyObject_Call(from, args, kwargs) : nullptr;
  Py_XDECREF(from);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return value;
}

// Bytes that no other process can change.
bool is_ascii(const uint8_t* p, uint64_t n) {
  constexpr uint64_t kHigh = 0x8080808080808080;
  if (n < 8) {
    uint8_t all = 0;
    for (uint64_t i = 0; i < n; ++i) all |= p[i];
    return all < 0x80;
  }
  uint64_t all, word;
  memcpy(&all, p + n - 8, 8);
  for (uint64_t i = 0; i + 8 <= n; i += 8) {
    memcpy(&word, p + i, 8);
    all |= word;
  }
  return !(all & kHigh);
}

PyObject* read_text(Reader& r) {
  uint64_t n;
  const uint8_t* p = take_counted(r, &n);
  if (!p) return nullptr;
  uint8_t first = n == 1 ? load<uint8_t>(p) : 0;
  PyObject* ascii = nullptr;
  if (n > 1) {  // Python has cached objects for shorter strings
    ascii = PyUnicode_New(Py_ssize_t(n), 127);
    if (!ascii) return nullptr;
    uint8_t* copy = PyUnicode_1BYTE_DATA(ascii);
    copy_once(copy, p, n);
    if (is_ascii(copy, n)) return ascii;
    p = copy;
  } else {
    p = &first;
  }
  PyObject* text =
      PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(p), Py_ssize_t(n), "surrogatepass");
  Py_XDECREF(ascii);
  if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
    PyErr_Clear();
    corrupt(r, "a string is not UTF-8");
  }
  return text;
}

PyObject* read_sequence(Reader& r, bool is_tuple) {
  uint64_t n;
  if (!read_number(r, &n)) return nullptr;
  if (n > uint64_t(r.end - r.p)) return corrupt(r, "a container reaches beyond its part");
  PyObject* result = is_tuple ? PyTuple_New(Py_ssize_t(n)) : PyList_New(Py_ssize_t(n));
  for (Py_ssize_t i = 0; result && i < Py_ssize_t(n); ++i) {
    PyObject* value = read_value(r);
    if (!value)
      Py_CLEAR(result);
    else if (is_tuple)
      PyTuple_SET_ITEM(result, i, value);
    else
      PyList_SET_ITEM(result, i, value);
  }
  return result;
}

PyObject* read_dict(Reader& r) {
  uint64_t n;
  if (!read_number(r, &n)) return nullptr;
  if (n > uint64_t(r.end - r.p) / 2) return corrupt(r, "a container reaches beyond its part");
  PyObject* result = PyDict_New();
  for (uint64_t i = 0; result && i < n; ++i) {
    PyObject* key = read_value(r);
    PyObject* value = key ? read_value(r) : nullptr;
    if (!value || PyDict_SetItem(result, key, value) < 0) Py_CLEAR(result);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return result;
}

// Unpickling trusts the process that packed the data: docs/shared-data.md.
PyObject* read_pickle(Reader& r) {
  uint64_t n;
  const uint8_t* p = take_counted(r, &n);
  if (!p) return nullptr;
  PyObject* pickle = PyImport_ImportModule("pickle");
  PyObject* value = pickle ? PyObject_CallMethod(pickle, "loads", "y#",
                                                 reinterpret_cast<const char*>(p), Py_ssize_t(n))
                           : nullptr;
  Py_XDECREF(pickle);
  return value;
}

PyArray_Descr* read_dtype(Reader& r) {
  const uint8_t* p = take(r, 1);
  if (!p) return nullptr;
  int type = load<uint8_t>(p);
  PyArray_Descr* descr = nullptr;
  if (type != kOtherType) {
    if (is_plain_number(type)) return PyArray_DescrFromType(type_of(type));
  } else {
    PyObject* object = read_value(r);
    if (!object) return nullptr;
    if (PyArray_DescrCheck(object))
      descr = reinterpret_cast<PyArray_Descr*>(object);
    else
      Py_DECREF(object);
  }
  if (descr && is_sound(descr)) return descr;
  Py_XDECREF(descr);
  corrupt(r, "an array has no dtype that can lie in shared memory");
  return nullptr;
}

PyObject* read_array(Reader& r, Tag tag) {
  PyArray_Descr* descr = read_dtype(r);
  if (!descr) return nullptr;
  npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  const uint8_t* p = take(r, 2);
  if (!p) {
    Py_DECREF(descr);
    return nullptr;
  }
  const uint8_t order = load<uint8_t>(p);  // 1: column-major
  const int ndim = load<uint8_t>(p + 1);
  const char* error = nullptr;
  npy_intp itemsize = PyDataType_ELSIZE(descr), total = itemsize;
  bool empty = false;
  if (ndim > NPY_MAXDIMS || order > 1) error = "an array has no such layout";
  for (int i = 0; !error && i < ndim; ++i) {
    uint64_t size;
    if (!read_number(r, &size)) {
      Py_DECREF(descr);
      return nullptr;
    }
    if (size > uint64_t(NPY_MAX_INTP)) {
      error = "an array is too large";
    } else {
      shape[i] = npy_intp(size);
      empty |= size == 0;
      if (size && __builtin_mul_overflow(total, shape[i], &total)) error = "an array is too large";
    }
  }
  if (empty) total = 0;
  size_t at = data_offset(size_t(r.p - r.part->base), uint64_t(total));
  if (!error && (at > r.part->nbytes || uint64_t(total) > r.part->nbytes - at))
    error = "an array reaches beyond its part";
  if (error) {
    Py_DECREF(descr);
    return corrupt(r, error);
  }
  r.p = r.part->base + at + total;
  npy_intp step = itemsize;
  for (int k = 0; k < ndim; ++k) {
    int i = order ? k : ndim - 1 - k;
    strides[i] = step;
    step *= shape[i] ? shape[i] : 1;
  }
  char* data = reinterpret_cast<char*>(const_cast<uint8_t*>(r.part->base + at));
  int flags = r.readonly ? 0 : NPY_ARRAY_WRITEABLE;
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, data, flags, nullptr);
  if (!array) return nullptr;
  if (!r.part->owner) {  // still being packed: the bytes may move
    Py_SETREF(array, PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(array), NPY_KEEPORDER));
  } else if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array),
                                   Py_NewRef(r.part->owner)) < 0) {
    Py_CLEAR(array);
  }
  if (!array || tag == kArray) return array;
  PyObject* result = tag == kTensor ? make_tensor(array)
                                  : PyArray_ToScalar(data, reinterpret_cast<PyArrayObject*>(array));
  Py_DECREF(array);
  return result;
}

PyObject* read_foreign(Reader& r) {
  const uint8_t* p = take(r, 2);
  if (!p) return nullptr;
  const uint8_t library = load<uint8_t>(p);
  if (load<uint8_t>(p + 1) != kArray) return corrupt(r, "an array of another library has no array");
  PyObject* array = read_array(r, kArray);
  if (!array) return nullptr;
  PyObject* module = PyImport_ImportModule("shmtensor.tensor.foreign_arrays");
  PyObject* value = module ? PyObject_CallMethod(module, "from_packed", "iO", int(library), array) : nullptr;
  Py_XDECREF(module);
  Py_DECREF(array);
  return value;
}

PyObject* read_nested(Reader& r, Tag tag) {
  if (Py_EnterRecursiveCall(" while reading packed data")) return nullptr;
  PyObject* value;
  switch (tag) {
    case kListTag:
    case kTuple:
      value = read_sequence(r, tag == kTuple);
      break;
    case kDictTag:
      value = read_dict(r);
      break;
    case kPickle:
      value = read_pickle(r);
      break;
    case kForeign:
      value = read_foreign(r);
      break;
    default:
      value = read_array(r, tag);
  }
  Py_LeaveRecursiveCall();
  return value;
}

}  // namespace

PyObject* read_value(Reader& r) {
  if (r.p >= r.end) return corrupt(r, "an element is missing");
  Tag tag = Tag(load<uint8_t>(r.p++));
  switch (tag) {
    case kString:
      return read_text(r);
    case kInt1:
      return read_int<int8_t>(r);
    case kInt2:
      return read_int<int16_t>(r);
    case kInt4:
      return read_int<int32_t>(r);
    case kInt8:
      return read_int<int64_t>(r);
    case kFloat: {
      const uint8_t* p = take(r, 8);
      return p ? PyFloat_FromDouble(load<double>(p)) : nullptr;
    }
    case kComplex: {
      const uint8_t* p = take(r, 16);
      return p ? PyComplex_FromDoubles(load<double>(p), load<double>(p + 8)) : nullptr;
    }
    case kNone:
      Py_RETURN_NONE;
    case kFalse:
      Py_RETURN_FALSE;
    case kTrue:
      Py_RETURN_TRUE;
    case kBytes: {
      uint64_t n;
      const uint8_t* p = take_counted(r, &n);
      return p ? PyBytes_FromStringAndSize(reinterpret_cast<const char*>(p), Py_ssize_t(n))
               : nullptr;
    }
    case kBigInt:
      return read_big(r);
    case kListTag:
    case kTuple:
    case kDictTag:
    case kArray:
    case kScalar:
    case kTensor:
    case kPickle:
    case kForeign:
      return read_nested(r, tag);
  }
  return corrupt(r, "no such kind of element");
}

}  // namespace shmtensor::packed
