// Messages without pickle: tensors and arrays over shared blocks, numbers, text, bytes, and containers of these.
//
//   message   0x01, value           (a pickle begins with 0x80, so whoever reads it knows which one it is)
//   value     'N' None   'T' True   'F' False
//             'i' i64    'f' f64    'c' f64 f64
//             's' u32 n, n bytes of UTF-8        'b' u32 n, n bytes
//             '(' u32 n, n values  tuple         '[' u32 n, n values  list         '{' u32 n, n times key, value
//             'a' view  numpy.ndarray            't' view  Tensor
//   view      u32 block (2^32 - 1: none, for it has no elements), u8 dtype number, u8 ndim, u8 flags (1 writeable,
//             2 strided), u8 0, i64 offset,
//             i64 sizes[ndim], i64 strides[ndim] when strided
//
// All little endian and unaligned. What does not fit (other classes, an object that occurs twice and would arrive as
// two, nesting beyond kDeepest, numbers beyond 64 bits) is left to the pickler as a whole, so that nothing depends on
// which of the two carried a message. Reading trusts nothing: any bytes give an object or a ValueError.
#pragma once

#include <vector>

#include "memory/ledger/ledger.h"
#include "python.h"
#include "ipc/small_vector.h"

namespace shmtensor {

constexpr char kCodecMark = 1;
constexpr int kDeepest = 64;
constexpr uint32_t kNoBlock = UINT32_MAX;  // of an array without elements

// What the codec knows of tensors, which lie above it: module.cc enters it.
struct TensorAccess {
  PyTypeObject** type;                         // points at the class Tensor, or at null until tensor/ has registered it
  PyObject* (*plain_array)(PyObject* tensor);  // borrowed; null: the tensor has a node, or a leaf's gradient and hooks
  PyObject* (*make)(PyObject* array);          // new reference
};
extern TensorAccess tensor_access;

struct ViewHead {  // of an array
  uint32_t block;
  uint8_t dtype, ndim, flags, zero;
  int64_t offset;
};
static_assert(sizeof(ViewHead) == 16, "as codec.h says");

// Numbers addresses in the order in which they first come: the first few by looking at each, then in a table with open
// addressing.
class Numbering {
 public:
  // The number of p, and whether it is a new one.
  uint32_t of(const void* p, bool* is_new);
  void clear();

 private:
  struct Place {
    const void* p;
    uint32_t number;
  };
  Place* find(std::vector<Place>& places, const void* p);
  std::vector<Place> places_;  // a power of two of them, or none
  Few<const void*> first_;
  uint32_t n_ = 0;
};

// A message to be: its bytes, and the blocks that they name by number.
class Draft {
 public:
  enum class Outcome { Good, Unfit, Failed };  // Unfit: for the pickler. Failed: a Python exception is set

  Draft() = default;
  ~Draft() { clear(); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Outcome write(PyObject* object);
  // (bytes-like, sequence of arrays or Blocks) from the pickler. False: a Python exception is set.
  bool adopt(PyObject* pair);
  void clear();

  const char* bytes() const { return bytes_; }
  size_t nbytes() const { return n_; }
  const Found* blocks() const { return blocks_.data(); }
  uint32_t n_blocks() const { return blocks_.size(); }
  const Few<PyObject*>& carriers() const { return carriers_; }

 private:
  Outcome value(PyObject* object, int depth);
  Outcome view(PyObject* array, char tag);
  bool is_new(PyObject* object);
  bool need(size_t more);
  bool put(const void* data, size_t n);
  bool put_tag(char tag, uint64_t n);

  char few_[448];
  char* bytes_ = few_;
  size_t n_ = 0, room_ = sizeof few_;
  Few<Found> blocks_;
  Few<PyObject*> carriers_;           // what keeps it until it is pinned
  Numbering bases_;                   // of blocks_
  Numbering seen_;                    // objects that may occur again
  Py_buffer view_{};                  // adopted bytes
};

// The object that a message says: new reference. blocks: received, in the order of the draft. nullptr: an exception.
PyObject* decode(const char* bytes, size_t n, PyObject* const* blocks, size_t n_blocks);

}  // namespace shmtensor
