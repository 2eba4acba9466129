// Keys, their hashes, and where elements are.
#include "shared_containers/store.h"

#include <algorithm>

namespace shmtensor::packed {

namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15, kOther = 0xD6E8FEB86659FD93;

uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t hash_bytes(const void* bytes, Py_ssize_t length, uint64_t seed) {
  const uint8_t* p = static_cast<const uint8_t*>(bytes);
  size_t n = size_t(length);
  uint64_t h = seed ^ (n * kOdd);
  for (; n >= 8; n -= 8, p += 8) h = mix(h ^ load<uint64_t>(p), kOther);
  if (n) {
    uint64_t tail = 0;
    memcpy(&tail, p, n);
    h = mix(h ^ tail, kOther);
  }
  return mix(h ^ kOdd, kOther);
}

}  // namespace

int Key::init(PyObject* object, uint64_t seed) {
  object_ = object;
  if (PyUnicode_Check(object)) {
    Py_ssize_t length;
    if (PyUnicode_IS_COMPACT_ASCII(object)) {
      text_ = PyUnicode_1BYTE_DATA(object), length = PyUnicode_GET_LENGTH(object);
    } else {
      encoded_ = Ref(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
      if (!encoded_) return -1;
      text_ = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(encoded_.get())), length = PyBytes_GET_SIZE(encoded_.get());
    }
    hash_ = hash_bytes(text_, length, seed);
    if (PyUnicode_CheckExact(object)) {
      head_[0] = kString;
      n_head_ = 1 + encode_number(uint64_t(length), head_ + 1);
      n_text_ = size_t(length);
    }
  } else if (PyBytes_Check(object)) {
    hash_ = hash_bytes(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object), seed + 1);
  } else if (PyTuple_Check(object)) {
    hash_ = seed + 2 + uint64_t(PyTuple_GET_SIZE(object));
    if (Py_EnterRecursiveCall(" while hashing a key")) return -1;
    int result = 1;
    for (Py_ssize_t i = 0; result == 1 && i < PyTuple_GET_SIZE(object); ++i) {
      Key part;
      result = part.init(PyTuple_GET_ITEM(object, i), seed);
      if (result == 1) hash_ = mix(hash_ ^ part.hash_, kOther) + kOdd;
    }
    Py_LeaveRecursiveCall();
    return result;
  } else if (object == Py_None) {
    hash_ = mix(seed ^ kOther, kOdd);
  } else {
    const Py_hash_t python_hash = PyObject_Hash(object);  // of a NaN: its address, but it is equal to no key
    if (python_hash == -1) return -1;
    hash_ = mix(uint64_t(python_hash) ^ seed, kOther);
    int overflow = 1;
    const long long n = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
    if (!overflow) n_head_ = encode_int(n, head_);
    return PyNumber_Check(object);
  }
  return 1;
}

int Key::matches(Reader& r) const {
  if (n_head_ && r.p < r.end) {
    const size_t n = n_head_ + n_text_;
    if (n <= size_t(r.end - r.p) && memcmp(r.p, head_, n_head_) == 0 && memcmp(r.p + n_head_, text_, n_text_) == 0) {
      r.p += n;
      return 1;
    }
    const uint8_t tag = load<uint8_t>(r.p);
    if (head_[0] == kString ? tag == kString : tag >= kInt1 && tag <= kBigInt) return 0;
  }
  Ref element(read_value(r));
  return element ? PyObject_RichCompareBool(element.get(), object_, Py_EQ) : -1;
}

int64_t Store::find(const Key& key, Reader* after) const {
  const uint32_t hash = key.hash();
  for (uint64_t tries = 0, place = hash; tries < places; ++tries, ++place) {
    const uint64_t entry = load<uint64_t>(table + (place & (places - 1)) * 8);
    if (!entry) return kMissing;
    if (uint32_t(entry >> 32) != hash) continue;
    const int64_t number = int64_t(entry & 0xFFFFFFFF) - 1;
    if (!at(uint64_t(number), after)) return kFailed;
    const int same = key.matches(*after);
    if (same) return same < 0 ? kFailed : number;
  }
  return kMissing;
}

const Part* Store::later_part_of(uint64_t i) const {
  auto is_before = [](uint64_t x, const Part& part) { return x < part.first; };
  return &*std::upper_bound(parts.begin(), parts.end(), i, is_before) - 1;
}

bool Store::raise_outside(uint64_t i) const {
  PyErr_Format(PyExc_ValueError, "packed data: corrupt: element %lld is outside the data", static_cast<long long>(i));
  return false;
}

}  // namespace shmtensor::packed
