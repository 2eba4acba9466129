// What reads and writes packed data: readers and buffers of elements, keys, and the Store of all parts.
#pragma once

#include <vector>

#include "kernels/arguments.h"
#include "shared_containers/format.h"

namespace shmtensor::packed {

struct Part {
  const uint8_t* base;  // of the data
  size_t nbytes;
  const uint8_t* positions;  // u64 each
  uint64_t first, count;     // the elements of these positions
  PyObject* owner;           // borrowed: what arrays keep; null while packing
};

struct Reader {
  const uint8_t* p;
  const uint8_t* end;
  const Part* part;
  bool readonly;
};

// A growing buffer of bytes. False: out of memory, exception set.
struct Buffer {
  ~Buffer() { PyMem_RawFree(base); }
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  bool reserve(size_t more);
  bool add(const void* bytes, size_t n) {
    if (n > capacity - size && !reserve(n)) return false;
    memcpy(base + size, bytes, n);
    size += n;
    return true;
  }
  bool add(uint8_t byte) { return add(&byte, 1); }
  uint8_t* base = nullptr;
  size_t size = 0, capacity = 0;
};

PyObject* read_value(Reader& r);                  // null: exception set. The reader is then after the element
bool write_value(Buffer& out, PyObject* value);   // appends an element. False: exception set
size_t encode_int(long long value, uint8_t* out);  // an int with its tag; how many bytes, at most 9
size_t encode_number(uint64_t n, uint8_t* out);    // LEB128; how many bytes, at most 10

// Calls a Python function; arguments as those of PyObject_CallMethod.
template <class... Args>
PyObject* call(const char* module, const char* function, const char* format, Args... args) {
  Ref imported(PyImport_ImportModule(module));
  return imported ? PyObject_CallMethod(imported.get(), function, format, args...) : nullptr;
}

// Whether items of the dtype can be in shared memory: they have no objects.
inline bool is_packable(PyArray_Descr* descr) { return PyDataType_ISLEGACY(descr) && !PyDataType_REFCHK(descr); }

// A key, its hash, and in most cases the bytes of its element, so that it is compared without creating an object.
//
// Note [Stable hash]: Python's hash of a str differs between processes that were not forked from one another, so strings
// and bytes are hashed here, with the dictionary's own seed. Python's hash of a number is the same everywhere and equal
// for equal numbers (1, 1.0, True), so it is used.
enum class Answer { Error, No, Yes };  // Error: an exception is set

class Key {
 public:
  // Whether the object can be a key; No: it is hashable, but cannot be packed. The object must outlive the key.
  Answer init(PyObject* object, uint64_t seed);
  // Whether the element at r is this key. r is moved behind it only if it is.
  Answer matches(Reader& r) const;
  uint32_t hash() const { return uint32_t(hash_ ^ hash_ >> 32); }

 private:
  PyObject* object_;
  uint64_t hash_;
  uint8_t head_[11];             // of the element: tag and length of a string, tag and value of an int
  size_t n_head_ = 0;            // 0: objects are compared
  const uint8_t* text_ = head_;  // the rest of the element
  size_t n_text_ = 0;
  Ref encoded_;
};

constexpr int64_t kMissing = -1, kFailed = -2;

struct Store {
  std::vector<Part> parts;
  bool readonly = false;
  uint64_t count = 0, seed = 0, places = 0;
  const uint8_t* table = nullptr;

  // The part of element i < count.
  const Part& part_of(uint64_t i) const {
    const Part* part = parts.data();
    return __builtin_expect(i < part->count, 1) ? *part : *later_part_of(i);
  }
  // A reader at element i; false with an exception set.
  bool at(uint64_t i, Reader* out) const {
    if (i >= count) return raise_outside(i);
    const Part& part = part_of(i);
    const uint64_t position = load<uint64_t>(part.positions + (i - part.first) * 8);
    const uint64_t number = position >> kPartShift, offset = position & ((1ull << kPartShift) - 1);
    if (number >= parts.size() || offset >= parts[number].nbytes) return raise_outside(i);
    const Part& data = parts[number];
    *out = {data.base + offset, data.base + data.nbytes, &data, readonly};
    return true;
  }
  // The number of the pair with that key, kMissing or kFailed. *after: the reader behind the key.
  int64_t find(const Key& key, Reader* after) const;

 private:
  const Part* later_part_of(uint64_t i) const;
  bool raise_outside(uint64_t i) const;
};

}  // namespace shmtensor::packed
