// Note [Corrupt bytes]: every length is compared with the rest of the part before it is used, a container of n elements
// needs n bytes, sizes are multiplied with an overflow check, Python's recursion limit bounds nesting, and NumPy builds
// each dtype from words that it checks. Each field is copied once (load), so that it cannot change between check and use;
// the bytes of a string are copied before they are decoded.
#include "shared_containers/store.h"

#include "dispatch/autograd_node.h"
#include "ipc/codec/array_layout.h"

namespace shmtensor::packed {

namespace {

// Null; sets ValueError.
PyObject* corrupt(const Reader& r, const char* what) {
  return PyErr_Format(PyExc_ValueError, "packed data: corrupt: %s: byte %zd of %zd", what, Py_ssize_t(r.p - r.part->base),
                      Py_ssize_t(r.part->nbytes));
}

// How many; false with an exception set.
bool read_number(Reader& r, uint64_t* n) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && r.p < r.end; shift += 7) {
    const uint64_t byte = load<uint8_t>(r.p++);
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

const uint8_t* take_counted(Reader& r, uint64_t* n) { return read_number(r, n) ? take(r, *n) : nullptr; }

template <class T>
PyObject* read_int(Reader& r) {
  const uint8_t* p = take(r, sizeof(T));
  return p ? PyLong_FromLongLong(load<T>(p)) : nullptr;
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
  uint8_t first, *copy = &first;
  PyObject* ascii = nullptr;
  if (n > 1) {  // Python has cached objects for shorter strings
    if (!(ascii = PyUnicode_New(Py_ssize_t(n), 127))) return nullptr;
    copy = PyUnicode_1BYTE_DATA(ascii);
  }
  copy_once(copy, p, n);
  if (ascii && is_ascii(copy, n)) return ascii;
  PyObject* text = PyUnicode_DecodeUTF8(reinterpret_cast<char*>(copy), Py_ssize_t(n), "surrogatepass");
  Py_XDECREF(ascii);
  if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return text;
  PyErr_Clear();
  return corrupt(r, "a string is not UTF-8");
}

bool read_count(Reader& r, uint64_t bytes_each, uint64_t* n) {
  if (!read_number(r, n)) return false;
  if (*n <= uint64_t(r.end - r.p) / bytes_each) return true;
  corrupt(r, "a container reaches beyond its part");
  return false;
}

PyObject* read_sequence(Reader& r, bool is_tuple) {
  uint64_t n;
  if (!read_count(r, 1, &n)) return nullptr;
  Ref result(is_tuple ? PyTuple_New(Py_ssize_t(n)) : PyList_New(Py_ssize_t(n)));
  for (Py_ssize_t i = 0; result && i < Py_ssize_t(n); ++i) {
    PyObject* value = read_value(r);
    if (!value) return nullptr;
    if (is_tuple) PyTuple_SET_ITEM(result.get(), i, value);
    else PyList_SET_ITEM(result.get(), i, value);
  }
  return result.release();
}

PyObject* read_dict(Reader& r) {
  uint64_t n;
  if (!read_count(r, 2, &n)) return nullptr;
  Ref result(PyDict_New());
  for (uint64_t i = 0; result && i < n; ++i) {
    Ref key(read_value(r));
    Ref value(key ? read_value(r) : nullptr);
    if (!value || PyDict_SetItem(result.get(), key.get(), value.get()) < 0) return nullptr;
  }
  return result.release();
}

PyArray_Descr* read_dtype(Reader& r) {
  const uint8_t* p = take(r, 1);
  if (!p) return nullptr;
  const int type = load<uint8_t>(p);
  if (type != kOtherType) {
    if (is_plain_number(type)) return PyArray_DescrFromType(type_of(type));
  } else {
    Ref words(read_value(r));
    if (!words) return nullptr;
    Ref dtype(call("shmtensor.shared_containers.packing", "parse_dtype", "(O)", words.get()));
    if (dtype && PyArray_DescrCheck(dtype.get()) && is_packable(reinterpret_cast<PyArray_Descr*>(dtype.get())))
      return reinterpret_cast<PyArray_Descr*>(dtype.release());
    PyErr_Clear();
  }
  corrupt(r, "an array has no dtype that can lie in shared memory");
  return nullptr;
}

PyObject* read_array(Reader& r, Tag tag) {
  Ref dtype(reinterpret_cast<PyObject*>(read_dtype(r)));
  const uint8_t* p = dtype ? take(r, 2) : nullptr;
  if (!p) return nullptr;
  const uint8_t order = load<uint8_t>(p), ndim = load<uint8_t>(p + 1);  // order 1: column-major
  if (ndim > NPY_MAXDIMS || order > 1) return corrupt(r, "an array has no such layout");
  auto* descr = reinterpret_cast<PyArray_Descr*>(dtype.get());
  npy_intp shape[NPY_MAXDIMS], nbytes = PyDataType_ELSIZE(descr);
  bool is_empty = false;
  for (int i = 0; i < ndim; ++i) {
    uint64_t size;
    if (!read_number(r, &size)) return nullptr;
    shape[i] = npy_intp(size);
    is_empty |= size == 0;
    if (shape[i] < 0 || (size && __builtin_mul_overflow(nbytes, shape[i], &nbytes)))
      return corrupt(r, "an array is too large");
  }
  if (is_empty) nbytes = 0;
  const size_t at = data_offset(size_t(r.p - r.part->base), uint64_t(nbytes));
  if (at > r.part->nbytes || size_t(nbytes) > r.part->nbytes - at) return corrupt(r, "an array reaches beyond its part");
  r.p = r.part->base + at + nbytes;
  char* data = reinterpret_cast<char*>(const_cast<uint8_t*>(r.part->base + at));
  const int flags = (r.readonly ? 0 : NPY_ARRAY_WRITEABLE) | (order ? NPY_ARRAY_F_CONTIGUOUS : 0);
  dtype.release();
  Ref array(PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, nullptr, data, flags, nullptr));
  if (!array) return nullptr;
  if (tag == kScalar) return PyArray_ToScalar(data, array.array());
  Py_XINCREF(r.part->owner);
  if (PyArray_SetBaseObject(array.array(), r.part->owner) < 0) return nullptr;
  return tag == kTensor ? make_tensor(array.get()) : array.release();
}

PyObject* read_foreign(Reader& r) {
  Ref parts(read_value(r));
  return parts ? call("shmtensor.tensor.foreign_arrays", "from_packed", "(O)", parts.get()) : nullptr;
}

// Unpickling trusts the process that packed the data: docs/shared-data.md.
PyObject* read_pickle(Reader& r) {
  uint64_t n;
  const uint8_t* p = take_counted(r, &n);
  return p ? call("pickle", "loads", "y#", reinterpret_cast<const char*>(p), Py_ssize_t(n)) : nullptr;
}

}  // namespace

PyObject* read_value(Reader& r) {
  if (r.p >= r.end) return corrupt(r, "an element is missing");
  const Tag tag = Tag(load<uint8_t>(r.p++));
  switch (tag) {
    case kString: return read_text(r);
    case kInt1: return read_int<int8_t>(r);
    case kInt2: return read_int<int16_t>(r);
    case kInt4: return read_int<int32_t>(r);
    case kInt8: return read_int<int64_t>(r);
    case kNone: Py_RETURN_NONE;
    case kFalse: Py_RETURN_FALSE;
    case kTrue: Py_RETURN_TRUE;
    case kFloat: {
      const uint8_t* p = take(r, 8);
      return p ? PyFloat_FromDouble(load<double>(p)) : nullptr;
    }
    case kComplex: {
      const uint8_t* p = take(r, 16);
      return p ? PyComplex_FromDoubles(load<double>(p), load<double>(p + 8)) : nullptr;
    }
    case kBigInt: {
      Ref hexadecimal(read_text(r));
      return hexadecimal ? PyLong_FromUnicodeObject(hexadecimal.get(), 16) : nullptr;
    }
    case kBytes: {
      uint64_t n;
      const uint8_t* p = take_counted(r, &n);
      return p ? PyBytes_FromStringAndSize(reinterpret_cast<const char*>(p), Py_ssize_t(n)) : nullptr;
    }
    default: break;
  }
  if (tag < kListTag || tag > kForeign) return corrupt(r, "no such kind of element");
  if (Py_EnterRecursiveCall(" while reading packed data")) return nullptr;
  PyObject* value = tag == kListTag || tag == kTuple ? read_sequence(r, tag == kTuple)
                    : tag == kDictTag                ? read_dict(r)
                    : tag == kPickle                 ? read_pickle(r)
                    : tag == kForeign                ? read_foreign(r)
                                                     : read_array(r, tag);
  Py_LeaveRecursiveCall();
  return value;
}

}  // namespace shmtensor::packed
