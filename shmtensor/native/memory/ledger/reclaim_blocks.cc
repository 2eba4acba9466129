// Reclaim: marks, fence, scan. Blocks by their owner, orphan slots by anybody, unread pins by age.
#include <string.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

std::atomic<uint64_t> unread_grace_ms{60'000}, dead_grace_ms{3'600'000};

// Every pending pin below the high marks that is not void: f(pin, fields).
template <class F>
static void each_pin(Domain& d, F f) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r) {
    for (uint32_t i = 0, n = d.rows[r].pin_high.load(acquire); i < n; ++i) {
      Pin& pin = d.pin(r, i);
      uint64_t word;
      PinFields fields;
      if (read_pin(pin, &word, &fields) && !is_void(d, fields) && !f(r, pin, word, fields)) return;
    }
  }
}

// What rows and pins hold of the candidates, into `seen`.
static void scan(Domain& d, Arena* const* list, int n) {
  uint32_t rows = d.row_high();
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    uint32_t words = a->nwords();
    memset(a->seen, 0, words * 8);
    for (uint32_t r = 0; r < rows; ++r) {
      if (d.nheld(r, a->slot).load(acquire) == 0) continue;
      Word* bits = d.bits(a->slot, r);
      for (uint32_t w = 0; w < words; ++w)
        if (a->candidate[w]) a->seen[w] |= bits[w].load(acquire) & a->candidate[w];
    }
  }
  fault("reclaim.rows");
  each_pin(d, [&](uint32_t, Pin&, uint64_t, const PinFields& f) {
    Arena* a = f.slot < d.slots ? d.arenas[f.slot] : nullptr;
    if (a && a->part == Part::Own && a->nlimbo && f.inc == a->inc && f.index < a->entries() &&
        test(a->candidate, f.index) && f.gen == gen_of(d.word(f.slot, f.index).load(relaxed)))
      set(a->seen, f.index);
    return true;
  });
}

bool held_elsewhere(const void* p) {
  if (!domain_ready()) return false;
  Locked lock;
  Domain* at = domain_at(p);
  if (!at) return false;
  Domain& d = *at;
  Found found = find_block(d, p);
  if (!found.arena) return false;
  if (found.arena->part != Part::Own) return true;
  uint32_t slot = found.arena->slot, own = uint32_t(d.row);
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (r != own && d.nheld(r, slot).load(acquire) &&
        d.bits(slot, r)[found.index >> 6].load(acquire) >> (found.index & 63) & 1)
      return true;
  bool pinned = false;
  each_pin(d, [&](uint32_t, Pin&, uint64_t, const PinFields& f) {
    pinned = f.slot == slot && f.inc == found.arena->inc && f.index == found.index;
    return !pinned;
  });
  return pinned;
}

size_t received_here(const void* p) {
  if (!domain_ready()) return 0;
  Locked lock;
  Domain* at = domain_at(p);
  if (!at) return 0;
  Found found = find_block(*at, p);
  return found.arena ? count_of(found.arena, found.index) : 0;
}

template <class F>
static void each_bit(const uint64_t* bits, uint32_t words, F f) {
  for (uint32_t w = 0; w < words; ++w)
    for (uint64_t rest = bits[w]; rest; rest &= rest - 1)
      f(w * 64 + uint32_t(__builtin_ctzll(rest)));
}

size_t reclaim(Domain& d) {
  Arena** list = d.books->batch;
  int n = 0;
  for (int v = 0; v < 2; ++v) {
    uint32_t first = v ? d.slots / 2 : 0,
             end = first + d.header->slot_high[v].load(relaxed);
    for (uint32_t s = first; s < end; ++s) {
      Arena* a = d.arenas[s];
      if (a && a->part == Part::Own && a->slot == s && a->nlimbo) list[n++] = a;
    }
  }
  if (!n) return 0;
  ++d.counts.reclaim_passes;
  size_t before = d.limbo_blocks, freed = 0;
  // 1. pre-scan: blocks seen held stay
  for (int k = 0; k < n; ++k) memcpy(list[k]->candidate, list[k]->limbo, list[k]->nwords() * 8);
  scan(d, list, n);
  // 2. marks
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    for (uint32_t w = 0; w < a->nwords(); ++w) a->candidate[w] &= ~a->seen[w];
    d.slot[a->slot].reclaiming.store(1, relaxed);
    fault("reclaim.announced");
    each_bit(a->candidate, a->nwords(), [&](uint32_t index) {
      Word& word = d.word(a->slot, index);
      uint64_t old = word.load(acquire);
      while (state_of_block(old) != kDying &&
             !swap_word(word, old, block_word_of(gen_of(old), kDying)))
        old = word.load(acquire);
      fault("reclaim.marking");
    });
  }
  fault("reclaim.marked");
  // 3. 4.
  fence();
  scan(d, list, n);
  fault("reclaim.scanned");
  // 5. seen held: as before; else the next generation, unless a holder has rescued it
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    each_bit(a->candidate, a->nwords(), [&](uint32_t index) {
      Word& word = d.word(a->slot, index);
      uint64_t old = word.load(acquire), gen = gen_of(old);
      if (state_of_block(old) != kDying) return;  // rescued
      if (test(a->seen, index)) {
        swap_word(word, old, block_word_of(gen, kLive));
        fault("reclaim.held");
      } else if (swap_word(word, old, block_word_of(gen + 1, kQuiet))) {
        fault("reclaim.freed");
        clear(a->limbo, index);
        --a->nlimbo;
        --d.limbo_blocks;
        d.limbo_bytes -= block_bytes(a, index);
        a->byte[index] = kFree;
        ++freed;
      } else {
        clear(a->candidate, index);
      }
    });
    d.slot[a->slot].reclaiming.store(0, release);
    fault("reclaim.ended");
  }
  // Into the free lists only now. Note [Last block]: with its last block a slot may leave this
  // process, and its record with it; so what goes is counted first, and nothing is read after it.
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    if (a->kind == kHuge) {
      if (a->byte[0] == kFree) d.take_back(a, 0);
      continue;
    }
    uint32_t left = 0;
    for (uint32_t w = 0; w < kBitWords; ++w) {
      a->candidate[w] &= ~a->limbo[w];
      left += uint32_t(__builtin_popcountll(a->candidate[w]));
    }
    for (uint32_t w = 0; left; ++w)
      for (uint64_t rest = a->candidate[w]; rest; rest &= rest - 1, --left)
        d.take_back(a, w * 64 + uint32_t(__builtin_ctzll(rest)));
  }
  d.counts.reclaimed_blocks += freed;
  bool useless = freed * 8 < before;
  d.retry_blocks = useless ? 2 * d.limbo_blocks : 0;
  d.retry_bytes = useless ? 2 * d.limbo_bytes : 0;
  d.last_pass_ms = now_ms();
  return freed;
}

// Before the heap grows by `asked` bytes (0: only a size class is empty). A pass that freed little
// is repeated when limbo has doubled, or 20 ms later.
void maybe_reclaim(Domain& d, size_t asked) {
  if (!d.limbo_blocks) return;
  bool due = d.limbo_bytes > (64u << 20) || d.limbo_blocks > 1024 || d.limbo_bytes >= asked / 4 ||
             asked == 0;
  if (!due) return;
  if (d.limbo_blocks < d.retry_blocks && d.limbo_bytes < d.retry_bytes &&
      now_ms() - d.last_pass_ms < 20)
    return;
  reclaim(d);
}

// ---- orphans
static bool slot_is_held(Domain& d, uint32_t s, uint32_t inc) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (d.nheld(r, s).load(acquire)) return true;
  bool held = false;
  each_pin(d, [&](uint32_t, Pin&, uint64_t, const PinFields& f) {
    // A message of a channel that lies in this very slot does not count: no row holds the slot, so
    // nobody can read it.
    held = f.slot == s && f.inc == inc && !(f.via_slot == s && f.via_inc == inc);
    return !held;
  });
  return held;
}

size_t reclaim_orphans(Domain& d) {
  size_t freed = 0;
  for (int v = 0; v < 2; ++v) {
    uint32_t first = v ? d.slots / 2 : 0,
             end = first + d.header->slot_high[v].load(acquire);
    for (uint32_t s = first; s < end; ++s) {
      Word& word = d.slot[s].word;
      uint64_t old = word.load(acquire);
      SlotWord w = SlotWord::of(old);
      if (w.owner != kNobody || (w.state != kSlotLive && w.state != kSlotDying)) continue;
      if (w.state == kSlotLive && slot_is_held(d, s, uint32_t(w.inc))) continue;  // pre-scan
      // A fresh mark even if it was DYING: a stalled reclaimer's last CAS must fail.
      w.state = kSlotDying;
      w.nonce = (w.nonce + 1) & 0xFFFFFF;
      uint64_t mark = w.packed();
      if (!swap_word(word, old, mark)) continue;
      fault("orphan.marked");
      fence();
      bool held = slot_is_held(d, s, uint32_t(w.inc));
      fault("orphan.scanned");
      if (held) {
        w.state = kSlotLive;
        swap_word(word, mark, w.packed());
        fault("orphan.held");
        continue;
      }
      w.state = kSlotFreeing;
      w.owner = uint32_t(d.row);
      if (!swap_word(word, mark, w.packed())) continue;  // rescued
      fault("orphan.freeing");
      finish_freeing(d, s);
      ++freed;
    }
  }
  d.counts.orphans_freed += freed;
  return freed;
}

// ---- unread messages, oldest first. A dead sender's after dead_grace in any case; others only
// when memory is short.
size_t expire_pins(Domain& d, bool pressed, size_t nbytes) {
  uint64_t now = now_ms(), grace = unread_grace_ms.load(relaxed),
           dead_grace = dead_grace_ms.load(relaxed);
  size_t expired = 0, found = 0;
  auto age = [&](uint32_t r, const PinFields& f) {
    uint64_t since = f.time_ms, state = d.rows[r].state.load(acquire);
    bool dead = state_of_row(state) == kRowZombie;
    uint64_t death = d.rows[r].death_ms.load(relaxed);
    if (dead && death > since) since = death;
    return std::pair<uint64_t, bool>(now > since ? now - since : 0, dead);
  };
  for (int i = 0; i < 64 && (!found || found < nbytes); ++i) {
    Pin* oldest = nullptr;
    uint64_t oldest_word = 0, oldest_age = 0, oldest_bytes = 0;
    each_pin(d, [&](uint32_t r, Pin& pin, uint64_t word, const PinFields& f) {
      if (f.via_slot != kNoSlot) return true;  // a channel of ours: never lost, only void
      auto [old, dead] = age(r, f);
      bool eligible = (dead && old >= dead_grace) || (pressed && old >= grace);
      if (eligible && (!oldest || old > oldest_age))
        oldest = &pin, oldest_word = word, oldest_age = old, oldest_bytes = f.nbytes;
      return true;
    });
    if (!oldest) break;
    fault("expire");
    if (swap_word(oldest->word, oldest_word, ((oldest_word >> 1) + 1) << 1)) {
      ++expired;
      found += oldest_bytes;
      fault("expired");
    }
  }
  d.counts.expired_pins += expired;
  return expired;
}

}  // namespace shmtensor
