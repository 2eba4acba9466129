// Private records of slots: creation, lookup by address, removal.
#include "memory/heap/slot_records.h"

#include <sys/mman.h>

#include "memory/heap/address_sanitizer.h"
#include "memory/heap/heap.h"

namespace shmtensor {

static void* map_private(size_t n) {
  void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Note [Cached records]: a receiver that holds one block at a time creates and drops the record of the sender's slot with
// each message, which would take four system calls. So a few dropped records of foreign slots are cached. They have no
// holds, so all counts are zero.
constexpr int kCached = 4;
static Arena* cached[2][kCached];  // index: whether the slot is huge
static int n_cached[2];

// The cache belongs to the process; a test that simulates several processes (a mutex for each) does not use it.
static bool caches_records(const Domain& d) { return d.mutex == &ledger_mutex; }

static Arena* take_cached(bool huge) {
  if (!n_cached[huge]) return nullptr;
  Arena* a = cached[huge][--n_cached[huge]];
  HoldCount* held = a->held;
  size_t allocated = a->allocated;
  memset(static_cast<void*>(a), 0, sizeof *a);
  a->held = held;
  a->allocated = allocated;
  return a;
}

Arena* new_arena(Domain& d, Ownership ownership, uint32_t slot, uint32_t inc, Kind kind, uint32_t length) {
  size_t entries = kind == kHuge ? 64 : kBlocks;
  size_t head = (sizeof(Arena) + 63) & ~size_t(63);
  size_t bitmap = entries / 8;
  size_t pages = kind == kHuge ? 0 : kPages * sizeof(Page);
  size_t n = head;
  if (ownership == Ownership::Own) n += entries + pages + 4 * bitmap;
  Arena* a = ownership == Ownership::Foreign && caches_records(d) ? take_cached(kind == kHuge) : nullptr;
  char* p = reinterpret_cast<char*>(a);
  if (!p) {
    p = static_cast<char*>(map_private(n));
    if (!p) return nullptr;
    a = reinterpret_cast<Arena*>(p);
    a->allocated = n;
  }
  a->domain = &d;
  a->ownership = ownership;
  a->kind = uint8_t(kind);
  a->shift = uint8_t(kShift[kind]);
  a->is_binned = ownership == Ownership::Own && kind != kHuge;
  a->slot = slot;
  a->inc = inc;
  a->length = length;
  a->base = d.slot_base(slot);
  unfence(a->base, size_t(length) << kSlotShift);  // poisoned by an earlier owner of these slots
  if (ownership == Ownership::Own) {
    p += head;
    a->limbo = reinterpret_cast<uint64_t*>(p);
    a->candidate = reinterpret_cast<uint64_t*>(p += bitmap);
    a->in_use = reinterpret_cast<uint64_t*>(p += bitmap);
    a->central = reinterpret_cast<uint64_t*>(p += bitmap);
    p += bitmap;
    if (pages) a->page = reinterpret_cast<Page*>(p);
    a->byte = reinterpret_cast<uint8_t*>(p + pages);
    if (pages) {
      for (int i = 0; i < kPages; ++i) a->page[i].cls = kNoClass;
      memset(a->free_pages, 0xFF, sizeof a->free_pages);
      a->nfree = a->fit = kPages;
    }
  }
  for (uint32_t k = 0; k < length; ++k) d.arenas[slot + k] = a;
  return a;
}

void drop_arena(Arena* a) {
  for (uint32_t k = 0; k < a->length; ++k) a->domain->arenas[a->slot + k] = nullptr;
  bool huge = a->kind == kHuge;
  if (a->ownership == Ownership::Foreign && caches_records(*a->domain) && n_cached[huge] < kCached) {
    cached[huge][n_cached[huge]++] = a;
    return;
  }
  if (a->held) munmap(a->held, a->entries() * sizeof(HoldCount));
  munmap(a, a->allocated);
}

HoldCount* hold_count_at(Arena* a, uint32_t index) {
  if (!a->held) a->held = static_cast<HoldCount*>(map_private(a->entries() * sizeof(HoldCount)));
  return a->held ? &a->held[index] : nullptr;
}

size_t block_bytes(const Arena* a, uint32_t index) {
  if (a->kind == kHuge) return a->nbytes;
  const Page& page = a->page[index / kPageGranules];
  const Page& first = a->page[page.first];
  if (first.cls == kRun) return size_t(first.npages) * kPageGranules << a->shift;
  return size_t(classes[first.cls].granules) << a->shift;
}

// Note [Nearest hold]: in another process's slot, the start of the block around an address is the nearest hold bit of our
// row at or below it: a user of the address holds that block, and blocks do not overlap.
static BlockRef find_by_bits(Arena* a, size_t offset) {
  Domain& d = *a->domain;
  if (d.nheld(uint32_t(d.row), a->slot).load(relaxed) == 0) return {};
  uint32_t index = uint32_t(offset >> a->shift);
  Word* row = d.bits(a->slot, uint32_t(d.row));
  int w = int(index / 64);
  uint64_t word = row[w].load(relaxed) & (~0ull >> (63 - index % 64));
  while (!word && --w >= 0) word = row[w].load(relaxed);
  if (!word) return {};
  index = uint32_t(w) * 64 + 63 - uint32_t(__builtin_clzll(word));
  BlockRef f{a, index, a->base + (size_t(index) << a->shift), 0};
  f.nbytes = count_of(a, index) && a->held[index].units ? size_t(a->held[index].units) * 64
             : a->byte                                  ? block_bytes(a, index)
                                                        : 0;
  return size_t(a->base + offset - f.base) < f.nbytes ? f : BlockRef{};
}

BlockRef find_block(Domain& d, const void* p) {
  size_t offset = size_t(static_cast<const char*>(p) - d.base);
  if (offset >= d.mapped) return {};
  Arena* a = d.arenas[offset >> kSlotShift];
  if (!a) return {};
  offset = size_t(static_cast<const char*>(p) - a->base);
  if (a->ownership != Ownership::Own) return find_by_bits(a, offset);
  if (a->kind == kHuge) {
    if (a->byte[0] == kFree || offset >= a->nbytes) return {};
    return {a, 0, a->base, a->nbytes};
  }
  uint32_t index = uint32_t(offset >> a->shift);
  if (index >= kBlocks) return {};
  const Page& page = a->page[index / kPageGranules];
  if (page.cls == kNoClass) return {};
  uint32_t first = uint32_t(page.first) * kPageGranules;
  if (page.cls == kRun) {
    index = first;
  } else {
    const SizeClass& c = classes[page.cls];
    index = first + c.blocks_in(index - first) * c.granules;
  }
  if (a->byte[index] == kFree) return {};
  return {a, index, a->base + (size_t(index) << a->shift), block_bytes(a, index)};
}

}  // namespace shmtensor
