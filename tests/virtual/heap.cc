// The heap of one process under ThreadSanitizer: threads allocate, write, hand blocks to each other, free each other's
// blocks, resize, share and take back, while others trim, and threads come and go.
//
// The fast path has no lock (Note [Fast path] in memory/heap/heap.cc): a thread's cache is its own until somebody who has set
// `stop`, and waited until no cache is busy, empties it. ThreadSanitizer sees whether `busy` and `stop` order the two; the
// fence between them (membarrier) it does not see, and executes for real.
//
// usage: heap SECONDS SEED      exit 0, 1: an invariant is broken, 66: a data race
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

bool fault_armed = false;
void fault_hit(const char*) {}

using Clock = std::chrono::steady_clock;
constexpr uint32_t kSlots = 64;
constexpr int kThreads = 4, kCells = 32;

#define REQUIRE(condition, ...)                               \
  do {                                                        \
    if (!(condition)) fprintf(stderr, __VA_ARGS__), _exit(1); \
  } while (0)

struct Block {
  char* base;
  size_t nbytes;
  uint8_t tag;
};

struct Cell {
  std::atomic<int> state{0};  // 0 empty, 1 being written or read, 2 full
  Block block;
};
static Cell cells[kCells];

static void create() {
  domain.volume[0] = memfd_create("volume0", 0);
  domain.volume[1] = memfd_create("volume1", 0);
  domain.control = memfd_create("control", 0);
  bool sized = ftruncate(domain.control, off_t(Areas(kSlots).size)) == 0;
  for (int v : domain.volume) sized &= ftruncate(v, off_t(kSlots / 2 * kSlotBytes)) == 0;
  REQUIRE(sized, "no files\n");
  const char* bad = map_domain(domain, kSlots);
  REQUIRE(!bad, "%s\n", bad);
  Header* h = domain.header;
  h->version = kLayoutVersion, h->rows = kRows, h->slots = kSlots, h->blocks = kBlocks;
  memset(domain.id, 7, sizeof domain.id);
  bad = enter(domain);
  REQUIRE(!bad, "%s\n", bad);
  register_cache_exit();
}

static size_t draw_size(std::mt19937& dice) {
  uint32_t what = dice() % 100;
  if (what < 60) return 1 + dice() % 1024;
  if (what < 90) return 1 + dice() % (32 << 10);
  if (what < 99) return 1 + dice() % (1 << 20);
  return (16 << 20) + dice() % (8 << 20);
}
// Both ends and something between, so that a large block costs no more than a small one.
static void fill(const Block& b) {
  for (size_t i = 0; i < b.nbytes; i += b.nbytes < 4096 ? 1 : 4093) b.base[i] = char(b.tag);
  b.base[b.nbytes - 1] = char(b.tag);
}
static void verify(const Block& b) {
  for (size_t i = 0; i < b.nbytes; i += b.nbytes < 4096 ? 1 : 4093)
    REQUIRE(uint8_t(b.base[i]) == b.tag, "byte %zu of %p is %d, not %d\n", i, (void*)b.base, b.base[i], b.tag);
  REQUIRE(uint8_t(b.base[b.nbytes - 1]) == b.tag, "the last byte of %p\n", (void*)b.base);
}

static void live(uint32_t seed, Clock::time_point end, size_t* acts) {
  std::mt19937 dice(seed);
  std::vector<Block> mine;
  while (Clock::now() < end && *acts % 5000 != 4999) {
    ++*acts;
    uint32_t what = dice() % 100;
    if (mine.size() > 60 && what < 40) what = 70;
    if (what < 40) {
      Block b{nullptr, draw_size(dice), uint8_t(dice())};
      b.base = static_cast<char*>(heap_alloc(b.nbytes));
      REQUIRE(b.base, "no memory for %zu\n", b.nbytes);
      fill(b);
      mine.push_back(b);
    } else if (what < 55) {
      Cell& cell = cells[dice() % kCells];
      int full = 2;
      if (!cell.state.compare_exchange_strong(full, 1, std::memory_order_acquire)) continue;
      mine.push_back(cell.block);
      cell.state.store(0, std::memory_order_release);
    } else if (mine.empty()) {
      continue;
    } else if (what < 70) {
      Cell& cell = cells[dice() % kCells];
      int empty = 0;
      if (!cell.state.compare_exchange_strong(empty, 1, std::memory_order_acquire)) continue;
      cell.block = mine.back();
      mine.pop_back();
      cell.state.store(2, std::memory_order_release);
    } else if (what < 94) {
      size_t i = dice() % mine.size();
      Block b = mine[i];
      mine[i] = mine.back();
      mine.pop_back();
      verify(b);
      heap_free(b.base);
    } else if (what < 97) {
      Block& b = mine[dice() % mine.size()];
      verify(b);
      size_t n = draw_size(dice);
      b.base = static_cast<char*>(heap_realloc(b.base, n));
      REQUIRE(b.base, "no memory for %zu\n", n);
      b.nbytes = n;
      fill(b);
    } else if (what < 99) {  // a message to nobody: shared from now on, its way is limbo and reclaim
      Handle handle;
      const char* why = nullptr;
      {
        Locked lock;
        REQUIRE(export_locked(domain, find_block(domain, mine.back().base), {}, &handle, &why, now_ms()) == Outcome::Good,
                "export: %s\n", why ? why : "");
      }
      acknowledge(domain, handle);
    } else {
      heap_trim();
    }
  }
  for (const Block& b : mine) heap_free(b.base);
}

static int run(double seconds, uint32_t seed) {
  create();
  auto end = Clock::now() + std::chrono::milliseconds(long(seconds * 1000));
  std::vector<std::thread> threads;
  size_t acts[kThreads] = {}, all = 0;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([=, &acts] {
      for (uint32_t turn = 0; Clock::now() < end; ++turn) {  // a thread leaves now and then, its cache with it
        ++acts[i];
        std::thread(live, seed + uint32_t(i) * 1000003 + turn, end, &acts[i]).join();
      }
    });
  for (auto& thread : threads) thread.join();
  for (Cell& cell : cells)
    if (cell.state.load() == 2) verify(cell.block), heap_free(cell.block.base);
  heap_trim();
  size_t left = committed_bytes.load();
  REQUIRE(left <= (1 << 20), "%zu bytes are committed when all is freed\n", left);
  for (size_t n : acts) all += n;
  printf("heap, seed %u: %zu acts: no race\n", seed, all);
  return 0;
}

}  // namespace shmtensor

int main(int n, char** arguments) {
  double seconds = n > 1 ? atof(arguments[1]) : 20;
  return shmtensor::run(seconds, uint32_t(n > 2 ? atol(arguments[2]) : time(nullptr)));
}
