#include "shared_containers/hash_table.h"

namespace shmtensor::packed {

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15, kOther = 0xD6E8FEB86659FD93;

uint64_t hash_bytes(const void* bytes, size_t n, uint64_t seed) {
  const char* p = static_cast<const char*>(bytes);
  uint64_t h = seed ^ (uint64_t(n) * kOdd);
  for (; n >= 8; n -= 8, p += 8) h = mix(h ^ load<uint64_t>(p), kOther);
  if (n) {
    uint64_t tail = 0;
    memcpy(&tail, p, n);
    h = mix(h ^ tail, kOther);
  }
  return mix(h ^ kOdd, kOther);
}

PyObject* utf8(PyObject* text) { return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"); }

HashResult hash_wide(PyObject* key, uint64_t seed, uint64_t* hash) {
  if (PyUnicode_Check(key)) {
    if (PyUnicode_IS_COMPACT_ASCII(key)) {
      *hash = hash_bytes(PyUnicode_1BYTE_DATA(key), size_t(PyUnicode_GET_LENGTH(key)), seed);
      return HashResult::Good;
    }
    PyObject* bytes = utf8(key);
    if (!bytes) return HashResult::Failed;
    *hash = hash_bytes(PyBytes_AS_STRING(bytes), size_t(PyBytes_GET_SIZE(bytes)), seed);
    Py_DECREF(bytes);
    return HashResult::Good;
  }
  if (PyBytes_Check(key)) {
    *hash = hash_bytes(PyBytes_AS_STRING(key), size_t(PyBytes_GET_SIZE(key)), seed + 1);
    return HashResult::Good;
  }
  if (key == Py_None) {
    *hash = mix(seed ^ kOther, kOdd);
    return HashResult::Good;
  }
  if (PyTuple_Check(key)) {
    uint64_t h = seed + 2 + uint64_t(PyTuple_GET_SIZE(key)), part;
    if (Py_EnterRecursiveCall(" while hashing a key")) return HashResult::Failed;
    HashResult result = HashResult::Good;
    for (Py_ssize_t i = 0; result == HashResult::Good && i < PyTuple_GET_SIZE(key); ++i) {
      result = hash_wide(PyTuple_GET_ITEM(key, i), seed, &part);
      h = mix(h ^ part, kOther) + kOdd;
    }
    Py_LeaveRecursiveCall();
    *hash = h;
    return result;
  }
  if (PyFloat_Check(key) && PyFloat_AS_DOUBLE(key) != PyFloat_AS_DOUBLE(key)) {
    *hash = seed;  // Python's hash of a NaN is its address
    return HashResult::Good;
  }
  Py_hash_t python_hash = PyObject_Hash(key);
  if (python_hash == -1 && PyErr_Occurred()) return HashResult::Failed;
  if (!PyNumber_Check(key)) return HashResult::Unsupported;
  *hash = mix(uint64_t(python_hash) ^ seed, kOther);
  return HashResult::Good;
}

// The bytes of the integer at r, if it has one of the four tags; its value without an object. 0: no such element.
size_t read_integer(const Reader& r, long long* value) {
  size_t remaining = size_t(r.end - r.p);
  if (remaining < 2) return 0;
  const uint8_t tag = load<uint8_t>(r.p);
  const size_t n = tag == kInt1 ? 1 : tag == kInt2 ? 2 : tag == kInt4 ? 4 : tag == kInt8 ? 8 : 0;
  if (n == 0 || remaining < 1 + n) return 0;
  *value = n == 1   ? load<int8_t>(r.p + 1)
           : n == 2 ? load<int16_t>(r.p + 1)
           : n == 4 ? load<int32_t>(r.p + 1)
                    : load<int64_t>(r.p + 1);
  return 1 + n;
}

}  // namespace

HashResult hash_key(PyObject* key, uint64_t seed, uint32_t* hash) {
  uint64_t wide = 0;
  HashResult result = hash_wide(key, seed, &wide);
  *hash = uint32_t(wide ^ wide >> 32);
  return result;
}

Query::Query(PyObject* key) : key_(key) {
  if (PyUnicode_CheckExact(key)) {
    form_ = Form::Text;
    if (PyUnicode_IS_COMPACT_ASCII(key)) {
      text_ = reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(key));
      length_ = PyUnicode_GET_LENGTH(key);
    } else if (PyObject* bytes = utf8(key)) {
      encoded_ = bytes;
      text_ = PyBytes_AS_STRING(bytes);
      length_ = PyBytes_GET_SIZE(bytes);
    } else {
      form_ = Form::Failed;
    }
  } else if (PyLong_CheckExact(key)) {
    int overflow;
    integer_ = PyLong_AsLongLongAndOverflow(key, &overflow);
    if (!overflow) form_ = Form::Integer;
  }
}

int Query::matches(Reader& r) const {
  if (form_ == Form::Text && r.p < r.end && load<uint8_t>(r.p) == kString) {
    Reader text = r;
    ++text.p;
    uint64_t n;
    if (!read_number(text, &n)) return -1;
    if (n > uint64_t(text.end - text.p)) return corrupt(text, "a key reaches beyond its part"), -1;
    if (n != uint64_t(length_) || memcmp(text.p, text_, n) != 0) return 0;
    r = text;
    r.p += n;
    return 1;
  }
  long long integer;
  const size_t nbytes = form_ == Form::Integer ? read_integer(r, &integer) : 0;
  if (nbytes) {
    if (integer != integer_) return 0;
    r.p += nbytes;
    return 1;
  }
  PyObject* key = read_value(r);
  if (!key) return -1;
  int same = PyObject_RichCompareBool(key, key_, Py_EQ);
  Py_DECREF(key);
  return same;
}

}  // namespace shmtensor::packed
