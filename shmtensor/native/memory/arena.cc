// Private records of slots: made, found by address, dropped.
#include "arena.h"

#include <sys/mman.h>

#include "heap.h"

namespace shmtensor {

Arena* arenas[kMostSlots];

static void* map_private(size_t n) {
  void* p =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

Arena* new_arena(Part part, uint32_t slot, uint32_t inc, Kind kind, uint32_t length) {
  size_t entries = kind == kHuge ? 64 : kBlocks;
  size_t head = (sizeof(Arena) + 63) & ~size_t(63);
  size_t bitmap = entries / 8;
  size_t pages = kind == kHuge ? 0 : kPages * sizeof(Page);
  size_t n = head;
  if (part == Part::Own) n += entries + pages + 4 * bitmap;
  char* p = static_cast<char*>(map_private(n));
  if (!p) return nullptr;
  Arena* a = reinterpret_cast<Arena*>(p);
  a->part = part;
  a->kind = uint8_t(kind);
  a->shift = uint8_t(kShift[kind]);
  a->slot = slot;
  a->inc = inc;
  a->length = length;
  a->base = domain.slot_base(slot);
  a->allocated = n;
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
  for (uint32_t k = 0; k < length; ++k) arenas[slot + k] = a;
  return a;
}

void drop_arena(Arena* a) {
  for (uint32_t k = 0; k < a->length; ++k) arenas[a->slot + k] = nullptr;
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
  if (domain.nheld(domain.row, a->slot).load(relaxed) == 0) return {};
  uint32_t index = uint32_t(offset >> a->shift);
  Word* row = domain.bits(a->slot, domain.row);
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

Found find_block(const void* p) {
  size_t offset = size_t(static_cast<const char*>(p) - domain.base);
  if (offset >= domain.mapped) return {};
  Arena* a = arenas[offset >> kSlotShift];
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
    uint32_t g = classes[here.cls].granules;
    index = first + (index - first) / g * g;
  }
  if (a->byte[index] == kFree) return {};
  return {a, index, a->base + (size_t(index) << a->shift), block_bytes(a, index)};
}

}  // namespace shmtensor
