// Store: the blocks of a packed list or dictionary, with their parts.
#pragma once

#include <vector>

#include "shared_containers/hash_table.h"

namespace shmtensor::packed {

struct Store {
  PyObject_HEAD PyObject* blocks;  // tuple
  PyObject* owners;                // tuple: what arrays keep, the blocks or read-only views of them
  std::vector<Bytes> index, data;
  Bytes table;
  Kind kind;
  bool readonly;
  uint64_t count, seed, places;
  size_t nbytes;  // of all blocks

  // A reader at element i < count; false with an exception set.
  bool at(uint64_t i, Reader* out) const {
    const Bytes& part = index[i / kIndexEntries];
    uint64_t where = load<uint64_t>(part.base + i % kIndexEntries * 8);
    uint64_t number = where >> kPartShift, offset = where & ((1ull << kPartShift) - 1);
    if (number >= data.size() || offset >= data[number].nbytes) return raise_corrupt_index(i);
    const Bytes& bytes = data[number];
    *out = {bytes.base + offset, bytes.base + bytes.nbytes, &bytes, readonly};
    return true;
  }
  bool raise_corrupt_index(uint64_t i) const;
};

// The common start of PackedList and PackedDict objects, and their common functions.
struct Packed {
  PyObject_HEAD Store* store;
};
inline Store* store_of(PyObject* o) { return reinterpret_cast<Packed*>(o)->store; }
void drop_packed(PyObject* o);               // tp_dealloc
PyObject* get_blocks(PyObject* o, void*);    // _blocks
PyObject* get_nbytes(PyObject* o, void*);    // nbytes
PyObject* get_readonly(PyObject* o, void*);  // readonly

// A new reference. Raises ValueError if the blocks are not packed data of that kind.
Store* open_store(PyObject* blocks, Kind kind);
int64_t find_key(const Store* store, PyObject* key, Reader* after);
bool add_store(PyObject* module);

enum Mode : int { kElements, kKeys, kValues, kPairs };
// An iterator over n elements from `start` in steps of `step`.
PyObject* iterate(Store* store, Mode mode, int64_t start, int64_t step, int64_t n);
PyObject* read_as(const Store* store, Mode mode, uint64_t i);
bool add_iterator(PyObject* module);
bool add_list(PyObject* module);
bool add_dict(PyObject* module);

}  // namespace shmtensor::packed
