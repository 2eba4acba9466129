// Spans: pages with the blocks of one size class, and moving blocks between spans and thread caches.
#include <errno.h>

#include "memory/heap/own_slots.h"

namespace shmtensor {

uint32_t partial[kClasses];
SizeClass classes[kClasses];
uint8_t medium_class[257];

__attribute__((constructor)) static void make_classes() {
  static const uint16_t medium[] = {2,  3,  4,  5,  6,  7,  8,  10,  12,  14,  16,  20,  24, 28,
                                    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256};
  for (int c = 0; c < kClasses; ++c) {
    bool tiny = c < kTinyClasses;
    uint16_t g = tiny ? uint16_t(c + 1) : medium[c - kTinyClasses];
    int least = tiny ? 32 : g <= 16 ? 4 : 1;
    uint16_t pages = 1;
    while (pages * 64 / g < least || (pages * 64 % g) * 8 > pages * 64) ++pages;
    uint16_t cached = tiny ? 63 : g <= 16 ? 32 : g <= 64 ? 16 : 4;
    classes[c] = {g, pages, uint16_t(pages * 64 / g), cached, tiny ? kTiny : kMedium, ((1ull << 32) + g - 1) / g};
  }
  for (int kib = 1, c = kTinyClasses; kib <= 256; ++kib) {
    if (kib > classes[c].granules) ++c;
    medium_class[kib] = uint8_t(c);
  }
}

// ---- spans of a class
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

// Not the difference of committed_bytes: other threads commit runs and huge blocks meanwhile.
static size_t missing_bytes(const Arena* a, int first, int end) {
  size_t n = 0;
  for (int p = first; p < end; ++p) n += test(a->committed, uint32_t(p)) ? 0 : page_bytes(a);
  return n;
}

static uint32_t new_span(int cls, int* error) {
  const SizeClass& c = classes[cls];
  *error = 0;
  for (int claimed = 0;;) {
    for (uint32_t i = 0; i < n_owned[c.kind]; ++i) {
      Arena* a = domain.arenas[owned[c.kind][i]];
      int first = take_pages(a, c.npages);
      if (first < 0) continue;
      if (!all_committed(a, first, c.npages)) {
        // Commits ahead, so that few calls commit much; only the needed pages if that is refused.
        int ahead = first + c.npages, step = c.kind == kTiny ? 64 : 16;
        while (ahead < kPages && ahead < first + step && !test(a->committed, uint32_t(ahead)) &&
               test(a->free_pages, uint32_t(ahead)))
          ++ahead;
        size_t before = missing_bytes(a, first, ahead);
        *error = commit_pages(a, first, ahead - first);
        if (*error) *error = commit_pages(a, first, c.npages);
        count_committed(a, before - missing_bytes(a, first, ahead));
        if (*error) {
          put_pages(a, first, c.npages);
          if (*error == EDQUOT) return kNoSpan;
          a->volume_full = true;
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
    // No slot has room: claims one, in volume 0 unless it has just refused; then in the other.
    Arena* a = nullptr;
    for (; claimed < 2 && !a; ++claimed) {
      bool avoid = now_ms() < avoid_volume0_until;
      if (claimed == 0 && avoid) continue;
      a = claim_arena(c.kind, 1, claimed);
    }
    if (!a) return kNoSpan;
  }
}

void give_span_back(Arena* a, int first, int cls) {
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
        Arena* other = domain.arenas[owned[a->kind][i]];
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

Errno refill(Bin& bin, int cls) {
  const SizeClass& c = classes[cls];
  uint32_t target = c.cached > 8 ? c.cached / 2 : 1u;
  int error = 0;
  while (bin.n < target) {
    uint32_t id = partial[cls];
    if (id == kNoSpan && (bin.n || (id = new_span(cls, &error)) == kNoSpan)) break;
    Arena* a = domain.arenas[id >> 10];
    uint32_t first = id & 1023;
    Page& span = a->page[first];
    for (uint32_t p = first; p < first + span.npages && bin.n < target; ++p) {
      while (a->central[p] && bin.n < target) {
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

void flush(Bin& bin, uint32_t keep) {
  while (bin.n > keep) {
    char* p = static_cast<char*>(bin.item[--bin.n]);
    Arena* a = domain.arenas[size_t(p - domain.base) >> kSlotShift];
    uint32_t index = uint32_t(size_t(p - a->base) >> a->shift);
    return_small(a, index, a->page[index / kPageGranules].cls);
  }
}

}  // namespace shmtensor
