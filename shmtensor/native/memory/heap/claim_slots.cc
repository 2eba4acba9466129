// Slots: claiming, committing, freeing.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/memory_limits.h"
#include "memory/heap/huge_pages.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

std::atomic<uint64_t> committed_bytes{0};

static Word& word_of(Domain& d, uint32_t s) { return d.slot[s].word; }

static bool move_slot(Domain& d, uint32_t s, SlotState from, SlotState to, uint32_t owner) {
  uint64_t old = word_of(d, s).load(acquire);
  SlotWord w = SlotWord::of(old);
  if (w.state != from) return false;
  w.state = to;
  w.owner = owner;
  return swap_word(word_of(d, s), old, w.packed());
}

void free_slot_word(Domain& d, uint32_t s) {
  uint64_t old = word_of(d, s).load(acquire);
  for (;;) {
    SlotWord w = SlotWord::of(old);
    if (word_of(d, s).compare_exchange_weak(old, SlotWord{kSlotFree, 0, 0, w.inc + 1}.packed(), std::memory_order_acq_rel))
      return;
  }
}

// Raises the high mark before the claim, so that a sweeper finds the slots that a dead process had claimed.
static bool claim_slot(Domain& d, uint32_t s, int volume, uint32_t me) {
  if (SlotWord::of(word_of(d, s).load(acquire)).state != kSlotFree) return false;
  Half& high = d.header->slot_high[volume];
  uint32_t old = high.load(relaxed), target = s + 1 - (volume ? d.slots / 2 : 0);
  while (old < target && !high.compare_exchange_weak(old, target, std::memory_order_acq_rel)) {
  }
  fault("slot.raised");
  bool claimed = move_slot(d, s, kSlotFree, kSlotClaimed, me);
  if (claimed) fault("slot.claiming");
  return claimed;
}

int claim_slots(Domain& d, uint32_t n, int volume, Kind kind) {
  uint32_t first = volume ? d.slots / 2 : 0, end = first + d.slots / 2, me = uint32_t(d.row);
  for (uint32_t s = first; s + n <= end;) {
    uint32_t k = 0;
    while (k < n && claim_slot(d, s + k, volume, me)) ++k;
    if (k < n) {
      for (uint32_t j = 0; j < k; ++j) free_slot_word(d, s + j);
      if (k) fault("slot.conflict");
      s += k + 1;
      continue;
    }
    fault("slot.claimed");
    for (k = 0; k < n; ++k) {
      Slot& slot = d.slot[s + k];
      slot.kind.store(k ? kTailKind : kind, relaxed);
      slot.shift.store(uint32_t(kShift[kind]), relaxed);
      slot.length.store(k ? 0 : n, relaxed);
      slot.back.store(k, relaxed);
      slot.committed.store(0, relaxed);
      slot.reclaiming.store(0, relaxed);
    }
    return int(s);
  }
  return -1;
}

// Followers first, the head last: a tail whose head is not LIVE, DYING or FREEING belongs to a
// claim that died.
void publish_slots(Domain& d, uint32_t head) {
  uint32_t n = d.slot[head].length.load(relaxed), me = uint32_t(d.row);
  for (uint32_t k = 1; k < n; ++k) {
    move_slot(d, head + k, kSlotClaimed, kSlotTail, me);
    fault("slot.tail");
  }
  move_slot(d, head, kSlotClaimed, kSlotLive, me);
  fault("slot.live");
}

void punch(Domain& d, uint32_t slot, size_t offset, size_t n) {
  while (fallocate(d.volume[d.volume_of(slot)], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   off_t(d.offset_of(slot) + offset), off_t(n)) != 0 &&
         errno == EINTR) {
  }
}

// The head is FREEING and ours, or its owner is dead and we hold that row's lock. Changes only the head's own tails.
void finish_freeing(Domain& d, uint32_t head) {
  uint32_t n = d.slot[head].length.load(relaxed);
  uint64_t owner = SlotWord::of(word_of(d, head).load(acquire)).owner;
  if (d.slot[head].kind.load(relaxed) != kDevice) punch(d, head, 0, kSlotBytes);
  fault("free.punched");
  for (uint32_t k = 1; k < n; ++k) {
    SlotWord w = SlotWord::of(word_of(d, head + k).load(acquire));
    bool is_tail = w.state == kSlotTail || (w.state == kSlotClaimed && w.owner == owner);
    if (!is_tail || d.slot[head + k].back.load(relaxed) != k) continue;
    punch(d, head + k, 0, kSlotBytes);
    fault("free.emptied");
    free_slot_word(d, head + k);
    fault("free.tail");
  }
  free_slot_word(d, head);
  fault("free.done");
}

void release_slots(Domain& d, uint32_t head, uint32_t n, bool claimed) {
  if (!move_slot(d, head, claimed ? kSlotClaimed : kSlotLive, kSlotFreeing, uint32_t(d.row))) return;
  fault("free.freeing");
  d.slot[head].length.store(n, relaxed);
  fault("free.sized");
  finish_freeing(d, head);
}

Errno commit(Domain& d, uint32_t slot, size_t offset, size_t n) {
  if (!take_headroom(n)) return EDQUOT;
  int fd = d.volume[d.volume_of(slot)];
  // In steps: on a signal the kernel undoes the entire call (EINTR), which must not repeat for ever.
  constexpr size_t kStep = 8 << 20;
  for (size_t committed = 0; committed < n;) {
    size_t k = n - committed < kStep ? n - committed : kStep;
    if (d.advised) populate_huge(d.slot_base(slot) + offset + committed, k);
    int error = posix_fallocate(fd, off_t(d.offset_of(slot) + offset + committed), off_t(k));
    if (error == EINTR) continue;
    if (error) {
      if (committed) punch(d, slot, offset, committed);
      if (!d.volume_of(slot)) d.header->short_volume.fetch_add(1, relaxed);
      fault("commit.refused");
      return error;
    }
    committed += k;
    fault("commit.step");
  }
  fault("commit.done");
  committed_bytes.fetch_add(n, relaxed);
  return 0;
}

}  // namespace shmtensor
