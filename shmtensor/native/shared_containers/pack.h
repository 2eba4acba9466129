// Packer: packs objects into few blocks; it needs private memory for one part.
#pragma once

#include <vector>

#include "shared_containers/decode.h"
#include "shared_containers/hash_table.h"

namespace shmtensor::packed {

// A growing buffer of bytes. False: out of memory, exception set.
class Buffer {
 public:
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
  bool add_number(uint64_t n);
  uint8_t* base = nullptr;
  size_t size = 0, capacity = 0;
};

// Appends one element (encode.cc). False: exception set, and the buffer is as before.
bool write_value(Buffer& out, PyObject* value);

class Packer {
 public:
  Packer(const char* where, Kind kind, bool readonly, uint64_t seed, PyObject* allocate)
      : where_(where), kind_(kind), readonly_(readonly), seed_(seed), allocate_(allocate) {}
  ~Packer();
  Packer(const Packer&) = delete;

  bool add(PyObject* item);  // of a dictionary: a pair
  PyObject* finish();        // tuple of blocks

 private:
  bool append(uint64_t position);
  bool end_element();
  bool add_pair(PyObject* pair);
  bool add_to_table(uint32_t hash, uint64_t number);
  bool replace_value(uint64_t number, PyObject* value);
  uint64_t& position(uint64_t i);
  Reader at(uint64_t i);
  PyObject* block(size_t nbytes, uint8_t** base);
  bool store(const void* bytes, size_t n, Bytes* out);
  uint64_t next_position() const { return uint64_t(data_parts_.size()) << kPartShift | data_.size; }

  const char* where_;
  Kind kind_;
  bool readonly_;
  uint64_t seed_;
  PyObject* allocate_;
  uint64_t count_ = 0;
  std::vector<Bytes> index_parts_, data_parts_;  // the full ones; they own their blocks
  Buffer index_, data_;                          // the last ones
  Bytes last_;
  std::vector<uint64_t> table_;
};

}  // namespace shmtensor::packed
