// Own slots and their pages: claiming, committing, keeping warm up to a bound, freeing.
#include "memory/heap/own_slots.h"

#include <algorithm>

#include "memory/inspect/fault_points.h"
#include "memory/heap/memory_limits.h"

namespace shmtensor {

uint32_t owned[4][kMaxSlots];
uint32_t n_owned[4];
Arena* warm_huge[64];  // freed huge blocks, committed
int n_warm = 0;
static size_t warm_limit = 0;
static uint64_t warm_read_ms = 0;
uint64_t avoid_volume0_until = 0;
int filling = 0;  // commits that run outside the mutex

static void add_owned(Arena* a) {
  uint32_t* list = owned[a->kind];
  uint32_t i = n_owned[a->kind]++;
  for (; i && list[i - 1] > a->slot; --i) list[i] = list[i - 1];
  list[i] = a->slot;
}
static void remove_owned(Arena* a) {
  uint32_t* list = owned[a->kind];
  uint32_t n = n_owned[a->kind], i = 0;
  while (i < n && list[i] != a->slot) ++i;
  for (; i + 1 < n; ++i) list[i] = list[i + 1];
  --n_owned[a->kind];
}

// Frees an own slot: LIVE -> FREEING -> punch -> FREE. No block in it is in use or in limbo.
size_t give_slot_back(Arena* a) {
  size_t bytes = domain.slot[a->slot].committed.load(relaxed);
  uint32_t slot = a->slot, length = a->length;
  remove_owned(a);
  drop_arena(a);
  release_slots(domain, slot, length, false);
  committed_bytes.fetch_sub(bytes, relaxed);
  return bytes;
}

Arena* claim_arena(Kind kind, uint32_t length, int volume) {
  int s = claim_slots(domain, length, volume, kind);
  if (s < 0) return nullptr;
  uint32_t slot = uint32_t(s);
  publish_slots(domain, slot);
  Arena* a = new_arena(domain, Ownership::Own, slot, uint32_t(SlotWord::of(domain.slot[slot].word.load(relaxed)).inc), kind,
                       length);
  if (!a) {
    release_slots(domain, slot, length, false);
    return nullptr;
  }
  add_owned(a);
  return a;
}

void count_committed(Arena* a, size_t more) {
  Word& w = domain.slot[a->slot].committed;
  w.store(w.load(relaxed) + more, relaxed);
  fault("commit.counted");
}

// ---- pages of an arena
static int find_run(const uint64_t* free, const uint64_t* also, int n) {
  for (int i = 0; i + n <= kPages;) {
    uint64_t w = (free[i >> 6] & (also ? bits_at(also, size_t(i >> 6)) : ~0ull)) >> (i & 63);
    if (!w) {
      i = (i | 63) + 1;
      continue;
    }
    i += __builtin_ctzll(w);
    int j = i;
    while (j < kPages && j - i < n) {
      uint64_t taken = ~((free[j >> 6] & (also ? bits_at(also, size_t(j >> 6)) : ~0ull)) >> (j & 63));
      int k = taken ? __builtin_ctzll(taken) : 64;
      if (k == 0) break;
      j += k;
      if (j & 63) break;
    }
    if (j - i >= n) return i;
    i = j + 1;
  }
  return -1;
}

int take_pages(Arena* a, int n) {
  if (int(a->fit) < n) return -1;
  int first = find_run(a->free_pages, a->volume_full ? a->committed : nullptr, n);
  if (first < 0) {
    a->fit = uint32_t(n - 1);
    return -1;
  }
  for (int i = first; i < first + n; ++i) clear(a->free_pages, uint32_t(i));
  a->nfree -= uint32_t(n);
  return first;
}

void put_pages(Arena* a, int first, int n) {
  for (int i = first; i < first + n; ++i) {
    set(a->free_pages, uint32_t(i));
    a->page[i].cls = kNoClass;
  }
  a->nfree += uint32_t(n);
  a->fit = kPages;
}

bool all_committed(const Arena* a, int first, int n) {
  for (int i = first; i < first + n; ++i)
    if (!test(a->committed, uint32_t(i))) return false;
  return true;
}

// Commits the uncommitted pages of [first, first + n). 0 or an errno. May run without the mutex: the pages are reserved.
Errno commit_pages(Arena* a, int first, int n) {
  for (int i = first; i < first + n;) {
    if (test(a->committed, uint32_t(i))) {
      ++i;
      continue;
    }
    int j = i;
    while (j < first + n && !test(a->committed, uint32_t(j))) ++j;
    if (int error = commit(domain, a->slot, size_t(i) * page_bytes(a), size_t(j - i) * page_bytes(a))) return error;
    for (; i < j; ++i) __atomic_or_fetch(&a->committed[i >> 6], 1ull << (i & 63), __ATOMIC_RELAXED);
  }
  return 0;
}

static size_t punch_free_pages(Arena* a) {
  size_t bytes = 0;
  for (int i = 0; i < kPages;) {
    auto idle = [&](int p) { return test(a->free_pages, uint32_t(p)) && test(a->committed, uint32_t(p)); };
    if (!idle(i)) {
      ++i;
      continue;
    }
    int j = i;
    while (j < kPages && idle(j)) {
      __atomic_and_fetch(&a->committed[j >> 6], ~(1ull << (j & 63)), __ATOMIC_RELAXED);
      clear(a->dirty, uint32_t(j));
      ++j;
    }
    punch(domain, a->slot, size_t(i) * page_bytes(a), size_t(j - i) * page_bytes(a));
    fault("trim.punched");
    bytes += size_t(j - i) * page_bytes(a);
    i = j;
  }
  Word& w = domain.slot[a->slot].committed;
  w.store(w.load(relaxed) - bytes, relaxed);
  fault("trim.counted");
  committed_bytes.fetch_sub(bytes, relaxed);
  return bytes;
}

size_t idle_bytes(const Arena* a) {
  size_t n = 0;
  for (int w = 0; w < kPages / 64; ++w)
    n += size_t(__builtin_popcountll(a->free_pages[w] & bits_at(a->committed, size_t(w))));
  return n * page_bytes(a);
}

static size_t warm_bytes() {
  size_t n = 0;
  for (int i = 0; i < n_warm; ++i) n += warm_huge[i]->nbytes;
  for (uint32_t i = 0; i < n_owned[kMedium]; ++i) n += idle_bytes(domain.arenas[owned[kMedium][i]]);
  return n;
}

void drop_warm(int i) {
  Arena* a = warm_huge[i];
  for (; i + 1 < n_warm; ++i) warm_huge[i] = warm_huge[i + 1];
  --n_warm;
  give_slot_back(a);
}

// Keeps the free committed memory below the bound: frees the oldest huge blocks first, then the highest medium slots.
void bound_warmth() {
  // The bound is an eighth of the limit and half of the available memory, read at most once a second.
  uint64_t now = now_ms();
  if (!warm_limit || now - warm_read_ms > 1000) {
    Headroom h = recent_headroom(1000);
    uint64_t bound = std::min<uint64_t>(std::max<uint64_t>(h.limit / 8, 64u << 20), 1u << 30);
    warm_limit = size_t(std::min<uint64_t>(bound, std::max<uint64_t>(h.available / 2, 16u << 20)));
    warm_read_ms = now;
  }
  size_t n = warm_bytes();
  if (n <= warm_limit) return;
  while (n_warm > 1 && n > warm_limit) {
    n -= warm_huge[0]->nbytes;
    drop_warm(0);
  }
  for (uint32_t i = n_owned[kMedium]; i-- > 0 && n > warm_limit / 2;) {
    Arena* a = domain.arenas[owned[kMedium][i]];
    n -= std::min(n, a->nfree == kPages && !filling ? give_slot_back(a) : punch_free_pages(a));
  }
}

void heap_relieve() {
  while (n_warm) drop_warm(n_warm - 1);
  for (Kind kind : {kTiny, kMedium})
    for (uint32_t i = n_owned[kind]; i-- > 0;) {
      Arena* a = domain.arenas[owned[kind][i]];
      if (a->nfree == kPages) give_slot_back(a);
      else punch_free_pages(a);
    }
  forget_headroom();
  for (Kind kind : {kTiny, kMedium})
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      Arena* a = domain.arenas[owned[kind][i]];
      a->volume_full = false;
      a->fit = kPages;
    }
}

}  // namespace shmtensor
