// Counts what keys of known hashes cost a dict or set: `serialization/limits.py` bounds it before they are put in.
#include "methods.h"

namespace shmtensor {

namespace {

constexpr int64_t kFree = -1;  // no hash of Python's
constexpr int64_t kVisit = 8;   // what a visit of a full slot counts: it may not be in the cache
constexpr int64_t kBeside = 1;  // and of one beside the last
constexpr uint64_t kLinearProbes = 9;  // of a set, beside each slot

// Puts a hash in the first free slot. Returns what the full ones before it count: as CPython's insertdict and
// set_add_entry, which compare keys of equal hash. Ends early beyond the limit.
int64_t place(int64_t* table, uint64_t mask, int64_t hash, int64_t weight, bool is_set, int64_t limit) {
  int64_t work = 0;
  uint64_t perturb = static_cast<uint64_t>(hash), slot = perturb & mask;
  while (work <= limit) {
    const uint64_t beside = is_set && slot + kLinearProbes <= mask ? kLinearProbes : 0;
    for (uint64_t i = slot; i <= slot + beside; ++i) {
      if (table[i] == kFree) {
        table[i] = hash;
        return work;
      }
      work += (i == slot ? kVisit : kBeside) + (table[i] == hash ? weight : 0);
    }
    perturb >>= 5;
    slot = (5 * slot + perturb + 1) & mask;
  }
  return work;
}

// A buffer of int64.
class Int64s {
 public:
  bool get(PyObject* object, int flags) {
    if (PyObject_GetBuffer(object, &buffer_, flags) < 0) return false;
    is_held_ = true;
    if (buffer_.itemsize == 8) return true;
    PyErr_Format(PyExc_TypeError, "hash_slots: elements of 8 bytes are needed: %zd", buffer_.itemsize);
    return false;
  }
  ~Int64s() {
    if (is_held_) PyBuffer_Release(&buffer_);
  }
  int64_t* data() const { return static_cast<int64_t*>(buffer_.buf); }
  Py_ssize_t size() const { return buffer_.len / 8; }

 private:
  Py_buffer buffer_;
  bool is_held_ = false;
};

}  // namespace

PyObject* hash_slots(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("hash_slots", n, 5)) return nullptr;
  Int64s table, hashes, weights;
  if (!table.get(arguments[0], PyBUF_WRITABLE | PyBUF_ND) || !hashes.get(arguments[1], PyBUF_ND) ||
      !weights.get(arguments[2], PyBUF_ND))
    return nullptr;
  const bool is_set = PyObject_IsTrue(arguments[3]) == 1;
  const int64_t limit = PyLong_AsLongLong(arguments[4]);
  if (PyErr_Occurred()) return nullptr;
  const Py_ssize_t size = table.size();
  if (size <= 0 || size & (size - 1) || weights.size() != hashes.size())
    return PyErr_Format(PyExc_ValueError, "hash_slots: %zd slots, %zd hashes, %zd weights", size, hashes.size(),
                        weights.size());
  int64_t work = 0;
  for (Py_ssize_t i = 0; i < hashes.size() && work <= limit; ++i)
    work += place(table.data(), static_cast<uint64_t>(size - 1), hashes.data()[i], weights.data()[i], is_set, limit - work);
  return PyLong_FromLongLong(work);
}

}  // namespace shmtensor
