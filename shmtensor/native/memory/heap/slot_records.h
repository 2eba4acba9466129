// What this process privately knows of a slot: who owns it, how it is cut, what is held of it, what
// is free in it.
//
// byte map, one byte per block (own and inherited slots):
//   0 free or cached -> 1 private -> 2 shared -> 3 limbo -> 0
//   2 -> 4 freed by its array, still counted -> 3;   3 -> 4 when an own handle comes back
//   1, 2, 4 -> 5 frozen (Note [Freeze])
// Everything here is guarded by the ledger mutex, except what Note [Fast path] in heap.cc allows.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

enum Byte : uint8_t { kFree, kPrivate, kShared, kLimbo, kCounted, kFrozen };
enum class Part : uint8_t { Own, Inherited, Foreign };

struct Held {
  uint32_t count, units;
};  // holds that came by handle; size of the block in 64 B
constexpr uint32_t kFrozenHolds = 1u << 30;

constexpr int kPages = 1024, kPageGranules = 64;  // a page: 64 granules, one word of a bitmap
constexpr uint8_t kNoClass = 255,
                  kRun = 254;  // page classes beside the size classes: free, run of whole pages
constexpr uint32_t kNoSpan = 0xFFFFFFFF;

struct Page {  // the first page of a span or run says everything
  uint8_t cls;
  uint16_t first, npages, nfree;
  uint32_t prev, next;  // spans of a class with free blocks: slot << 10 | page
};

struct Arena {
  Domain* home;
  Part part;
  uint8_t kind, shift;
  bool stuck;                  // its volume refused more memory: only committed pages are used
  bool is_binned;              // own, and cut into blocks of size classes: the fast path may free here
  bool filling;                // a huge block being committed or cached: not in use
  uint32_t slot, inc, length;  // head slot, its incarnation, slots
  char* base;
  size_t allocated;                              // bytes of this record (mmap)
  uint8_t* byte;                                 // own, inherited
  Page* page;                                    // tiny, medium
  Held* held;                                    // lazily
  uint64_t *limbo, *candidate, *seen, *central;  // own: bitmaps over blocks
  uint64_t free_pages[kPages / 64], committed[kPages / 64], dirty[kPages / 64];
  uint32_t nlimbo, nfree, fit;  // fit: no free run is longer
  size_t nbytes, dirty_bytes;   // huge: size (committed), bytes that were ever handed out
  uint64_t cached_ms;

  uint32_t entries() const { return kind == kHuge ? 1 : kBlocks; }
  uint32_t nwords() const { return kind == kHuge ? 1 : kBitWords; }
  size_t granule() const { return size_t(1) << shift; }
};

// Relaxed: of `committed`, other bits of the word may change without the mutex (commit_pages).
inline uint64_t bits_at(const uint64_t* bits, size_t w) {
  return __atomic_load_n(&bits[w], __ATOMIC_RELAXED);
}
inline bool test(const uint64_t* bits, uint32_t i) { return bits_at(bits, i >> 6) >> (i & 63) & 1; }
inline void set(uint64_t* bits, uint32_t i) { bits[i >> 6] |= 1ull << (i & 63); }
inline void clear(uint64_t* bits, uint32_t i) { bits[i >> 6] &= ~(1ull << (i & 63)); }

Arena* new_arena(Domain& d, Part part, uint32_t slot, uint32_t inc, Kind kind,
                 uint32_t length);        // nullptr: no memory
void drop_arena(Arena* a);                // forgets the slot
Held* held_of(Arena* a, uint32_t index);  // nullptr: no memory
inline uint32_t count_of(const Arena* a, uint32_t index) {
  return a->held ? a->held[index].count : 0;
}

// A block of this process by any address inside it; nullptr arena if the address lies in none of
// that domain.
struct Found {
  Arena* arena;
  uint32_t index;
  char* base;
  size_t nbytes;
};
Found find_block(Domain& d, const void* p);
size_t block_bytes(const Arena* a, uint32_t index);  // own or inherited, by its page table

}  // namespace shmtensor
