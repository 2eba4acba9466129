// Reclaim: marks, fence, scan. Owners reclaim their blocks, any process orphan slots; unread messages expire by age.
#include <string.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

std::atomic<uint64_t> unread_grace_ms{60'000}, dead_grace_ms{3'600'000};

// Marks in `in_use` the candidates that a row or an entry holds.
static void scan(Domain& d, Arena* const* list, int n) {
  uint32_t rows = d.row_high();
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    uint32_t words = a->nwords();
    memset(a->in_use, 0, words * 8);
    for (uint32_t r = 0; r < rows; ++r) {
      if (d.nheld(r, a->slot).load(acquire) == 0) continue;
      Word* bits = d.bits(a->slot, r);
      for (uint32_t w = 0; w < words; ++w)
        if (a->candidate[w]) a->in_use[w] |= bits[w].load(acquire) & a->candidate[w];
    }
  }
  fault("reclaim.rows");
  each_entry(d, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
    Arena* a = f.slot < d.slots ? d.arenas[f.slot] : nullptr;
    if (a && a->ownership == Ownership::Own && a->nlimbo && f.inc == a->inc && f.index < a->entries() &&
        test(a->candidate, f.index) && f.gen == gen_of(d.word(f.slot, f.index).load(relaxed)))
      set(a->in_use, f.index);
    return true;
  });
}

bool held_elsewhere(const void* p) {
  if (!domain_ready()) return false;
  Locked lock;
  Domain* membership = domain_at(p);
  if (!membership) return false;
  Domain& d = *membership;
  BlockRef block = find_block(d, p);
  if (!block.arena) return false;
  if (block.arena->ownership != Ownership::Own) return true;
  uint32_t slot = block.arena->slot, own = uint32_t(d.row);
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (r != own && d.nheld(r, slot).load(acquire) &&
        d.bits(slot, r)[block.index >> 6].load(acquire) >> (block.index & 63) & 1)
      return true;
  bool in_flight = false;
  each_entry(d, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
    in_flight = f.slot == slot && f.inc == block.arena->inc && f.index == block.index;
    return !in_flight;
  });
  return in_flight;
}

size_t received_here(const void* p) {
  if (!domain_ready()) return 0;
  Locked lock;
  Domain* membership = domain_at(p);
  if (!membership) return 0;
  BlockRef block = find_block(*membership, p);
  return block.arena ? count_of(block.arena, block.index) : 0;
}

template <class F>
static void each_bit(const uint64_t* bits, uint32_t words, F f) {
  for (uint32_t w = 0; w < words; ++w)
    for (uint64_t remaining = bits[w]; remaining; remaining &= remaining - 1)
      f(w * 64 + uint32_t(__builtin_ctzll(remaining)));
}

size_t reclaim(Domain& d) {
  Arena** list = d.local->batch;
  int n = 0;
  each_slot(d, [&](uint32_t s) {
    Arena* a = d.arenas[s];
    if (a && a->ownership == Ownership::Own && a->slot == s && a->nlimbo) list[n++] = a;
  });
  if (!n) return 0;
  ++d.counts.reclaim_passes;
  size_t before = d.limbo_blocks, freed = 0;
  // 1. pre-scan: held blocks are no candidates
  for (int k = 0; k < n; ++k) memcpy(list[k]->candidate, list[k]->limbo, list[k]->nwords() * 8);
  scan(d, list, n);
  // 2. marks
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    for (uint32_t w = 0; w < a->nwords(); ++w) a->candidate[w] &= ~a->in_use[w];
    d.slot[a->slot].reclaiming.store(1, relaxed);
    fault("reclaim.announced");
    each_bit(a->candidate, a->nwords(), [&](uint32_t index) {
      Word& word = d.word(a->slot, index);
      uint64_t old = word.load(acquire);
      while (state_of_block(old) != kDying && !swap_word(word, old, block_word_of(gen_of(old), kDying)))
        old = word.load(acquire);
      fault("reclaim.marking");
    });
  }
  fault("reclaim.marked");
  // 3. 4.
  fence();
  scan(d, list, n);
  fault("reclaim.scanned");
  // 5. a held block becomes LIVE again; another one gets the next generation unless a holder has rescued it
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    each_bit(a->candidate, a->nwords(), [&](uint32_t index) {
      Word& word = d.word(a->slot, index);
      uint64_t old = word.load(acquire), gen = gen_of(old);
      if (state_of_block(old) != kDying) return;  // rescued
      if (test(a->in_use, index)) {
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
  // Returns the blocks to the free lists only now. Note [Last block]: a slot, and its record, may leave this process with
  // its last block; so the freed blocks are counted first, and the record is not read after the last one.
  for (int k = 0; k < n; ++k) {
    Arena* a = list[k];
    if (a->kind == kHuge) {
      if (a->byte[0] == kFree) d.return_block(a, 0);
      continue;
    }
    uint32_t n_free = 0;
    for (uint32_t w = 0; w < kBitWords; ++w) {
      a->candidate[w] &= ~a->limbo[w];
      n_free += uint32_t(__builtin_popcountll(a->candidate[w]));
    }
    for (uint32_t w = 0; n_free; ++w)
      for (uint64_t remaining = a->candidate[w]; remaining; remaining &= remaining - 1, --n_free)
        d.return_block(a, w * 64 + uint32_t(__builtin_ctzll(remaining)));
  }
  d.counts.reclaimed_blocks += freed;
  bool useless = freed * 8 < before;
  d.retry_blocks = useless ? 2 * d.limbo_blocks : 0;
  d.retry_bytes = useless ? 2 * d.limbo_bytes : 0;
  d.last_pass_ms = now_ms();
  return freed;
}

// Before the heap grows by `nbytes` bytes (0: only a size class is empty). A pass that freed little
// is repeated when limbo has doubled, or 20 ms later.
void maybe_reclaim(Domain& d, size_t nbytes) {
  if (!d.limbo_blocks) return;
  bool due = d.limbo_bytes > (64u << 20) || d.limbo_blocks > 1024 || d.limbo_bytes >= nbytes / 4 || nbytes == 0;
  if (!due) return;
  if (d.limbo_blocks < d.retry_blocks && d.limbo_bytes < d.retry_bytes && now_ms() - d.last_pass_ms < 20) return;
  reclaim(d);
}

// ---- orphans
static bool slot_is_held(Domain& d, uint32_t s, uint32_t inc) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (d.nheld(r, s).load(acquire)) return true;
  bool held = false;
  each_entry(d, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
    // A message of a channel in this same slot does not count: no row holds the slot, so nobody can read it.
    held = f.slot == s && f.inc == inc && !(f.via_slot == s && f.via_inc == inc);
    return !held;
  });
  return held;
}

// A slab whose owner has died, once no process holds a block of it or has it open: nobody can hold one from now on,
// because no hold of a LOST slot is valid.
static bool free_lost_slab(Domain& d, uint32_t s) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (d.nheld(r, s).load(acquire)) return false;
  uint64_t old = d.slot[s].word.load(acquire);
  SlotWord w = SlotWord::of(old);
  if (w.owner != kNobody || w.state != kSlotLost) return false;
  w.state = kSlotFreeing;
  w.owner = uint32_t(d.row);
  if (!swap_word(d.slot[s].word, old, w.packed())) return false;
  fault("lost.freeing");
  finish_freeing(d, s);
  return true;
}

size_t reclaim_orphans(Domain& d) {
  size_t freed = 0;
  for (int v = 0; v < 2; ++v) {
    uint32_t first = v ? d.slots / 2 : 0, end = first + d.header->slot_high[v].load(acquire);
    for (uint32_t s = first; s < end; ++s) {
      Word& word = d.slot[s].word;
      uint64_t old = word.load(acquire);
      SlotWord w = SlotWord::of(old);
      if (w.owner == kNobody && w.state == kSlotLost) {
        freed += free_lost_slab(d, s);
        continue;
      }
      if (w.owner != kNobody || (w.state != kSlotLive && w.state != kSlotDying)) continue;
      if (w.state == kSlotLive && slot_is_held(d, s, uint32_t(w.inc))) continue;  // pre-scan
      // A new mark even if it was DYING: a stalled reclaimer's last CAS must fail.
      w.state = kSlotDying;
      w.nonce = (w.nonce + 1) & 0xFFFFFF;
      uint64_t mark = w.packed();
      if (!swap_word(word, old, mark)) continue;
      fault("orphan.marked");
      fence();
      bool is_held = slot_is_held(d, s, uint32_t(w.inc));
      fault("orphan.scanned");
      if (is_held) {
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

// ---- unread messages, oldest first: those of dead senders after dead_grace, others only when memory is short
size_t expire_messages(Domain& d, bool under_pressure, size_t nbytes) {
  uint64_t now = now_ms(), grace = unread_grace_ms.load(relaxed), dead_grace = dead_grace_ms.load(relaxed);
  size_t expired = 0, found_bytes = 0;
  auto age = [&](uint32_t r, const InFlightFields& f) {
    uint64_t since = f.time_ms, state = d.rows[r].state.load(acquire);
    bool dead = state_of_row(state) == kRowZombie;
    uint64_t death = d.rows[r].death_ms.load(relaxed);
    if (dead && (death > since || since > now)) since = death;
    if (d.rows[r].timens.load(relaxed) != d.timens) since = now;  // of another clock: Note [Time namespace]
    return std::pair<uint64_t, bool>(now > since ? now - since : 0, dead);
  };
  for (int i = 0; i < 64 && (!found_bytes || found_bytes < nbytes); ++i) {
    InFlight* oldest = nullptr;
    uint64_t oldest_word = 0, oldest_age = 0, oldest_bytes = 0;
    each_entry(d, [&](uint32_t r, InFlight& entry, uint64_t word, const InFlightFields& f) {
      if (f.via_slot != kNoSlot) return true;  // in a channel of ours messages do not get lost
      auto [age_ms, is_dead] = age(r, f);
      bool eligible = (is_dead && age_ms >= dead_grace) || (under_pressure && age_ms >= grace);
      if (eligible && (!oldest || age_ms > oldest_age))
        oldest = &entry, oldest_word = word, oldest_age = age_ms, oldest_bytes = f.nbytes;
      return true;
    });
    if (!oldest) break;
    fault("expire");
    if (swap_word(oldest->word, oldest_word, ((oldest_word >> 1) + 1) << 1)) {
      ++expired;
      found_bytes += oldest_bytes;
      fault("expired");
    }
  }
  d.counts.expired_messages += expired;
  return expired;
}

}  // namespace shmtensor
