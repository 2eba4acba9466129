// The bytes of packed data: Python objects side by side in few blocks, and where each one starts.
//
//   block    | Header | data | u64 per element: part:16 | offset in its data:48 | table |
//            A block per part: one, or of more than 64 MB one per 64 MB. The last has the table of a dictionary.
//   data     element after element; a pair is its key, then its value; none spans two parts
//   table    u64 per place, a power of two of them: hash:32 | number of the pair + 1; 0: empty.
//            Linear probing from hash mod places; at most two thirds are used.
//
//   element  None False True           tag
//            Int1 Int2 Int4 Int8       tag, two's complement
//            BigInt Bytes String       tag, n, bytes (BigInt: hexadecimal; String: UTF-8, lone surrogates allowed)
//            Float Complex             tag, 8 or 16 bytes
//            List Tuple Dict           tag, n, elements (Dict: n pairs)
//            Array Scalar Tensor       tag, type, order, dimensions, sizes, gap, data
//            Foreign                   tag, Tuple: Int of the library, Array (foreign_arrays.py)
//            Pickle                    tag, n, pickle
//   n and sizes are LEB128 numbers; gap brings the data to 64 bytes (16 below 1 KiB) from the
//   part's start; type is a number as in messages (array_layout.h), or kOtherType and an element (packing.py).
//
// Packed data never changes, so no word needs a memory order: the handles of the blocks publish them. Readers trust no
// byte of it: if it is invalid they raise ValueError, and they never read outside the part (Note [Corrupt bytes] in
// decode.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ipc/copy_once.h"

namespace shmtensor::packed {

constexpr char kMagic[8] = {'S', 'H', 'P', 'A', 'C', 'K', '2', 0};
constexpr size_t kFullPart = (64 << 20) - (64 << 10);  // bytes of data and positions: full from here on
constexpr size_t kDataStart = 64;                      // in a block
constexpr int kPartShift = 48;
constexpr uint8_t kOtherType = 0xFF;

enum Kind : uint32_t { kList = 1, kDict = 2 };

enum Tag : uint8_t {
  kNone = 1,
  kFalse,
  kTrue,
  kInt1,
  kInt2,
  kInt4,
  kInt8,
  kBigInt,
  kFloat,
  kComplex,
  kBytes,
  kString,
  kListTag,
  kTuple,
  kDictTag,
  kArray,
  kScalar,
  kTensor,
  kPickle,
  kForeign,
};

struct Header {
  char magic[8];
  uint32_t kind, readonly;  // readonly: arrays and tensors come back read-only
  uint64_t seed;            // of the table's hashes
  uint64_t nbytes;          // of the data
  uint64_t count;           // elements or pairs that start here
  uint64_t places;          // of the table
};
static_assert(sizeof(Header) == 48, "packed: no gaps");

inline size_t aligned(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }
// Where the data of an array of so many bytes starts, at or after `offset`.
inline size_t data_offset(size_t offset, uint64_t nbytes) { return aligned(offset, nbytes < 1024 ? 16 : 64); }

// The value at p, read once: what is checked is what is used, although another process may change it meanwhile.
template <class T>
T load(const void* p) {
  T value;
  if constexpr (std::is_integral_v<T>) {
    memcpy(&value, p, sizeof value);
    asm("" : "+r"(value));  // as in copy_once, but in a register
  } else {
    copy_once(&value, p, sizeof value);
  }
  return value;
}

}  // namespace shmtensor::packed
