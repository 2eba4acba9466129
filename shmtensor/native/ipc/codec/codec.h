// Messages without pickle: tensors and arrays over shared blocks, numbers, text, bytes, and containers of these.
//
//   message   0x01, value           (a pickle begins with 0x80, so the first byte tells which one it is)
//   value     'N' None   'T' True   'F' False
//             'i' i64    'f' f64    'c' f64 f64
//             's' u32 n, n bytes of UTF-8        'b' u32 n, n bytes
//             '(' u32 n, n values  tuple         '[' u32 n, n values  list         '{' u32 n, n times key, value
//             'a' view  numpy.ndarray            't' view  Tensor
//             'g' device view  Tensor on a GPU
//   view      u32 block (2^32 - 1: none, for it has no elements), u8 dtype number, u8 ndim, u8 flags (1 writeable,
//             2 strided), u8 0, i64 offset,
//             i64 sizes[ndim], i64 strides[ndim] when strided
//   device view  DeviceHead, u8 handle[n_handle], i64 sizes[ndim], i64 strides[ndim]
//
// All little endian and unaligned. A message with anything else (other classes, an object that occurs twice and would be
// received as two, nesting beyond kMaxDepth, numbers beyond 64 bits) is left to the pickler entirely, so that results do
// not depend on which of the two encoded it. The decoder trusts no byte: any bytes give an object or a ValueError.
#pragma once

#include <vector>

#include "memory/ledger/ledger.h"
#include "python.h"
#include "ipc/small_vector.h"

namespace shmtensor {

constexpr char kCodecMark = 1;
constexpr int kMaxDepth = 64;
constexpr uint32_t kNoBlock = UINT32_MAX;  // of an array without elements

// Access to tensors, which belong to a higher layer: module.cc sets it.
struct TensorAccess {
  PyTypeObject** type;                         // points at the class Tensor, or at null until tensor/ has registered it
  PyObject* (*plain_array)(PyObject* tensor);  // borrowed; null: the tensor has a node, or a leaf's gradient and hooks
  PyObject* (*make)(PyObject* array);          // new reference
};
extern TensorAccess tensor_access;

enum ViewFlag : uint8_t { kWriteable = 1, kStrided = 2 };
struct ViewHead {  // of an array
  uint32_t block;
  uint8_t dtype, ndim, flags, zero;
  int64_t offset;
};
static_assert(sizeof(ViewHead) == 16, "as codec.h says");

struct DeviceHead {  // of an array on a GPU: the Message of memory/cuda/lending.py
  uint32_t owner_row, owner_inc, sender_row, sender_inc;
  int32_t place;  // of the sender's timeline; -1: all work had ended
  uint32_t number;
  int64_t offset;
  uint8_t dtype, ndim, n_handle, zero[5];
};
static_assert(sizeof(DeviceHead) == 40, "as codec.h says");

// Numbers addresses in the order of their first occurrence: by linear search for the first few, then in a table with open
// addressing.
class Numbering {
 public:
  // The number of p, and whether it is a new one.
  uint32_t of(const void* p, bool* is_new);
  void clear();

 private:
  struct Entry {
    const void* p;
    uint32_t number;
  };
  Entry* find(std::vector<Entry>& table, const void* p);
  std::vector<Entry> table_;  // a power of two of them, or none
  SmallVector<const void*> first_;
  uint32_t n_ = 0;
};

// Encodes a message: its bytes, and the blocks to which they refer by number.
class MessageEncoder {
 public:
  enum class Outcome { Good, Unfit, Failed };  // Unfit: for the pickler. Failed: a Python exception is set

  MessageEncoder() = default;
  ~MessageEncoder() { clear(); }
  MessageEncoder(const MessageEncoder&) = delete;
  MessageEncoder& operator=(const MessageEncoder&) = delete;

  // gpu: takes the handles of GPU memory (multiprocessing/reduce_cuda.py: Handles); null: a tensor on a GPU is Unfit. If
  // the outcome is not Good, it has none of this message.
  Outcome write(PyObject* object, PyObject* gpu = nullptr);
  // (bytes-like, sequence of arrays or Blocks) from the pickler. False: a Python exception is set.
  bool adopt(PyObject* pair);
  void clear();

  const char* bytes() const { return bytes_; }
  size_t nbytes() const { return n_; }
  const BlockRef* blocks() const { return blocks_.data(); }
  uint32_t n_blocks() const { return blocks_.size(); }
  const SmallVector<PyObject*>& owners() const { return owners_; }

 private:
  Outcome value(PyObject* object, int depth);
  Outcome item(PyObject* object, int depth);
  Outcome changed(PyObject* object);
  Outcome view(PyObject* array, char tag);
  Outcome device_view(PyObject* array);
  void discard_handles();
  bool is_new(PyObject* object);
  bool reserve(size_t more);
  bool put(const void* data, size_t n);
  bool put_tag(char tag, uint64_t n);

  char inline_bytes_[448];
  char* bytes_ = inline_bytes_;
  size_t n_ = 0, capacity_ = sizeof inline_bytes_;
  SmallVector<BlockRef> blocks_;
  SmallVector<PyObject*> owners_;           // keep the blocks alive until they are exported
  Numbering bases_;                   // of blocks_
  Numbering seen_;                    // objects that may occur again
  Py_buffer view_{};                  // adopted bytes
  PyObject* gpu_ = nullptr;           // borrowed
  Py_ssize_t n_handles_ = 0;          // that it took
};

// The object of a message: new reference. blocks: received, in the order of the encoder. nullptr: an exception. Each field
// is copied before it is checked: the bytes may be in shared memory, where another process may change them meanwhile.
PyObject* decode(const char* bytes, size_t n, PyObject* const* blocks, size_t n_blocks);

}  // namespace shmtensor
