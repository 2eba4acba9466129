// The hash table of a dictionary: stable hashes of keys, and lookup.
#pragma once

#include "shared_containers/decode.h"

namespace shmtensor::packed {

// Note [Stable hash]: Python's hash of a str differs between processes that were not forked from
// one another, so strings and bytes are hashed here, with the dictionary's own seed. Python's hash
// of a number is the same everywhere and equal for equal numbers (1, 1.0, True), so it is used.
enum class HashResult { Good, Unsupported, Failed };  // Unsupported: hashable, but no such key can be packed

HashResult hash_key(PyObject* key, uint64_t seed, uint32_t* hash);

// A key to look up, in a form in which most keys can be compared without creating an object.
class Query {
 public:
  explicit Query(PyObject* key);
  ~Query() { drop_if_set(encoded_); }
  Query(const Query&) = delete;
  bool good() const { return form_ != Form::Failed; }
  // 1: the element at r is this key, 0: it is not, -1: exception set. r is moved behind it only if it is.
  int matches(Reader& r) const;

 private:
  enum class Form { Text, Integer, Other, Failed };
  PyObject* key_;
  Form form_ = Form::Other;
  PyObject* encoded_ = nullptr;
  const char* text_ = nullptr;
  Py_ssize_t length_ = 0;
  long long integer_ = 0;
};

constexpr int64_t kMissing = -1, kFailed = -2;

// The number of the pair with that key, kMissing or kFailed. `at(i, &reader)`: a reader at pair i,
// or false with an exception set. *after: the reader behind the key.
template <class At>
int64_t find(const uint64_t* table, uint64_t places, uint32_t hash, const Query& query, At at,
             Reader* after) {
  for (uint64_t tries = 0, place = hash; tries < places; ++tries, ++place) {
    uint64_t entry = load<uint64_t>(table + (place & (places - 1)));
    if (!entry) return kMissing;
    if (uint32_t(entry >> 32) != hash) continue;
    int64_t number = int64_t(entry & 0xFFFFFFFF) - 1;
    if (!at(number, after)) return kFailed;
    int same = query.matches(*after);
    if (same) return same < 0 ? kFailed : number;
  }
  return kMissing;
}

}  // namespace shmtensor::packed
