// Private records of slots: made, found by address, dropped.
#include "memory/heap/slot_records.h"

#include <sys/mman.h>

#include "memory/heap/address_sanitizer.h"
#include "memory/heap/heap.h"

namespace shmtensor {

static void* map_private(size_t n) {
  void* p =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Note [Kept records]: a receiver that holds one block at a time makes and drops the record of the
// sender's slot with each message, which would be four system calls. So a few dropped records of
// foreign slots are kept for the next one. Nothing is held there any more, so all counts are zero.
constexpr int kKept = 4;
static Arena* kept[2][kKept];  // by whether the slot is a huge one
static int n_kept[2];

// They are this process's; who plays several processes has a mutex for each, and keeps none.
static bool keeps(const Domain& d) { return d.mutex == &ledger_mutex; }

static Arena* take_kept(bool huge) {
  if (!n_kept[huge]) return nullptr;
  Arena* a = kept[huge][--n_kept[huge]];
  Held* held = a->held;
  size_t allocated = a->allocated;
  memset(static_cast<void*>(a), 0, sizeof *a);
  a->held = held;
  a->allocated = allocated;
  return a;
}

Arena* new_arena(Domain& d, Part part, uint32_t slot, uint32_t inc, Kind kind, uint32_t length) {
  size_t entries = kind == kHuge ? 64 : kBlocks;
  size_t head = (sizeof(Arena) + 63) & ~size_t(63);
  size_t bitmap = entries / 8;
  size_t pages = kind == kHuge ? 0 : kPages * sizeof(Page);
  size_t n = head;
  if (part == Part::Own) n += entries + pages + 4 * bitmap;
  Arena* a = part == Part::Foreign && keeps(d) ? take_kept(kind == kHuge) : nullptr;
  char* p = reinterpret_cast<char*>(a);
  if (!p) {
    p = static_cast<char*>(map_private(n));
    if (!p) return nullptr;
    a = reinterpret_cast<Arena*>(p);
    a->allocated = n;
  }
  a->home = &d;
  a->part = part;
  a->kind = uint8_t(kind);
  a->shift = uint8_t(kShift[kind]);
  a->is_binned = part == Part::Own && kind != kHuge;
  a->slot = slot;
  a->inc = inc;
  a->length = length;
  a->base = d.slot_base(slot);
  unfence(a->base, size_t(length) << kSlotShift);  // of who had these slots before
  if (part == Part::Own) {
    p += head;
    a->limbo = reinterpret_cast<uint64_t*>(p);
    a->candidate = reinterpret_cast<uint64_t*>(p += bitmap);
    a->seen = reinterpret_cast<uint64_t*>(p += bitmap);
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
  for (uint32_t k = 0; k < a->length; ++k) a->home->arenas[a->slot + k] = nullptr;
  bool huge = a->kind == kHuge;
  if (a->part == Part::Foreign && keeps(*a->home) && n_kept[huge] < kKept) {
    kept[huge][n_kept[huge]++] = a;
    return;
  }
  if (a->held) munmap(a->held, a->entries() * sizeof(Held));
  munmap(a, a->allocated);
}

Held* held_of(Arena* a, uint32_t index) {
  if (!a->held) a->held = static_cast<Held*>(map_private(a->entries() * sizeof(Held)));
  return a->held ? &a->held[index] : nullptr;
}

size_t block_bytes(const Arena* a, uint32_t index) {
  if (a->kind == kHuge) return a->nbytes;
  const Page& here = a->page[index / kPageGranules];
  const Page& first = a->page[here.first];
  if (first.cls == kRun) return size_t(first.npages) * kPageGranules << a->shift;
  return size_t(classes[first.cls].granules) << a->shift;
}

// Note [Nearest hold]: in a slot that is not our own the head of the block around an address is the
// nearest hold bit of our row at or below it: whoever has the address holds that block, and blocks
// do not overlap.
static Found find_by_bits(Arena* a, size_t offset) {
  Domain& d = *a->home;
  if (d.nheld(uint32_t(d.row), a->slot).load(relaxed) == 0) return {};
  uint32_t index = uint32_t(offset >> a->shift);
  Word* row = d.bits(a->slot, uint32_t(d.row));
  int w = int(index / 64);
  uint64_t word = row[w].load(relaxed) & (~0ull >> (63 - index % 64));
  while (!word && --w >= 0) word = row[w].load(relaxed);
  if (!word) return {};
  index = uint32_t(w) * 64 + 63 - uint32_t(__builtin_clzll(word));
  Found f{a, index, a->base + (size_t(index) << a->shift), 0};
  f.nbytes = count_of(a, index) && a->held[index].units ? size_t(a->held[index].units) * 64
             : a->byte                                  ? block_bytes(a, index)
                                                        : 0;
  return size_t(a->base + offset - f.base) < f.nbytes ? f : Found{};
}

Found find_block(Domain& d, const void* p) {
  size_t offset = size_t(static_cast<const char*>(p) - d.base);
  if (offset >= d.mapped) return {};
  Arena* a = d.arenas[offset >> kSlotShift];
  if (!a) return {};
  offset = size_t(static_cast<const char*>(p) - a->base);
  if (a->part != Part::Own) return find_by_bits(a, offset);
  if (a->kind == kHuge) {
    if (a->byte[0] == kFree || offset >= a->nbytes) return {};
    return {a, 0, a->base, a->nbytes};
  }
  uint32_t index = uint32_t(offset >> a->shift);
  if (index >= kBlocks) return {};
  const Page& here = a->page[index / kPageGranules];
  if (here.cls == kNoClass) return {};
  uint32_t first = uint32_t(here.first) * kPageGranules;
  if (here.cls == kRun) {
    index = first;
  } else {
    const SizeClass& c = classes[here.cls];
    index = first + c.blocks_in(index - first) * c.granules;
  }
  if (a->byte[index] == kFree) return {};
  return {a, index, a->base + (size_t(index) << a->shift), block_bytes(a, index)};
}

}  // namespace shmtensor
