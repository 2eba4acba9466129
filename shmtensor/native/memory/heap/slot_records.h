// The private record of a slot: its owner, its division, which blocks are held and which are free.
//
// byte map, one byte per block (own and inherited slots):
//   0 free or cached -> 1 private -> 2 shared -> 3 limbo -> 0
//   2 -> 4 freed by its array, still counted -> 3;   3 -> 4 when an own handle is received
//   1, 2, 4 -> 5 frozen (Note [Freeze])
// The ledger mutex guards everything here, except as Note [Fast path] in heap.cc says.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

enum Byte : uint8_t { kFree, kPrivate, kShared, kLimbo, kCounted, kFrozen };
enum class Ownership : uint8_t { Own, Inherited, Foreign };

struct HoldCount {
  uint32_t count, units;
};  // holds by handle; size of the block in units of 64 B
constexpr uint32_t kFrozenHolds = 1u << 30;

constexpr int kPages = 1024, kPageGranules = 64;  // a page: 64 granules, one word of a bitmap
constexpr uint8_t kNoClass = 255,
                  kRun = 254;  // page classes beside the size classes: free, run of whole pages
constexpr uint32_t kNoSpan = 0xFFFFFFFF;

struct Page {  // the first page of a span or run has all fields
  uint8_t cls;
  uint16_t first, npages, nfree;
  uint32_t prev, next;  // spans of a class with free blocks: slot << 10 | page
};

struct Arena {
  Domain* domain;
  Ownership ownership;
  uint8_t kind, shift;
  bool volume_full;                  // its volume refused more memory: only committed pages are used
  bool is_binned;              // own, and cut into blocks of size classes: the fast path may free here
  bool filling;                // a huge block being committed or cached: not in use
  uint32_t slot, inc, length;  // head slot, its incarnation, slots
  char* base;
  size_t allocated;                              // bytes of this record (mmap)
  uint8_t* byte;                                 // own, inherited
  Page* page;                                    // tiny, medium
  HoldCount* held;                                    // lazily
  uint64_t *limbo, *candidate, *in_use, *central;  // own: bitmaps over blocks
  uint64_t free_pages[kPages / 64], committed[kPages / 64], dirty[kPages / 64];
  uint32_t nlimbo, nfree, fit;  // fit: no free run is longer
  size_t nbytes, dirty_bytes;   // huge: size (committed), bytes that were ever handed out
  uint64_t cached_ms;

  uint32_t entries() const { return kind == kHuge ? 1 : kBlocks; }
  uint32_t nwords() const { return kind == kHuge ? 1 : kBitWords; }
  size_t granule() const { return size_t(1) << shift; }
};

// Relaxed: of `committed`, other bits of the word may change without the mutex (commit_pages).
inline uint64_t bits_at(const uint64_t* bits, size_t w) { return __atomic_load_n(&bits[w], __ATOMIC_RELAXED); }
inline bool test(const uint64_t* bits, uint32_t i) { return bits_at(bits, i >> 6) >> (i & 63) & 1; }
inline void set(uint64_t* bits, uint32_t i) { bits[i >> 6] |= 1ull << (i & 63); }
inline void clear(uint64_t* bits, uint32_t i) { bits[i >> 6] &= ~(1ull << (i & 63)); }

Arena* new_arena(Domain& d, Ownership ownership, uint32_t slot, uint32_t inc, Kind kind,
                 uint32_t length);        // nullptr: no memory
void drop_arena(Arena* a);                // forgets the slot
HoldCount* hold_count_at(Arena* a, uint32_t index);  // nullptr: no memory
inline uint32_t count_of(const Arena* a, uint32_t index) { return a->held ? a->held[index].count : 0; }

// A block of this process, by any address inside it; arena is nullptr if the address is in no block of that domain.
struct BlockRef {
  Arena* arena;
  uint32_t index;
  char* base;
  size_t nbytes;
};
BlockRef find_block(Domain& d, const void* p);
size_t block_bytes(const Arena* a, uint32_t index);  // own or inherited, by its page table

}  // namespace shmtensor
