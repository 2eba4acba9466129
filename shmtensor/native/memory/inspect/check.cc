// Figures of the heap, and all invariants that this process can check.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <iterator>

#include "memory/heap/own_slots.h"

namespace shmtensor {

void heap_figures(HeapFigures* f) {
  memset(f, 0, sizeof *f);
  for (Kind kind : {kTiny, kMedium, kHuge}) {
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      Arena* a = domain.arenas[owned[kind][i]];
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
        uint32_t g = page.cls == kRun ? 0 : classes[page.cls].granules,
                 n = page.cls == kRun ? 1 : classes[page.cls].capacity;
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

#define REQUIRE(condition, ...)                          \
  if (!(condition)) {                                    \
    int at = snprintf(text, size, "%s: ", #condition);   \
    snprintf(text + at, size - size_t(at), __VA_ARGS__); \
    return false;                                        \
  }
// The invariants of the private side, in the order: slots, pages, blocks, lists, caches, limbo.
bool heap_check(char* text, size_t size) {
  size_t limbo_n = 0, limbo_size = 0, in_caches = 0, handed_out = 0, free_bytes = 0;
  for (Kind kind : {kTiny, kMedium, kHuge}) {
    for (uint32_t i = 0; i < n_owned[kind]; ++i) {
      uint32_t s = owned[kind][i];
      Arena* a = domain.arenas[s];
      REQUIRE(a && a->ownership == Ownership::Own && a->slot == s && a->kind == kind, "slot %u", s);
      SlotWord w = SlotWord::of(domain.slot[s].word.load(acquire));
      REQUIRE(w.state == kSlotLive && w.owner == uint32_t(domain.row) && w.inc == a->inc, "slot %u: state %llu owner %llu",
              s, static_cast<unsigned long long>(w.state), static_cast<unsigned long long>(w.owner));
      REQUIRE(domain.nheld(uint32_t(domain.row), s).load(relaxed) == 0, "slot %u: own slot in own row", s);
      for (uint32_t k = 1; k < a->length; ++k) REQUIRE(domain.arenas[s + k] == a, "slot %u tail %u", s, k);
      uint32_t limbo_here = 0;
      for (uint32_t b = 0; b < a->entries(); ++b) {
        REQUIRE((a->byte[b] == kLimbo) == test(a->limbo, b), "slot %u block %u byte %u", s, b, a->byte[b]);
        limbo_here += a->byte[b] == kLimbo;
        uint32_t counted = count_of(a, b);
        REQUIRE(a->byte[b] != kCounted || counted, "slot %u block %u", s, b);
        REQUIRE(!counted || a->byte[b] == kShared || a->byte[b] == kCounted || a->byte[b] == kFrozen,
                "slot %u block %u byte %u", s, b, a->byte[b]);
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
          for (int b = p * kPageGranules; b < (p + 1) * kPageGranules; ++b)
            REQUIRE(a->byte[b] == kFree, "slot %u block %d", s, b);
          ++free_here;
          ++p;
          continue;
        }
        const Page& span = a->page[p];
        REQUIRE(span.first == p && span.npages > 0 && p + span.npages <= kPages, "slot %u page %d", s, p);
        for (int q = p; q < p + span.npages; ++q) {
          REQUIRE(!test(a->free_pages, uint32_t(q)) && a->page[q].first == p && a->page[q].cls == span.cls,
                  "slot %u page %d", s, q);
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
      REQUIRE(c->bin[cls].n <= std::size(c->bin[cls].item), "class %d", cls);
      for (uint32_t i = 0; i < c->bin[cls].n; ++i) {
        char* p = static_cast<char*>(c->bin[cls].item[i]);
        Arena* a = domain.arenas[size_t(p - domain.base) >> kSlotShift];
        REQUIRE(a && a->byte[size_t(p - a->base) >> a->shift] == kFree, "cached block %p", static_cast<void*>(p));
        --in_caches;
      }
    }
  REQUIRE(in_caches == 0, "%zd blocks are neither used, listed nor cached", ssize_t(in_caches));
  REQUIRE(limbo_n == domain.limbo_blocks && limbo_size == domain.limbo_bytes, "%zu blocks, %zu bytes counted as %zu, %zu",
          limbo_n, limbo_size, domain.limbo_blocks, domain.limbo_bytes);
  for (int cls = 0; cls < kClasses; ++cls)
    for (uint32_t id = partial[cls], before = kNoSpan; id != kNoSpan; before = id, id = span_page(id).next)
      REQUIRE(span_page(id).cls == cls && span_page(id).nfree > 0 && span_page(id).prev == before, "span %u of class %d", id,
              cls);
  return true;
}

// The holds of this process in a domain agree with its row there.
bool row_check(Domain& d, char* text, size_t size) {
  size_t all = 0;
  for (uint32_t s = 0; s < d.slots; ++s) {
    uint32_t n = d.nheld(uint32_t(d.row), s).load(relaxed);
    Arena* a = d.arenas[s];
    if (!n) {
      REQUIRE(!a || a->ownership == Ownership::Own || a->slot != s, "slot %u is recorded, nothing in it is held", s);
      continue;
    }
    if (d.slot[s].kind.load(relaxed) == kDevice) {  // each hold has its bit, and one more count is "open"
      uint32_t bits = 0;
      for (uint32_t w = 0; w < kBitWords; ++w)
        bits += uint32_t(__builtin_popcountll(d.bits(s, uint32_t(d.row))[w].load(relaxed)));
      all += bits;
      REQUIRE(bits == n || bits + 1 == n, "slab in slot %u: %u bits, %u counted", s, bits, n);
      continue;
    }
    REQUIRE(a && a->ownership != Ownership::Own, "slot %u has %u holds and no record", s, n);
    SlotWord w = SlotWord::of(d.slot[s].word.load(acquire));
    REQUIRE(w.inc == a->inc && (w.state == kSlotLive || w.state == kSlotDying), "slot %u: held, but state %llu", s,
            static_cast<unsigned long long>(w.state));
    uint32_t bits = 0;
    for (uint32_t b = 0; b < kBlocks; ++b) {
      bool bit = d.bits(s, uint32_t(d.row))[b / 64].load(relaxed) >> (b % 64) & 1;
      bool held = b < a->entries() && ((a->byte && (a->byte[b] == kShared || a->byte[b] == kFrozen)) || count_of(a, b));
      REQUIRE(bit == held, "slot %u block %u: bit %d", s, b, bit);
      bits += bit;
    }
    all += bits;
    REQUIRE(bits == n, "slot %u: %u bits, %u counted", s, bits, n);
  }
  REQUIRE(&d == &domain || all == d.holds, "%zu holds, %zu counted", all, d.holds);
  return true;
}
#undef REQUIRE

}  // namespace shmtensor
