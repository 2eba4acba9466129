// The allocator: size classes in spans of tiny and medium slots, runs of pages, huge blocks of whole slots, thread caches.
// Longer than 400 lines because the fast path, the page tables and the way back of a block share their invariants.
//
//   <= 1 KiB     tiny slot, granules of 64 B, 16 classes      a span holds blocks of one class
//   <= 256 KiB   medium slot, granules of 1 KiB, 27 classes   page = 64 granules = one word of every bitmap
//   <= 16 MiB    medium slot, a run of whole pages
//   beyond       huge: whole slots, committed to the size; freed ones are kept warm up to a bound
//
// Note [Fast path]: a thread marks its cache busy (plain store), looks at `stop`, and only then touches its bins and the
// byte map: 0 <-> 1 of blocks that nobody else can name. No lock, no atomic read-modify-write, no system call. Who needs
// the byte maps at rest (fork, check, trim) sets `stop`, lets membarrier() order every running thread, and waits until no
// cache is busy; where the kernel has no membarrier the fast path pays a fence. `arenas[slot]` and a page's class are
// written before a block of it is first handed out, so whoever has the address sees them.
#include "heap.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "faults.h"
#include "headroom.h"
#include "ledger.h"

namespace shmtensor {

SizeClass classes[kClasses];
static uint8_t medium_class[257];  // by KiB

__attribute__((constructor)) static void make_classes() {
  static const uint16_t medium[] = {2,  3,  4,  5,  6,  7,  8,  10, 12, 14,  16,  20,  24, 28,
                                    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256};
  for (int c = 0; c < kClasses; ++c) {
    bool tiny = c < kTinyClasses;
    uint16_t g = tiny ? uint16_t(c + 1) : medium[c - kTinyClasses];
    int least = tiny ? 32 : g <= 16 ? 4 : 1;
    uint16_t pages = 1;
    while (pages * 64 / g < least || (pages * 64 % g) * 8 > pages * 64) ++pages;
    uint16_t cached = tiny ? 64 : g <= 16 ? 32 : g <= 64 ? 16 : 4;
    classes[c] = {g, pages, uint16_t(pages * 64 / g), cached, tiny ? kTiny : kMedium};
  }
  for (int kib = 1, c = kTinyClasses; kib <= 256; ++kib) {
    if (kib > classes[c].granules) ++c;
    medium_class[kib] = uint8_t(c);
  }
}

static inline int class_of(size_t n) {  // 1 <= n <= kLargestClass
  return n <= kLargestTiny ? int((n - 1) >> 6) : medium_class[(n + 1023) >> 10];
}

// ---- thread caches
struct Bin { uint32_t n; void* item[64]; };
struct Cache {
  Half busy;
  Cache* next;
  Bin bin[kClasses];
};
__thread Thread thread_state = {0, false, nullptr};
static Cache* caches = nullptr;          // ledger mutex
static Half stop{0};
static bool fenced = false;              // no membarrier: fence in the fast path
static pthread_key_t exit_key;

static inline bool enter_fast(Cache* c) {
  c->busy.store(1, relaxed);
  if (__builtin_expect(fenced, 0)) fence();
  else std::atomic_signal_fence(std::memory_order_seq_cst);
  return __builtin_expect(stop.load(acquire) == 0, 1);
}
static inline void leave_fast(Cache* c) { c->busy.store(0, release); }

static bool register_membarrier() {
  return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void quiesce() {
  pthread_mutex_lock(&fork_mutex);
  pthread_mutex_lock(&ledger_mutex);
  stop.store(1, relaxed);
  fence();
  if (!fenced) syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (Cache* c = caches; c; c = c->next)
    while (c->busy.load(acquire)) sched_yield();
}
void resume() {
  stop.store(0, release);
  pthread_mutex_unlock(&ledger_mutex);
  pthread_mutex_unlock(&fork_mutex);
}
Quiesced::Quiesced() { quiesce(); }
Quiesced::~Quiesced() { resume(); }

// ---- own slots, ascending, by kind
static uint32_t owned[4][kMostSlots];
static uint32_t n_owned[4];
static uint32_t partial[kClasses];       // spans with free blocks: slot << 10 | page
static Arena* warm_huge[64];             // freed huge blocks, committed
static int n_warm = 0;
static size_t warm_limit = 0;
static uint64_t avoid_volume0_until = 0;
static int filling = 0;                  // commits under way outside the mutex

static void own(Arena* a) {
  uint32_t* list = owned[a->kind];
  uint32_t i = n_owned[a->kind]++;
  for (; i && list[i - 1] > a->slot; --i) list[i] = list[i - 1];
  list[i] = a->slot;
}
static void disown(Arena* a) {
  uint32_t* list = owned[a->kind];
  uint32_t n = n_owned[a->kind], i = 0;
  while (i < n && list[i] != a->slot) ++i;
  for (; i + 1 < n; ++i) list[i] = list[i + 1];
  --n_owned[a->kind];
}

// A slot of ours leaves: LIVE -> FREEING -> punch -> FREE. Nothing in it is in use, cached or in limbo.
static size_t give_slot_back(Arena* a) {
  size_t bytes = domain.slot[a->slot].committed.load(relaxed);
  uint32_t slot = a->slot, length = a->length;
  disown(a);
  drop_arena(a);
  release_slots(slot, length, false);
  committed_bytes.fetch_sub(bytes, relaxed);
  return bytes;
}

static Arena* claim_arena(Kind kind, uint32_t length, int volume) {
  int s = claim_slots(length, volume, kind);
  if (s < 0) return nullptr;
  uint32_t slot = uint32_t(s);
  publish_slots(slot);
  Arena* a = new_arena(Part::Own, slot, uint32_t(SlotWord::of(domain.slot[slot].word.load(relaxed)).inc), kind, length);
  if (!a) {
    release_slots(slot, length, false);
    return nullptr;
  }
  own(a);
  return a;
}

static void count_committed(Arena* a, size_t more) {
  Word& w = domain.slot[a->slot].committed;
  w.store(w.load(relaxed) + more, relaxed);
}

// ---- pages of an arena
static size_t page_bytes(const Arena* a) { return size_t(kPageGranules) << a->shift; }

static int find_run(const uint64_t* free, const uint64_t* also, int n) {
  for (int i = 0; i + n <= kPages;) {
    uint64_t w = (free[i >> 6] & (also ? also[i >> 6] : ~0ull)) >> (i & 63);
    if (!w) {
      i = (i | 63) + 1;
      continue;
    }
    i += __builtin_ctzll(w);
    int j = i;
    while (j < kPages && j - i < n) {
      uint64_t taken = ~((free[j >> 6] & (also ? also[j >> 6] : ~0ull)) >> (j & 63));
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

static int take_pages(Arena* a, int n) {
  if (int(a->fit) < n) return -1;
  int first = find_run(a->free_pages, a->stuck ? a->committed : nullptr, n);
  if (first < 0) {
    a->fit = uint32_t(n - 1);
    return -1;
  }
  for (int i = first; i < first + n; ++i) clear(a->free_pages, uint32_t(i));
  a->nfree -= uint32_t(n);
  return first;
}

static void put_pages(Arena* a, int first, int n) {
  for (int i = first; i < first + n; ++i) {
    set(a->free_pages, uint32_t(i));
    a->page[i].cls = kNoClass;
  }
  a->nfree += uint32_t(n);
  a->fit = kPages;
}

static bool all_committed(const Arena* a, int first, int n) {
  for (int i = first; i < first + n; ++i)
    if (!test(a->committed, uint32_t(i))) return false;
  return true;
}

// Commits what is not yet committed of [first, first + n). 0 or an errno. May run without the mutex: the pages are taken.
static int commit_pages(Arena* a, int first, int n) {
  for (int i = first; i < first + n;) {
    if (test(a->committed, uint32_t(i))) {
      ++i;
      continue;
    }
    int j = i;
    while (j < first + n && !test(a->committed, uint32_t(j))) ++j;
    if (int error = commit(a->slot, size_t(i) * page_bytes(a), size_t(j - i) * page_bytes(a))) return error;
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
    punch(a->slot, size_t(i) * page_bytes(a), size_t(j - i) * page_bytes(a));
    bytes += size_t(j - i) * page_bytes(a);
    i = j;
  }
  Word& w = domain.slot[a->slot].committed;
  w.store(w.load(relaxed) - bytes, relaxed);
  committed_bytes.fetch_sub(bytes, relaxed);
  return bytes;
}

static size_t idle_bytes(const Arena* a) {
  size_t n = 0;
  for (int w = 0; w < kPages / 64; ++w) n += size_t(__builtin_popcountll(a->free_pages[w] & a->committed[w]));
  return n * page_bytes(a);
}

static size_t warm_bytes() {
  size_t n = 0;
  for (int i = 0; i < n_warm; ++i) n += warm_huge[i]->nbytes;
  for (uint32_t i = 0; i < n_owned[kMedium]; ++i) n += idle_bytes(arenas[owned[kMedium][i]]);
  return n;
}

static void drop_warm(int i) {
  Arena* a = warm_huge[i];
  for (; i + 1 < n_warm; ++i) warm_huge[i] = warm_huge[i + 1];
  --n_warm;
  give_slot_back(a);
}

// Keeps what is free and committed below the bound: oldest huge blocks first, then the highest medium slots.
static void bound_warmth() {
  if (!warm_limit) {
    uint64_t limit = last_headroom().limit / 8;
    warm_limit = size_t(std::min<uint64_t>(std::max<uint64_t>(limit, 64u << 20), 1u << 30));
  }
  size_t n = warm_bytes();
  if (n <= warm_limit) return;
  while (n_warm > 1 && n > warm_limit) {
    n -= warm_huge[0]->nbytes;
    drop_warm(0);
  }
  for (uint32_t i = n_owned[kMedium]; i-- > 0 && n > warm_limit / 2;) {
    Arena* a = arenas[owned[kMedium][i]];
    n -= std::min(n, a->nfree == kPages && !filling ? give_slot_back(a) : punch_free_pages(a));
  }
}

void heap_relieve() {
  while (n_warm) drop_warm(n_warm - 1);
  for (Kind kind : {kTiny, kMedium})
    for (uint32_t i = n_owned[kind]; i-- > 0;) {
      Arena* a = arenas[owned[kind][i]];
      if (a->nfree == kPages) give_slot_back(a);
      else punch_free_pages(a);
    }
  forget_headroom();
  for (Kind kind : {kTiny, kMedium})
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      Arena* a = arenas[owned[kind][i]];
      a->stuck = false;
      a->fit = kPages;
    }
}

// ---- why there was no room
static thread_local Failure failure;
const Failure* pending_failure() { return failure.asked ? &failure : nullptr; }
void clear_failure() { failure.asked = 0; }

static void* refuse(size_t asked, int error) {
  failure.asked = asked;
  Headroom h = last_headroom();
  uint64_t held = committed_bytes.load(relaxed);
  double mb = 1e-6;
  if (error == EDQUOT) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: %s has %.1f MB left of its limit of %.1f MB, this process holds %.1f MB of shared memory; free "
             "tensors, raise the limit, or use fewer processes",
             asked, h.name, double(h.available) * mb, double(h.limit) * mb, double(held) * mb);
  } else if (error) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: both volumes of the domain refused (%s), this process holds %.1f MB of shared memory, %s has "
             "%.1f MB left of %.1f MB; free tensors, or enlarge /dev/shm (docker run --shm-size)",
             asked, strerror(error), double(held) * mb, h.name, double(h.available) * mb, double(h.limit) * mb);
  } else {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: no %u free slots of 64 MiB in a row (the limit is %u slots in each of two volumes), this "
             "process holds %.1f MB of shared memory; free tensors, or use fewer and larger ones",
             asked, unsigned((asked + kSlotBytes - 1) >> kSlotShift), domain.slots / 2, double(held) * mb);
  }
  return nullptr;
}

// Ledger mutex held. Stages of giving back, gentlest first; the caller tries again after each.
constexpr int kStages = 4;
static void relieve(int stage, size_t asked) {
  switch (stage) {
    case 0: reclaim(); break;
    case 1: heap_relieve(); break;
    case 2: sweep(true), reclaim(), heap_relieve(); break;
    default: expire_pins(true, asked), sweep(true), reclaim(), heap_relieve(); break;
  }
}

// ---- spans of a class
static Page& span_page(uint32_t id) { return arenas[id >> 10]->page[id & 1023]; }

static void link_span(uint32_t id, int cls) {
  Page& p = span_page(id);
  p.prev = kNoSpan;
  p.next = partial[cls];
  if (p.next != kNoSpan) span_page(p.next).prev = id;
  partial[cls] = id;
}
static void unlink_span(uint32_t id, int cls) {
  Page& p = span_page(id);
  if (p.prev != kNoSpan) span_page(p.prev).next = p.next;
  else partial[cls] = p.next;
  if (p.next != kNoSpan) span_page(p.next).prev = p.prev;
}

// Pages for a span in some slot of its kind; small commits, under the mutex.
static uint32_t new_span(int cls, int* error) {
  const SizeClass& c = classes[cls];
  *error = 0;
  for (int claimed = 0;;) {
    for (uint32_t i = 0; i < n_owned[c.kind]; ++i) {
      Arena* a = arenas[owned[c.kind][i]];
      int first = take_pages(a, c.npages);
      if (first < 0) continue;
      if (!all_committed(a, first, c.npages)) {
        // Ahead, so that few calls commit much; exactly what is needed where that is refused.
        int ahead = first + c.npages, step = c.kind == kTiny ? 64 : 16;
        while (ahead < kPages && ahead < first + step && !test(a->committed, uint32_t(ahead)) && test(a->free_pages, uint32_t(ahead))) ++ahead;
        size_t before = committed_bytes.load(relaxed);
        *error = commit_pages(a, first, ahead - first);
        if (*error) *error = commit_pages(a, first, c.npages);
        count_committed(a, committed_bytes.load(relaxed) - before);
        if (*error) {
          put_pages(a, first, c.npages);
          if (*error == EDQUOT) return kNoSpan;
          a->stuck = true;
          if (!domain.volume_of(a->slot)) avoid_volume0_until = now_ms() + 1000;
          continue;
        }
      }
      for (int p = first; p < first + c.npages; ++p) {
        a->page[p].cls = uint8_t(cls);
        a->page[p].first = uint16_t(first);
        a->central[p] = 0;
        set(a->dirty, uint32_t(p));
      }
      a->page[first].npages = c.npages;
      a->page[first].nfree = c.capacity;
      for (uint32_t k = 0; k < c.capacity; ++k) set(a->central, uint32_t(first) * kPageGranules + k * c.granules);
      uint32_t id = a->slot << 10 | uint32_t(first);
      link_span(id, cls);
      return id;
    }
    // No slot has room: claim one, in volume 0 unless it has just refused; then in the other.
    Arena* a = nullptr;
    for (; claimed < 2 && !a; ++claimed) {
      bool avoid = now_ms() < avoid_volume0_until;
      if (claimed == 0 && avoid) continue;
      a = claim_arena(c.kind, 1, claimed);
    }
    if (!a) return kNoSpan;
  }
}

static void give_span_back(Arena* a, int first, int cls) {
  unlink_span(a->slot << 10 | uint32_t(first), cls);
  int n = a->page[first].npages;
  for (int p = first; p < first + n; ++p) a->central[p] = 0;
  put_pages(a, first, n);
}

static void return_small(Arena* a, uint32_t index, int cls) {
  int first = a->page[index / kPageGranules].first;
  Page& span = a->page[first];
  set(a->central, index);
  if (span.nfree++ == 0) link_span(a->slot << 10 | uint32_t(first), cls);
  // One empty span per class stays.
  if (span.nfree == classes[cls].capacity && (span.prev != kNoSpan || span.next != kNoSpan)) {
    give_span_back(a, first, cls);
    if (a->nfree == kPages && n_owned[a->kind] > 1 && !filling) {
      for (uint32_t i = 0; i < n_owned[a->kind]; ++i) {
        Arena* other = arenas[owned[a->kind][i]];
        if (other != a && other->nfree == kPages) {  // two empty slots of a kind: one goes
          give_slot_back(a);
          return;
        }
      }
    }
  }
}

void heap_return(Arena* a, uint32_t index) {
  if (a->kind == kHuge) {
    if (n_warm == 64) drop_warm(0);
    a->filling = true;
    warm_huge[n_warm++] = a;
    bound_warmth();
    return;
  }
  uint8_t cls = a->page[index / kPageGranules].cls;
  if (cls == kRun) {
    put_pages(a, int(index / kPageGranules), a->page[index / kPageGranules].npages);
    bound_warmth();
  } else {
    return_small(a, index, cls);
  }
}

static int refill(Bin& bin, int cls) {
  const SizeClass& c = classes[cls];
  uint32_t want = c.cached > 8 ? c.cached / 2 : 1u;
  int error = 0;
  while (bin.n < want) {
    uint32_t id = partial[cls];
    if (id == kNoSpan && (bin.n || (id = new_span(cls, &error)) == kNoSpan)) break;
    Arena* a = arenas[id >> 10];
    uint32_t first = id & 1023;
    Page& span = a->page[first];
    for (uint32_t p = first; p < first + span.npages && bin.n < want; ++p) {
      while (a->central[p] && bin.n < want) {
        uint32_t index = p * kPageGranules + uint32_t(__builtin_ctzll(a->central[p]));
        a->central[p] &= a->central[p] - 1;
        --span.nfree;
        bin.item[bin.n++] = a->base + (size_t(index) << a->shift);
      }
    }
    if (span.nfree == 0) unlink_span(id, cls);
  }
  return error;
}

static void flush(Bin& bin, uint32_t keep) {
  while (bin.n > keep) {
    char* p = static_cast<char*>(bin.item[--bin.n]);
    Arena* a = arenas[size_t(p - domain.base) >> kSlotShift];
    uint32_t index = uint32_t(size_t(p - a->base) >> a->shift);
    return_small(a, index, a->page[index / kPageGranules].cls);
  }
}

static void leave_thread(void* cache) {
  Cache* c = static_cast<Cache*>(cache);
  thread_state.gone = true;
  thread_state.cache = nullptr;
  Locked lock;
  for (Bin& bin : c->bin) flush(bin, 0);
  for (Cache** p = &caches; *p; p = &(*p)->next)
    if (*p == c) {
      *p = c->next;
      break;
    }
  munmap(c, sizeof *c);
}

void register_cache_exit() {
  pthread_key_create(&exit_key, leave_thread);
  fenced = !register_membarrier();
  for (uint32_t& id : partial) id = kNoSpan;
}

static Cache* new_cache() {
  void* p = mmap(nullptr, sizeof(Cache), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  Cache* c = static_cast<Cache*>(p);
  pthread_setspecific(exit_key, c);
  thread_state.cache = c;
  Locked lock;
  c->next = caches;
  caches = c;
  return c;
}

// ---- allocation
static inline void mark_block(void* p, uint8_t byte) {
  Arena* a = arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
  a->byte[size_t(static_cast<char*>(p) - a->base) >> a->shift] = byte;
}

static void* alloc_small(size_t n) {
  int cls = class_of(n), error = 0;
  Cache* c = thread_state.cache;
  if (!c && !thread_state.gone) c = new_cache();
  Bin local{0, {}};  // a thread that is leaving, or that got no cache
  Locked lock;
  Bin& bin = c ? c->bin[cls] : local;
  sweep(false);
  if (!bin.n && partial[cls] == kNoSpan) maybe_reclaim(0);
  for (int stage = 0; !bin.n && stage <= kStages; ++stage) {
    if (stage) relieve(stage - 1, n);
    error = refill(bin, cls);
  }
  if (!bin.n) return refuse(n, error);
  void* p = bin.item[--bin.n];
  mark_block(p, kPrivate);
  if (!c) flush(local, 0);
  return p;
}

static void* alloc_run(size_t n, bool zero) {
  int pages = int((n + 65535) >> 16), error = 0;
  size_t dirty_first = 0, dirty_end = 0;
  pthread_mutex_lock(&ledger_mutex);
  sweep(false);
  maybe_reclaim(n);
  Arena* a = nullptr;
  int first = -1;
  int claimed = 0;
  for (int stage = 0; stage <= kStages;) {
    for (uint32_t i = 0; i < n_owned[kMedium] && first < 0; ++i) {
      a = arenas[owned[kMedium][i]];
      first = take_pages(a, pages);
    }
    if (first >= 0) {
      if (all_committed(a, first, pages)) break;
      for (int p = first; p < first + pages; ++p) a->page[p] = {kRun, uint16_t(first), uint16_t(pages), 0, 0, 0};
      ++filling;
      pthread_mutex_unlock(&ledger_mutex);
      size_t missing = 0;
      for (int p = first; p < first + pages; ++p) missing += test(a->committed, uint32_t(p)) ? 0 : page_bytes(a);
      error = commit_pages(a, first, pages);
      pthread_mutex_lock(&ledger_mutex);
      --filling;
      if (!error) {
        count_committed(a, missing);
        break;
      }
      size_t still = 0;
      for (int p = first; p < first + pages; ++p) still += test(a->committed, uint32_t(p)) ? 0 : page_bytes(a);
      count_committed(a, missing - still);
      put_pages(a, first, pages);
      first = -1;
      if (error != EDQUOT) {
        a->stuck = true;
        if (!domain.volume_of(a->slot)) avoid_volume0_until = now_ms() + 1000;
        continue;
      }
    } else {
      if (claimed == 0 && now_ms() < avoid_volume0_until) claimed = 1;
      while (claimed < 2 && !claim_arena(kMedium, 1, claimed)) ++claimed;
      if (claimed < 2) {
        ++claimed;
        continue;
      }
    }
    if (stage < kStages) relieve(stage, n), claimed = 0;
    ++stage;
  }
  if (first < 0) {
    pthread_mutex_unlock(&ledger_mutex);
    return refuse(n, error);
  }
  for (int p = first; p < first + pages; ++p) {
    a->page[p] = {kRun, uint16_t(first), uint16_t(pages), 0, 0, 0};
    if (test(a->dirty, uint32_t(p))) {
      size_t at = size_t(p - first) * page_bytes(a);
      if (dirty_end == 0) dirty_first = at;
      dirty_end = at + page_bytes(a);
    }
    set(a->dirty, uint32_t(p));
  }
  uint32_t index = uint32_t(first) * kPageGranules;
  a->byte[index] = kPrivate;
  char* p = a->base + (size_t(index) << a->shift);
  pthread_mutex_unlock(&ledger_mutex);
  if (zero && dirty_first < n) memset(p + dirty_first, 0, std::min(dirty_end, n) - dirty_first);
  return p;
}

static Arena* take_warm(uint32_t length, size_t need) {
  int best = -1;
  for (int i = 0; i < n_warm; ++i) {
    if (warm_huge[i]->length != length) continue;
    if (best < 0) best = i;
    size_t have = warm_huge[i]->nbytes, was = warm_huge[best]->nbytes;
    if (have >= need ? (was < need || have <= was) : (was < need && have > was)) best = i;
  }
  if (best < 0) return nullptr;
  Arena* a = warm_huge[best];
  for (int i = best; i + 1 < n_warm; ++i) warm_huge[i] = warm_huge[i + 1];
  --n_warm;
  return a;
}

static void* alloc_huge(size_t n, bool zero) {
  if (n > (uint64_t(domain.slots / 2) << kSlotShift)) return refuse(n, 0);
  uint32_t length = uint32_t((n + kSlotBytes - 1) >> kSlotShift);
  size_t need = (n + 65535) & ~size_t(65535);
  int error = 0, volume = 0;
  pthread_mutex_lock(&ledger_mutex);
  sweep(false);
  maybe_reclaim(n);
  Arena* a = nullptr;
  for (int stage = 0; stage <= kStages;) {
    a = take_warm(length, need);
    if (!a) {
      if (volume == 0 && now_ms() < avoid_volume0_until) volume = 1;
      for (; volume < 2 && !a; ++volume) a = claim_arena(kHuge, length, volume);
      if (a) a->filling = true;
    }
    if (a) {
      if (a->nbytes >= need) break;
      size_t have = a->nbytes;
      ++filling;
      pthread_mutex_unlock(&ledger_mutex);
      error = commit(a->slot, have, need - have);
      pthread_mutex_lock(&ledger_mutex);
      --filling;
      if (!error) {
        a->nbytes = need;
        count_committed(a, need - have);
        break;
      }
      bool first_volume = !domain.volume_of(a->slot);
      give_slot_back(a);
      a = nullptr;
      if (error != EDQUOT && first_volume) {
        avoid_volume0_until = now_ms() + 1000;
        volume = 1;
        continue;
      }
    }
    if (stage < kStages) relieve(stage, n), volume = 0;
    ++stage;
  }
  if (!a) {
    pthread_mutex_unlock(&ledger_mutex);
    return refuse(n, error);
  }
  size_t dirty = std::min(a->dirty_bytes, n);
  a->dirty_bytes = std::max(a->dirty_bytes, n);
  a->filling = false;
  a->byte[0] = kPrivate;
  pthread_mutex_unlock(&ledger_mutex);
  if (zero && dirty) memset(a->base, 0, dirty);
  return a->base;
}

static void* alloc_slow(size_t n, bool zero) {
  if (!domain_ready() || domain.rowless) return zero ? calloc(1, n) : malloc(n);
  if (n > kLargestRun) return alloc_huge(n, zero);
  if (n > kLargestClass) return alloc_run(n, zero);
  void* p = alloc_small(n);
  if (p && zero) memset(p, 0, n);
  return p;
}

void* heap_alloc(size_t n) {
  if (n == 0) n = 1;
  Cache* c = thread_state.cache;
  if (__builtin_expect(n <= kLargestClass && c != nullptr, 1)) {
    void* p = nullptr;
    if (enter_fast(c)) {
      Bin& bin = c->bin[class_of(n)];
      if (__builtin_expect(bin.n != 0, 1)) {
        p = bin.item[--bin.n];
        mark_block(p, kPrivate);
      }
    }
    leave_fast(c);
    if (__builtin_expect(p != nullptr, 1)) return p;
  }
  return alloc_slow(n, false);
}

void* heap_alloc_zeroed(size_t n) {
  if (n == 0) n = 1;
  if (n > kLargestClass) return alloc_slow(n, true);
  void* p = heap_alloc(n);
  if (p) memset(p, 0, n);
  return p;
}

static void free_slow(void* p) {
  if (domain.rowless) return;  // inherited, frozen
  Cache* c = thread_state.cache;
  Locked lock;
  Arena* a = arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
  uint32_t index = a ? uint32_t(size_t(static_cast<char*>(p) - a->base) >> a->shift) : 0;
  if (a && c && a->part == Part::Own && a->byte[index] == kPrivate && a->kind != kHuge) {
    uint8_t cls = a->page[index / kPageGranules].cls;  // a full bin: half of it goes
    if (cls < kClasses && c->bin[cls].n >= classes[cls].cached) flush(c->bin[cls], classes[cls].cached / 2u);
  }
  if (a && index < a->entries() && a->byte && discard_locked(a, index)) return;
  fprintf(stderr, "shmtensor: free of %p, which is no live block of this process\n", p);
  abort();
}

void heap_free(void* p) {
  Cache* c = thread_state.cache;
  if (__builtin_expect(c != nullptr, 1)) {
    bool done = false;
    if (enter_fast(c)) {
      Arena* a = arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
      if (__builtin_expect(a && a->part == Part::Own && a->kind != kHuge, 1)) {
        uint32_t index = uint32_t(size_t(static_cast<char*>(p) - a->base) >> a->shift);
        uint8_t cls = a->page[index / kPageGranules].cls;
        if (__builtin_expect(a->byte[index] == kPrivate && cls < kClasses, 1)) {
          Bin& bin = c->bin[cls];
          if (__builtin_expect(bin.n < classes[cls].cached, 1)) {
            a->byte[index] = kFree;
            bin.item[bin.n++] = p;
            done = true;
          }
        }
      }
    }
    leave_fast(c);
    if (__builtin_expect(done, 1)) return;
  }
  free_slow(p);
}

size_t heap_size(const void* p) {
  Arena* a = arenas[size_t(static_cast<const char*>(p) - domain.base) >> kSlotShift];
  if (!a || !a->byte) return 0;
  return block_bytes(a, uint32_t(size_t(static_cast<const char*>(p) - a->base) >> a->shift));
}

void* heap_realloc(void* p, size_t n) {
  if (n == 0) n = 1;
  size_t have = heap_size(p);
  if (n <= have && (n >= have / 2 || have <= 4096)) {
    Arena* a = arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
    if (a->kind == kHuge && a->dirty_bytes < n) a->dirty_bytes = n;
    return p;
  }
  void* q = heap_alloc(n);
  if (!q) return nullptr;
  memcpy(q, p, n < have ? n : have);
  heap_free(p);
  return q;
}

// ---- whole-heap operations
size_t heap_trim() {
  Quiesced quiet;
  size_t before = committed_bytes.load(relaxed);
  reclaim();
  for (Cache* c = caches; c; c = c->next)
    for (Bin& bin : c->bin) flush(bin, 0);
  // The empty span that each class keeps goes, too.
  for (int cls = 0; cls < kClasses; ++cls)
    for (uint32_t id = partial[cls]; id != kNoSpan;) {
      Page& span = span_page(id);
      uint32_t next = span.next;
      if (span.nfree == classes[cls].capacity) give_span_back(arenas[id >> 10], int(id & 1023), cls);
      id = next;
    }
  if (!filling) heap_relieve();
  size_t after = committed_bytes.load(relaxed);
  return before > after ? before - after : 0;
}

// In the child of a fork; the mutexes are held, no other thread exists.
void heap_after_fork() {
  for (Cache *c = caches, *next; c; c = next) {
    next = c->next;
    if (c != thread_state.cache) munmap(c, sizeof *c);  // of threads that are not here
  }
  caches = thread_state.cache;
  if (caches) {
    caches->next = nullptr;
    caches->busy.store(0, relaxed);
    for (Bin& bin : caches->bin) bin.n = 0;
  }
  for (uint32_t& n : n_owned) n = 0;
  for (uint32_t& id : partial) id = kNoSpan;
  n_warm = 0;
  filling = 0;
  committed_bytes.store(0, relaxed);
  limbo_blocks = limbo_bytes = 0;
  fenced = !register_membarrier();
  failure.asked = 0;
  headroom_after_fork();
}

void heap_figures(HeapFigures* f) {
  memset(f, 0, sizeof *f);
  for (Kind kind : {kTiny, kMedium, kHuge}) {
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      Arena* a = arenas[owned[kind][i]];
      f->slots[kind] += a->length;
      f->committed += domain.slot[a->slot].committed.load(relaxed);
      if (kind == kHuge) {
        if (a->byte[0] == kFree) f->cached += a->nbytes;
        ++f->blocks[a->byte[0]];
        f->bytes[a->byte[0]] += a->nbytes;
        continue;
      }
      f->cached += idle_bytes(a);
      for (int p = 0; p < kPages;) {
        const Page& page = a->page[p];
        if (page.cls == kNoClass) {
          ++p;
          continue;
        }
        size_t size = block_bytes(a, uint32_t(p) * kPageGranules);
        uint32_t g = page.cls == kRun ? 0 : classes[page.cls].granules, n = page.cls == kRun ? 1 : classes[page.cls].capacity;
        for (uint32_t k = 0; k < n; ++k) {
          uint8_t byte = a->byte[uint32_t(p) * kPageGranules + k * g];
          ++f->blocks[byte];
          f->bytes[byte] += size;
        }
        p += page.npages;
      }
    }
  }
}

// Every invariant of the private side. In the order: slots, pages, blocks, lists, caches, limbo.
bool heap_check(char* text, size_t size) {
#define REQUIRE(condition, ...)                                   \
  if (!(condition)) {                                             \
    int at = snprintf(text, size, "%s: ", #condition);            \
    snprintf(text + at, size - size_t(at), __VA_ARGS__);          \
    return false;                                                 \
  }
  size_t limbo_n = 0, limbo_size = 0, in_caches = 0, handed_out = 0, free_bytes = 0;
  for (Kind kind : {kTiny, kMedium, kHuge}) {
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      uint32_t s = owned[kind][i];
      Arena* a = arenas[s];
      REQUIRE(a && a->part == Part::Own && a->slot == s && a->kind == kind, "slot %u", s);
      SlotWord w = SlotWord::of(domain.slot[s].word.load(acquire));
      REQUIRE(w.state == kSlotLive && w.owner == uint32_t(domain.row) && w.inc == a->inc, "slot %u: state %llu owner %llu", s,
              static_cast<unsigned long long>(w.state), static_cast<unsigned long long>(w.owner));
      REQUIRE(domain.nheld(uint32_t(domain.row), s).load(relaxed) == 0, "slot %u: own slot in own row", s);
      for (uint32_t k = 1; k < a->length; ++k) REQUIRE(arenas[s + k] == a, "slot %u tail %u", s, k);
      uint32_t limbo_here = 0;
      for (uint32_t b = 0; b < a->entries(); ++b) {
        REQUIRE((a->byte[b] == kLimbo) == test(a->limbo, b), "slot %u block %u byte %u", s, b, a->byte[b]);
        limbo_here += a->byte[b] == kLimbo;
        uint32_t counted = count_of(a, b);
        REQUIRE(a->byte[b] != kCounted || counted, "slot %u block %u", s, b);
        REQUIRE(!counted || a->byte[b] == kShared || a->byte[b] == kCounted || a->byte[b] == kFrozen, "slot %u block %u byte %u", s, b,
                a->byte[b]);
      }
      REQUIRE(limbo_here == a->nlimbo, "slot %u: %u != %u", s, limbo_here, a->nlimbo);
      limbo_n += limbo_here;
      if (kind == kHuge) {
        if (a->byte[0] == kLimbo) limbo_size += a->nbytes;
        bool warm = std::find(warm_huge, warm_huge + n_warm, a) != warm_huge + n_warm;
        REQUIRE(warm == (a->byte[0] == kFree) || filling, "slot %u byte %u", s, a->byte[0]);
        REQUIRE(a->nbytes == domain.slot[s].committed.load(relaxed) || filling, "slot %u", s);
        continue;
      }
      uint32_t free_here = 0, committed_here = 0;
      for (int p = 0; p < kPages;) {
        committed_here += test(a->committed, uint32_t(p));
        if (a->page[p].cls == kNoClass) {
          REQUIRE(test(a->free_pages, uint32_t(p)), "slot %u page %d", s, p);
          for (int b = p * kPageGranules; b < (p + 1) * kPageGranules; ++b) REQUIRE(a->byte[b] == kFree, "slot %u block %d", s, b);
          ++free_here;
          ++p;
          continue;
        }
        const Page& span = a->page[p];
        REQUIRE(span.first == p && span.npages > 0 && p + span.npages <= kPages, "slot %u page %d", s, p);
        for (int q = p; q < p + span.npages; ++q) {
          REQUIRE(!test(a->free_pages, uint32_t(q)) && a->page[q].first == p && a->page[q].cls == span.cls, "slot %u page %d", s, q);
          REQUIRE(test(a->committed, uint32_t(q)) || filling, "slot %u page %d in use but not committed", s, q);
          if (q > p) committed_here += test(a->committed, uint32_t(q));
        }
        uint32_t g = span.cls == kRun ? uint32_t(span.npages) * kPageGranules : classes[span.cls].granules, centrally = 0;
        for (uint32_t k = 0; k < uint32_t(span.npages) * kPageGranules; ++k) {
          uint32_t b = uint32_t(p) * kPageGranules + k;
          bool head = k % g == 0 && (span.cls == kRun || k / g < classes[span.cls].capacity);
          REQUIRE(head || a->byte[b] == kFree, "slot %u block %u byte %u inside a block", s, b, a->byte[b]);
          bool central = span.cls != kRun && test(a->central, b);
          REQUIRE(!central || (head && a->byte[b] == kFree), "slot %u block %u byte %u in the free list", s, b, a->byte[b]);
          centrally += central;
          if (head && a->byte[b] != kFree) ++handed_out;
          if (head && a->byte[b] == kLimbo) limbo_size += block_bytes(a, b);
          if (head && a->byte[b] == kFree && !central && span.cls != kRun) ++in_caches;
        }
        REQUIRE(span.cls == kRun || centrally == span.nfree, "slot %u page %d: %u != %u", s, p, centrally, span.nfree);
        p += span.npages;
      }
      REQUIRE(free_here == a->nfree, "slot %u: %u != %u", s, free_here, a->nfree);
      REQUIRE(committed_here * page_bytes(a) == domain.slot[s].committed.load(relaxed) || filling, "slot %u: %zu != %zu", s,
              committed_here * page_bytes(a), size_t(domain.slot[s].committed.load(relaxed)));
      free_bytes += free_here;
    }
  }
  for (Cache* c = caches; c; c = c->next)
    for (int cls = 0; cls < kClasses; ++cls) {
      REQUIRE(c->bin[cls].n <= 64, "class %d", cls);
      for (uint32_t i = 0; i < c->bin[cls].n; ++i) {
        char* p = static_cast<char*>(c->bin[cls].item[i]);
        Arena* a = arenas[size_t(p - domain.base) >> kSlotShift];
        REQUIRE(a && a->byte[size_t(p - a->base) >> a->shift] == kFree, "cached block %p", static_cast<void*>(p));
        --in_caches;
      }
    }
  REQUIRE(in_caches == 0, "%zd blocks are neither used, listed nor cached", ssize_t(in_caches));
  REQUIRE(limbo_n == limbo_blocks && limbo_size == limbo_bytes, "%zu blocks, %zu bytes counted as %zu, %zu", limbo_n, limbo_size,
          limbo_blocks, limbo_bytes);
  for (int cls = 0; cls < kClasses; ++cls)
    for (uint32_t id = partial[cls], before = kNoSpan; id != kNoSpan; before = id, id = span_page(id).next)
      REQUIRE(span_page(id).cls == cls && span_page(id).nfree > 0 && span_page(id).prev == before, "span %u of class %d", id, cls);
  // The shared side of this process: its row's bits are what it holds.
  for (uint32_t s = 0; s < domain.slots; ++s) {
    uint32_t n = domain.nheld(uint32_t(domain.row), s).load(relaxed);
    Arena* a = arenas[s];
    if (!n) {
      REQUIRE(!a || a->part == Part::Own || a->slot != s, "slot %u is recorded, nothing in it is held", s);
      continue;
    }
    REQUIRE(a && a->part != Part::Own, "slot %u has %u holds and no record", s, n);
    SlotWord w = SlotWord::of(domain.slot[s].word.load(acquire));
    REQUIRE(w.inc == a->inc && (w.state == kSlotLive || w.state == kSlotDying), "slot %u: held, but state %llu", s,
            static_cast<unsigned long long>(w.state));
    uint32_t bits = 0;
    for (uint32_t b = 0; b < kBlocks; ++b) {
      bool bit = domain.bits(s, uint32_t(domain.row))[b / 64].load(relaxed) >> (b % 64) & 1;
      bool held = b < a->entries() && ((a->byte && (a->byte[b] == kShared || a->byte[b] == kFrozen)) || count_of(a, b));
      REQUIRE(bit == held, "slot %u block %u: bit %d", s, b, bit);
      bits += bit;
    }
    REQUIRE(bits == n, "slot %u: %u bits, %u counted", s, bits, n);
  }
#undef REQUIRE
  return true;
}

}  // namespace shmtensor
