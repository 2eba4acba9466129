// The own slots of this process by kind, their pages, spans with free blocks, and thread caches.
//
// For the files of the heap itself and inspect/check.cc; others use heap.h. The ledger mutex guards everything except a
// thread's own bins (Note [Fast path] in heap.cc).
#pragma once

#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- thread caches (heap.cc)
struct Bin {
  uint32_t n, capacity;  // blocks, and how many it may keep (of its class; beside n for the fast path)
  void* item[63];        // 512 bytes in all: addressed by a shift
};
static_assert(sizeof(Bin) == 512);
struct Cache {
  Half busy;
  Cache* next;
  Bin bin[kClasses];
};
extern Cache* caches;

// ---- own slots and their pages (own_slots.cc)
extern uint32_t owned[4][kMaxSlots];  // by kind, ascending
extern uint32_t n_owned[4];
extern Arena* warm_huge[64];  // freed huge blocks, committed
extern int n_warm;
extern int filling;                   // commits that run outside the mutex
extern uint64_t avoid_volume0_until;  // it has just refused

Arena* claim_arena(Kind kind, uint32_t length, int volume);
size_t give_slot_back(Arena* a);  // nothing in it is in use, cached or in limbo
void count_committed(Arena* a, size_t more);
inline size_t page_bytes(const Arena* a) { return size_t(kPageGranules) << a->shift; }
int take_pages(Arena* a, int n);  // the first of n free pages in a row, or -1
void put_pages(Arena* a, int first, int n);
bool all_committed(const Arena* a, int first, int n);
Errno commit_pages(Arena* a, int first, int n);  // needs no mutex, the pages are taken
size_t idle_bytes(const Arena* a);             // free but committed
void drop_warm(int i);
void bound_warmth();

// ---- spans of a size class (span.cc)
extern uint32_t partial[kClasses];  // spans with free blocks: slot << 10 | page
extern uint8_t medium_class[257];   // by KiB
inline int class_of(size_t n) {     // 1 <= n <= kLargestClass
  return n <= kLargestTiny ? int((n - 1) >> 6) : medium_class[(n + 1023) >> 10];
}
inline Page& span_page(uint32_t id) { return domain.arenas[id >> 10]->page[id & 1023]; }
void give_span_back(Arena* a, int first, int cls);
Errno refill(Bin& bin, int cls);  // why there was no more
void flush(Bin& bin, uint32_t keep);

// ---- blocks beyond the size classes (large.cc)
void* alloc_run(size_t n, bool zero);
void* alloc_huge(size_t n, bool zero);

// ---- no room (out_of_memory.cc)
constexpr int kStages = 5;  // of freeing memory, cheapest first
void relieve(int stage, size_t nbytes);
void answer_call();  // returns warm memory if another process of the domain has no room
extern uint64_t calls_answered;
void* refuse(size_t nbytes, int error);  // nullptr; records why

}  // namespace shmtensor
