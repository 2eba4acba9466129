// The ledger as several virtual processes in threads of one, for ThreadSanitizer, which cannot see
// across processes.
//
//   virtual process = a Domain record of its own (row, lock, entries in flight, private side, ledger mutex) over
//                     one mapping that all share, two threads, and a death at any fault point
//
// Its threads allocate, write, send, receive, read, drop, free, reclaim, sweep, trim and take a lock
// of ipc/lock/lock.h. A death is an exception thrown at a fault point: everything stays as it was in
// shared memory, the record is never used again, the row's lock goes. ThreadSanitizer then says
// whether every access to a block happens before the next use of that block, by the memory orders of
// the shared words alone. What the kernel orders in real life is told to it: a lock on a row's byte
// is taken after its holder let go (fcntl below), a message is received after it was sent.
//
// With them goes a channel (channel.cc here): its own sources, over the blocks of these processes.
// Not here: forks (a real address space is copied), the heap's fast path (heap.cc here). Fences are not seen by ThreadSanitizer: the explorer
// in tests/protocol/weak.py is for those.
//
// usage: ledger SECONDS SEED      exit 0, 1: an invariant is broken, 66: a data race
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/domain/guest.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "ipc/lock/lock.h"
#include "virtual.h"

extern "C" {
void __tsan_acquire(void*);
void __tsan_release(void*);
int __real_fcntl(int fd, int command, ...);
int __real_fcntl64(int fd, int command, ...);

// The kernel's order: who takes a byte comes after who let go of it, or died.
static char byte_of_row[shmtensor::kRows + 1];
static int ordered(int (*real)(int, int, ...), int fd, int command, void* argument) {
  struct flock* lock = static_cast<struct flock*>(argument);
  bool is_lock = command == F_OFD_SETLK || command == F_OFD_GETLK;
  char* byte = is_lock ? &byte_of_row[lock->l_start] : nullptr;
  if (command == F_OFD_SETLK && lock->l_type == F_UNLCK) __tsan_release(byte);
  int result = real(fd, command, argument);
  if (is_lock && result == 0 && (command == F_OFD_SETLK || lock->l_type == F_UNLCK)) __tsan_acquire(byte);
  return result;
}
int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return ordered(__real_fcntl, fd, command, argument);
}
int __wrap_fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return ordered(__real_fcntl64, fd, command, argument);
}
}

namespace shmtensor {

using Clock = std::chrono::steady_clock;
constexpr int kProcesses = 4, kThreads = 2, kCells = 64;
constexpr uint32_t kSlots = 32, kPagesUsed = 4, kWords = 32;
constexpr uint32_t kClass[2] = {3, 15}, kGranules[2] = {4, 16};  // blocks of 256 B; of 1 KiB, for the channel

struct Death {};
struct Process;
static thread_local Process* here_now = nullptr;
static thread_local std::mt19937* dice = nullptr;
static thread_local long life_left = 0;  // fault points until this thread dies; 0: never

#define REQUIRE(condition, ...)                          \
  do {                                                   \
    if (!(condition)) {                                  \
      fprintf(stderr, "%s: ", #condition);               \
      fprintf(stderr, __VA_ARGS__), fputc('\n', stderr); \
      _exit(1);                                          \
    }                                                    \
  } while (0)

// ---- messages: from one thread to one other, ordered by nothing but the cell
struct Letter {
  Handle handle;
  uint64_t tag;
};
struct Cell {
  std::atomic<int> state{0};  // 0 empty, 1 being written or read, 2 full
  Letter letter;
};
static Cell cells[kCells];

// A lock of ipc/lock/lock.h and what it guards.
static LockWord guard;
static uint64_t guarded = 0;

struct Process {
  Domain* d;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> dead{false};
  std::vector<std::pair<Arena*, uint32_t>> spare[2];  // free blocks of each class; under the mutex
  Traffic* traffic = nullptr;
  std::vector<Arena*> arenas;
  size_t acts[2] = {0, 0};
};

static int class_at(Arena* a, uint32_t index) { return a->page[index / kPageGranules].cls == kClass[1]; }
static void return_block(Arena* a, uint32_t index) { here_now->spare[class_at(a, index)].push_back({a, index}); }

// ---- a virtual process is born and ends
static Process* born() {
  Process* p = new Process;
  p->d = new_domain();
  Domain& d = *p->d;
  memcpy(d.id, domain.id, sizeof d.id);
  d.control = domain.control;
  d.volume[0] = domain.volume[0], d.volume[1] = domain.volume[1];
  d.slots = domain.slots;
  d.control_base = domain.control_base;
  d.header = domain.header, d.rows = domain.rows, d.slot = domain.slot;
  d.nheld_base = domain.nheld_base, d.nheld_stride = domain.nheld_stride;
  d.words = domain.words, d.bits_base = domain.bits_base, d.in_flight = domain.in_flight;
  d.base = domain.base, d.mapped = d.shared = domain.mapped;
  d.mutex = &p->mutex;
  d.return_block = return_block;
  d.local = new_local_ledger();
  d.lock = open_description(d);
  struct stat st;
  fstat(d.lock, &st);
  d.lock_dev = st.st_dev, d.lock_ino = st.st_ino;
  here_now = p;
  d.row = claim_row(d, d.lock, kRowLive);
  here_now = nullptr;
  REQUIRE(d.row >= 0, "no row");
  d.inc = inc_of_row(d.rows[d.row].state.load(relaxed));
  d.ready.store(true, release);
  here_now = p;
  p->traffic = new_traffic();
  here_now = nullptr;
  return p;  // pid stays 0: all are one pid, alive as long as the lock is held
}

static void died(Process* p) {
  Domain& d = *p->d;
  drop_traffic(p->traffic);
  for (uint32_t s = 0; s < d.slots; ++s)
    if (d.arenas[s]) drop_arena(d.arenas[s]);
  drop_local_ledger(d.local);
  __tsan_release(&byte_of_row[d.row]);
  close(d.lock);
  munmap(p->d, sizeof *p->d);
  delete p;
}

// ---- what a thread does
struct Block {
  uint64_t* base;
  uint64_t tag;
  bool own;
};

static void verify(const Block& b) {
  for (uint32_t i = 0; i < kWords; ++i)
    REQUIRE(b.base[i] == b.tag, "word %u of %p is %#llx, not %#llx", i, (void*)b.base, (unsigned long long)b.base[i],
            (unsigned long long)b.tag);
}

static bool grow(Process* p, int cls) {
  Domain& d = *p->d;
  if (p->arenas.size() == 4) return false;
  int s = claim_slots(d, 1, int((*dice)() % 2), kTiny);
  if (s < 0) return false;
  publish_slots(d, uint32_t(s));
  uint32_t inc = uint32_t(SlotWord::of(d.slot[s].word.load(relaxed)).inc);
  Arena* a = new_arena(d, Ownership::Own, uint32_t(s), inc, kTiny, 1);
  size_t bytes = size_t(kPagesUsed) * kPageGranules * 64;
  REQUIRE(commit(d, uint32_t(s), 0, bytes) == 0, "no memory");
  d.slot[s].committed.store(bytes, relaxed);
  for (uint32_t page = 0; page < kPagesUsed; ++page) {
    a->page[page].cls = uint8_t(kClass[cls]);
    a->page[page].first = uint16_t(page);
    a->page[page].npages = 1;
  }
  for (uint32_t i = 0; i < kPagesUsed * kPageGranules; i += kGranules[cls]) p->spare[cls].push_back({a, i});
  p->arenas.push_back(a);
  return true;
}

// A block of a class; nullptr: no room.
static void* allocate(Process* p, int cls) {
  Domain& d = *p->d;
  Locked lock(d);
  auto& spare = p->spare[cls];
  if (spare.empty()) reclaim(d);
  if (spare.empty() && !grow(p, cls)) return nullptr;
  auto [a, index] = spare.back();
  spare.pop_back();
  REQUIRE(a->byte[index] == kFree, "block %u has byte %d", index, a->byte[index]);
  a->byte[index] = cls ? kShared : kPrivate;
  return a->base + (size_t(index) << a->shift);
}

static void make(Process* p, std::vector<Block>& mine) {
  Block b{static_cast<uint64_t*>(allocate(p, 0)), uint64_t((*dice)()) << 32 | (*dice)(), true};
  if (!b.base) return;
  for (uint32_t i = 0; i < kWords; ++i) b.base[i] = b.tag;
  mine.push_back(b);
}

static void send(Process* p, const Block& b) {
  Letter letter{{}, b.tag};
  {
    Locked lock(*p->d);
    const char* why = nullptr;
    Outcome outcome = export_locked(*p->d, find_block(*p->d, b.base), {}, &letter.handle, &why, now_ms());
    REQUIRE(outcome == Outcome::Good, "export: %d %s", int(outcome), why ? why : "");
  }
  for (int k = 0; k < 8; ++k) {
    Cell& cell = cells[(*dice)() % kCells];
    int empty = 0;
    if (!cell.state.compare_exchange_strong(empty, 1, std::memory_order_acquire)) continue;
    cell.letter = letter;
    cell.state.store(2, std::memory_order_release);
    return;
  }
  acknowledge(*p->d, letter.handle);
}

static void receive(Process* p, std::vector<Block>& mine) {
  Cell& cell = cells[(*dice)() % kCells];
  int full = 2;
  if (!cell.state.compare_exchange_strong(full, 1, std::memory_order_acquire)) return;
  Letter letter = cell.letter;
  cell.state.store(0, std::memory_order_release);
  void* base = nullptr;
  const char* why = nullptr;
  Outcome outcome;
  {
    Locked lock(*p->d);
    outcome = hold_locked(*p->d, letter.handle, &base, &why);
  }
  if (outcome == Outcome::Stale) return;  // expired
  REQUIRE(outcome == Outcome::Good, "receive: %d %s", int(outcome), why ? why : "");
  if ((*dice)() % 16) acknowledge(*p->d, letter.handle);  // or it expires
  mine.push_back({static_cast<uint64_t*>(base), letter.tag, false});
  verify(mine.back());
}

static void let_go(Process* p, std::vector<Block>& mine) {
  size_t i = (*dice)() % mine.size();
  Block b = mine[i];
  mine[i] = mine.back();
  mine.pop_back();
  verify(b);
  Locked lock(*p->d);
  if (b.own) {
    BlockRef found = find_block(*p->d, b.base);
    REQUIRE(found.arena && discard_locked(found.arena, found.index), "free of %p", (void*)b.base);
  } else {
    REQUIRE(drop_locked(*p->d, b.base), "drop of %p", (void*)b.base);
  }
}

static void trim(Process* p) {
  Domain& d = *p->d;
  Locked lock(d);
  reclaim(d);
  for (size_t i = 0; i < p->arenas.size(); ++i) {
    Arena* a = p->arenas[i];
    size_t n = 0;
    int cls = class_at(a, 0);
    for (auto& [arena, index] : p->spare[cls]) n += arena == a;
    if (n < kPagesUsed * kPageGranules / kGranules[cls]) continue;
    std::vector<std::pair<Arena*, uint32_t>> rest;
    for (auto& block : p->spare[cls])
      if (block.first != a) rest.push_back(block);
    p->spare[cls] = rest;
    p->arenas.erase(p->arenas.begin() + long(i));
    uint32_t slot = a->slot;
    drop_arena(a);
    release_slots(d, slot, 1, false);
    return;
  }
}

static void count_guarded(Process* p) {
  Peer me{p->d->row, p->d->inc}, lost{};
  LockResult taken = take_lock(&guard, me, 0.05, &lost);
  if (taken == LockResult::HolderLost) taken = recover_lock(&guard, me, 0.05, &lost);
  if (taken != LockResult::Ok) return;
  ++guarded;
  free_lock(&guard);
}

static void live(Process* p, uint32_t seed, int number, Clock::time_point end) {
  std::mt19937 random(seed);
  dice = &random;
  here_now = p;
  life_left = random() % 3 ? long(random() % 4000) + 1 : 0;
  std::vector<Block> mine;
  try {
    while (Clock::now() < end && !p->dead.load(relaxed)) {
      ++p->acts[number];
      uint32_t what = random() % 100;
      if (mine.size() > 40 && what < 80) what = 60;
      if (what < 10) {
        traffic(p->traffic, random);
      } else if (what < 26) {
        make(p, mine);
      } else if (what < 42) {
        if (!mine.empty()) send(p, mine[random() % mine.size()]);
      } else if (what < 60) {
        receive(p, mine);
      } else if (what < 85) {
        if (!mine.empty()) let_go(p, mine);
      } else if (what < 90) {
        Locked lock(*p->d);
        reclaim(*p->d);
      } else if (what < 93) {
        Locked lock(*p->d);
        sweep(*p->d, true);
      } else if (what < 95) {
        trim(p);
      } else if (what < 96) {
        Locked lock(*p->d);
        expire_messages(*p->d, true, 0);
      } else {
        count_guarded(p);
      }
    }
  } catch (Death&) {
    p->dead.store(true, relaxed);
  }
  dying = false;
  life_left = 0;
  here_now = nullptr;
}

// ---- fault points: here a process dies
bool fault_armed = true;
void fault_hit(const char*) {
  if (!here_now || !life_left || dying) return;
  die_if(here_now->dead.load(relaxed) || --life_left == 0);
}

// ---- what the channel needs of its process (virtual.h)
thread_local bool dying = false;
void die_if(bool now) {
  if (!now) return;
  dying = true;  // what is unwound now leaves shared memory as it is
  here_now->dead.store(true, relaxed);
  throw Death();
}
bool somebody_died() { return here_now && here_now->dead.load(relaxed); }
Domain* here_domain() { return here_now && !dying ? here_now->d : nullptr; }
void* allocate_here(size_t nbytes) { return allocate(here_now, nbytes > 256 || nbytes == 0); }
void free_here(void* base) {
  Domain* d = here_domain();
  if (!d) return;
  Locked lock(*d);
  BlockRef found = find_block(*d, base);
  REQUIRE(found.arena && discard_locked(found.arena, found.index), "free of %p", base);
}

static void create_domain() {
  domain.volume[0] = memfd_create("volume0", 0);
  domain.volume[1] = memfd_create("volume1", 0);
  domain.control = memfd_create("control", 0);
  bool sized = ftruncate(domain.control, off_t(Areas(kSlots).size)) == 0;
  for (int v : domain.volume) sized &= ftruncate(v, off_t(kSlots / 2 * kSlotBytes)) == 0;
  REQUIRE(sized, "no files");
  const char* bad = map_domain(domain, kSlots);
  REQUIRE(!bad, "%s", bad);
  domain.return_block = return_block;
  Header* h = domain.header;
  h->version = kLayoutVersion, h->rows = kRows, h->slots = kSlots, h->blocks = kBlocks;
  memset(domain.id, 7, sizeof domain.id);
  bad = enter(domain);
  REQUIRE(!bad, "%s", bad);
}

// Everybody is gone: everything comes back.
static void settle() {
  unread_grace_ms = dead_grace_ms = 0;
  for (int k = 0; k < 4; ++k) {
    Locked lock;
    usleep(5000);
    sweep(domain, true);
  }
  for (uint32_t s = 0; s < kSlots; ++s) {
    SlotWord w = SlotWord::of(domain.slot[s].word.load());
    REQUIRE(w.state == kSlotFree, "slot %u is left in state %d of %d", s, int(w.state), int(w.owner));
  }
  for (uint32_t r = 0; r < domain.row_high(); ++r) {
    REQUIRE(int(r) == domain.row || state_of_row(domain.rows[r].state.load()) == kRowFree, "row %u is left", r);
    for (uint32_t s = 0; s < kSlots; ++s) REQUIRE(domain.nheld(r, s).load() == 0, "row %u holds in slot %u", r, s);
    for (uint32_t i = 0; i < domain.rows[r].in_flight_high.load(); ++i)
      REQUIRE(!(domain.entry(r, i).word.load() & 1), "entry %u of row %u is pending", i, r);
  }
}

static void lives(uint32_t seed, Clock::time_point end, size_t* acts, size_t* deaths) {
  for (; Clock::now() < end; ++seed) {
    Process* p = born();
    std::thread other(live, p, seed * 2 + 1, 1, end);
    live(p, seed * 2, 0, end);
    other.join();
    *acts += p->acts[0] + p->acts[1];
    *deaths += p->dead;
    died(p);
  }
}

// Makes the channel and outlives the others.
static Process* born_founder() {
  static std::mt19937 random(1);
  dice = &random;
  Process* p = born();
  here_now = p;
  open_channel(p->traffic);
  here_now = nullptr;
  return p;
}

static int run(double seconds, uint32_t seed) {
  create_domain();
  unread_grace_ms = 20, dead_grace_ms = 20;
  Process* founder = born_founder();
  auto end = Clock::now() + std::chrono::milliseconds(long(seconds * 1000));
  std::vector<std::thread> threads;
  size_t acts[kProcesses] = {}, deaths[kProcesses] = {}, all[2] = {};
  for (int i = 0; i < kProcesses; ++i) threads.emplace_back(lives, seed + uint32_t(i) * 1000003, end, &acts[i], &deaths[i]);
  for (auto& thread : threads) thread.join();
  here_now = founder;
  size_t messages = close_channel(founder->traffic);
  trim(founder);
  here_now = nullptr;
  died(founder);
  settle();
  for (int i = 0; i < kProcesses; ++i) all[0] += acts[i], all[1] += deaths[i];
  printf("seed %u: %zu acts, %zu deaths, %zu messages through the channel, the lock was taken %llu times: no race\n", seed,
         all[0], all[1], messages, (unsigned long long)guarded);
  return 0;
}

}  // namespace shmtensor

int main(int n, char** arguments) {
  double seconds = n > 1 ? atof(arguments[1]) : 20;
  return shmtensor::run(seconds, uint32_t(n > 2 ? atol(arguments[2]) : time(nullptr)));
}
