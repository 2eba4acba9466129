// The allocator: size classes in spans of tiny and medium slots, runs of pages, huge blocks of
// whole slots, thread caches.
//
//   <= 1 KiB     tiny slot, granules of 64 B, 16 classes      a span holds blocks of one class
//   <= 256 KiB   medium slot, granules of 1 KiB, 27 classes   page = 64 granules, a bitmap word
//   <= 16 MiB    medium slot, a run of whole pages
//   beyond       huge: whole slots, committed to the size; freed ones are kept warm up to a bound
//
// Note [Fast path]: a thread marks its cache busy (plain store), loads `stop`, and only then accesses its bins and the
// byte map: 0 <-> 1 of blocks that no other thread knows. No lock, no atomic read-modify-write, no system call. An
// operation that needs constant byte maps (fork, check, trim) sets `stop`, orders all running threads by membarrier(),
// and waits until no cache is busy; if the kernel has no membarrier, the fast path executes a fence.
// `domain.arenas[slot]` and a page's class are written before its first block is allocated, so every user of an address
// sees them.
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/address_sanitizer.h"
#include "memory/heap/memory_limits.h"
#include "memory/heap/own_slots.h"

namespace shmtensor {

// ---- thread caches
__thread Thread thread_state = {0, false, nullptr};
Cache* caches = nullptr;  // ledger mutex
// The word that the fast path loads: 0 permits it. kFenced is permanent without membarrier.
constexpr uint32_t kStop = 1, kFenced = 2;
static Half stop{0};
static uint32_t fenced = 0;  // kFenced or 0
static pthread_key_t exit_key;

static inline bool enter_fast(Cache* c) {
  c->busy.store(1, relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (__builtin_expect(stop.load(acquire) == 0, 1)) return true;
  if (!fenced) return false;
  fence();
  return (stop.load(acquire) & kStop) == 0;
}
static inline void leave_fast(Cache* c) { c->busy.store(0, release); }

static void register_membarrier() {
  bool is_there = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  fenced = is_there ? 0 : kFenced;
}

void quiesce() {
  pthread_mutex_lock(&fork_mutex);
  pthread_mutex_lock(&ledger_mutex);
  stop.store(kStop | fenced, relaxed);
  fence();
  if (!fenced) syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (Cache* c = caches; c; c = c->next)
    while (c->busy.load(acquire)) sched_yield();
}
void resume() {
  stop.store(fenced, release);
  pthread_mutex_unlock(&ledger_mutex);
  pthread_mutex_unlock(&fork_mutex);
}
Quiesced::Quiesced() { quiesce(); }
Quiesced::~Quiesced() { resume(); }

static void leave_thread(void* cache) {
  Cache* c = static_cast<Cache*>(cache);
  thread_state.is_exiting = true;
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
  register_membarrier();
  stop.store(fenced, release);  // nobody allocates yet
  for (uint32_t& id : partial) id = kNoSpan;
  domain.return_block = heap_return;
}

static Cache* new_cache() {
  void* p = mmap(nullptr, sizeof(Cache), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  Cache* c = static_cast<Cache*>(p);
  for (int cls = 0; cls < kClasses; ++cls) c->bin[cls].capacity = classes[cls].cached;
  pthread_setspecific(exit_key, c);
  thread_state.cache = c;
  Locked lock;
  c->next = caches;
  caches = c;
  return c;
}

// ---- allocation
static inline void* fenced_off([[maybe_unused]] size_t n, void* p) {
#if defined(__SANITIZE_ADDRESS__)
  if (p && in_volumes(p)) fence_off(p, n, heap_size(p));
#endif
  return p;
}

static inline void mark_block(void* p, uint8_t byte) {
  Arena* a = domain.arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
  a->byte[size_t(static_cast<char*>(p) - a->base) >> a->shift] = byte;
}

static void* alloc_small(size_t n) {
  int cls = class_of(n), error = 0;
  Cache* c = thread_state.cache;
  if (!c && !thread_state.is_exiting) c = new_cache();
  Bin local{0, 0, {}};  // for an exiting thread or one without cache
  Locked lock;
  Bin& bin = c ? c->bin[cls] : local;
  sweep_all(false);
  answer_call();
  if (!bin.n && partial[cls] == kNoSpan) maybe_reclaim(domain, 0);
  for (int stage = 0; !bin.n && stage <= kStages; ++stage) {
    if (stage) relieve(stage - 1, n);
    error = refill(bin, cls);
  }
  if (!bin.n) return refuse(n, error);
  fault("allocate.refilled");
  void* p = bin.item[--bin.n];
  mark_block(p, kPrivate);
  if (!c) flush(local, 0);
  return p;
}

__attribute__((noinline)) static void* alloc_slow(size_t n, bool zero) {
  if (n == 0) n = 1;
  if (!domain_ready() || domain.rowless) return zero ? calloc(1, n) : malloc(n);
  if (n > kLargestRun) return alloc_huge(n, zero);
  if (n > kLargestClass) return alloc_run(n, zero);
  void* p = alloc_small(n);
  if (p && zero) memset(unfence(p, n), 0, n);
  return p;
}

__attribute__((hot)) void* heap_alloc(Thread& thread, size_t n) {
  Cache* c = thread.cache;
  if (__builtin_expect(n - 1 < kLargestClass && c != nullptr, 1)) {  // 0 goes the slow way
    if (enter_fast(c)) {
      Bin& bin = c->bin[class_of(n)];
      if (__builtin_expect(bin.n != 0, 1)) {
        void* p = bin.item[--bin.n];
        mark_block(p, kPrivate);
        leave_fast(c);
        return fenced_off(n, p);
      }
    }
    leave_fast(c);
  }
  return fenced_off(n, alloc_slow(n, false));
}

void* heap_alloc_zeroed(size_t n) {
  if (n == 0) n = 1;
  if (n > kLargestClass) return fenced_off(n, alloc_slow(n, true));
  void* p = heap_alloc(n);
  if (p) memset(p, 0, n);
  return p;
}

__attribute__((noinline)) static void free_slow(void* p) {
  if (domain.rowless) return;  // inherited, frozen
  Cache* c = thread_state.cache;
  Locked lock;
  Arena* a = domain.arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
  uint32_t index = a ? uint32_t(size_t(static_cast<char*>(p) - a->base) >> a->shift) : 0;
  if (a && c && a->ownership == Ownership::Own && a->byte[index] == kPrivate && a->kind != kHuge) {
    uint8_t cls = a->page[index / kPageGranules].cls;  // a full bin: half of it goes
    if (cls < kClasses && c->bin[cls].n >= c->bin[cls].capacity) flush(c->bin[cls], c->bin[cls].capacity / 2u);
  }
  if (a && index < a->entries() && a->byte && discard_locked(a, index)) return;
  fprintf(stderr, "shmtensor: free of %p, which is no live block of this process\n", p);
  abort();
}

__attribute__((hot)) void heap_free(void* p) {
  Cache* c = thread_state.cache;
  if (__builtin_expect(c != nullptr, 1)) {
    if (enter_fast(c)) {
      Arena* a = domain.arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
      if (__builtin_expect(a && a->is_binned, 1)) {
        size_t index = size_t(static_cast<char*>(p) - a->base) >> a->shift;
        uint8_t cls = a->page[index / kPageGranules].cls;
        if (__builtin_expect(a->byte[index] == kPrivate && cls < kClasses, 1)) {
          Bin& bin = c->bin[cls];
          if (__builtin_expect(bin.n < bin.capacity, 1)) {
            a->byte[index] = kFree;
            bin.item[bin.n++] = p;
            leave_fast(c);
            return;
          }
        }
      }
    }
    leave_fast(c);
  }
  free_slow(p);
}

size_t heap_size(const void* p) {
  Arena* a = domain.arenas[size_t(static_cast<const char*>(p) - domain.base) >> kSlotShift];
  if (!a || !a->byte) return 0;
  return block_bytes(a, uint32_t(size_t(static_cast<const char*>(p) - a->base) >> a->shift));
}

void* heap_realloc(void* p, size_t n) {
  if (n == 0) n = 1;
  size_t size = heap_size(p);
  if (n <= size && (n >= size / 2 || size <= 4096)) {
    Arena* a = domain.arenas[size_t(static_cast<char*>(p) - domain.base) >> kSlotShift];
    if (a->kind == kHuge && a->dirty_bytes < n) a->dirty_bytes = n;
    return fenced_off(n, p);
  }
  void* q = heap_alloc(n);
  if (!q) return nullptr;
  memcpy(q, unfence(p, size), n < size ? n : size);
  heap_free(p);
  return q;
}

// ---- whole-heap operations
size_t heap_trim() {
  Quiesced quiet;
  size_t before = committed_bytes.load(relaxed);
  reclaim(domain);
  for (Cache* c = caches; c; c = c->next)
    for (Bin& bin : c->bin) flush(bin, 0);
  fault("trim.flushed");
  // Also returns the empty span that each class keeps.
  for (int cls = 0; cls < kClasses; ++cls)
    for (uint32_t id = partial[cls]; id != kNoSpan;) {
      Page& span = span_page(id);
      uint32_t next = span.next;
      if (span.nfree == classes[cls].capacity) give_span_back(domain.arenas[id >> 10], int(id & 1023), cls);
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
    if (c != thread_state.cache) munmap(c, sizeof *c);  // of threads that do not exist in the child
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
  domain.limbo_blocks = domain.limbo_bytes = 0;
  register_membarrier();  // `stop` is set: resume() applies the result
  clear_failure();
  headroom_after_fork();
}

}  // namespace shmtensor
