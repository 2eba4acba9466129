// Blocks beyond the size classes: runs of pages, and entire slots. Large commits run without the mutex.
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "memory/heap/address_sanitizer.h"
#include "memory/heap/own_slots.h"

namespace shmtensor {

void* alloc_run(size_t n, bool zero) {
  int pages = int((n + 65535) >> 16), error = 0;
  size_t dirty_first = 0, dirty_end = 0;
  pthread_mutex_lock(&ledger_mutex);
  sweep_all(false);
  answer_call();
  maybe_reclaim(domain, n);
  Arena* a = nullptr;
  int first = -1;
  int claimed = 0;
  for (int stage = 0; stage <= kStages;) {
    for (uint32_t i = 0; i < n_owned[kMedium] && first < 0; ++i) {
      a = domain.arenas[owned[kMedium][i]];
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
      size_t still_missing = 0;
      for (int p = first; p < first + pages; ++p) still_missing += test(a->committed, uint32_t(p)) ? 0 : page_bytes(a);
      count_committed(a, missing - still_missing);
      put_pages(a, first, pages);
      first = -1;
      if (error != EDQUOT) {
        a->volume_full = true;
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
  if (zero && dirty_first < n) {
    const size_t dirty = std::min(dirty_end, n) - dirty_first;
    memset(unfence(p + dirty_first, dirty), 0, dirty);
  }
  return p;
}

static Arena* take_warm(uint32_t length, size_t need) {
  int best = -1;
  for (int i = 0; i < n_warm; ++i) {
    if (warm_huge[i]->length != length) continue;
    if (best < 0) best = i;
    size_t size = warm_huge[i]->nbytes, best_size = warm_huge[best]->nbytes;
    if (size >= need ? (best_size < need || size <= best_size) : (best_size < need && size > best_size)) best = i;
  }
  if (best < 0) return nullptr;
  Arena* a = warm_huge[best];
  for (int i = best; i + 1 < n_warm; ++i) warm_huge[i] = warm_huge[i + 1];
  --n_warm;
  return a;
}

void* alloc_huge(size_t n, bool zero) {
  if (n > (uint64_t(domain.slots / 2) << kSlotShift)) return refuse(n, 0);
  uint32_t length = uint32_t((n + kSlotBytes - 1) >> kSlotShift);
  size_t need = (n + 65535) & ~size_t(65535);
  int error = 0, volume = 0;
  pthread_mutex_lock(&ledger_mutex);
  sweep_all(false);
  answer_call();
  maybe_reclaim(domain, n);
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
      size_t committed = a->nbytes;
      ++filling;
      pthread_mutex_unlock(&ledger_mutex);
      error = commit(domain, a->slot, committed, need - committed);
      pthread_mutex_lock(&ledger_mutex);
      --filling;
      if (!error) {
        a->nbytes = need;
        count_committed(a, need - committed);
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
  if (zero && dirty) memset(unfence(a->base, dirty), 0, dirty);
  return a->base;
}

}  // namespace shmtensor
