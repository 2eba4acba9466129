// Holds: validate, export, receive, acknowledge, drop.
#include "memory/ledger/ledger.h"

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"

namespace shmtensor {

// ---- export
Outcome export_locked(Domain& d, const BlockRef& b, const BlockRef& via, Handle* out, const char** reason, uint64_t now) {
  if (d.rowless || (*reason = check_descriptor(d, now))) return Outcome::Lost;
  // An entry of this domain cannot refer to a channel of another one: the message then counts as sent by another
  // transport.
  const Arena* channel = via.arena && via.arena->domain == &d ? via.arena : nullptr;
  int64_t index = take_entry(d);
  if (index < 0 && expire_messages(d, true, 0)) index = take_entry(d);
  if (index < 0) return Outcome::NoEntry;
  Arena* a = b.arena;
  if (a->ownership == Ownership::Own && a->byte[b.index] == kPrivate) a->byte[b.index] = kShared;
  uint64_t gen = gen_of(d.word(a->slot, b.index).load(acquire));  // stable while this process holds the block
  uint32_t row = uint32_t(d.row);
  InFlight& entry = d.entry(row, uint32_t(index));
  // Acquire and release fence: a process that sees one of the new fields sees that the previous message has ended.
  uint64_t seq = entry.word.load(acquire) >> 1;
  std::atomic_thread_fence(std::memory_order_release);
  entry.slot.store(a->slot, relaxed);
  entry.inc.store(a->inc, relaxed);
  entry.index.store(b.index, relaxed);
  entry.gen.store(gen, relaxed);
  entry.via_slot.store(channel ? channel->slot : kNoSlot, relaxed);
  entry.via_inc.store(channel ? channel->inc : 0, relaxed);
  entry.via_index.store(channel ? via.index : 0, relaxed);
  entry.via_gen.store(channel ? gen_of(d.word(channel->slot, via.index).load(acquire)) : 0, relaxed);
  entry.time_ms.store(now, relaxed);
  entry.nbytes.store(b.nbytes, relaxed);
  Half& high = d.rows[row].in_flight_high;
  if (high.load(relaxed) <= uint32_t(index)) high.store(uint32_t(index) + 1, relaxed);
  fault("export.fields");
  entry.word.store(seq << 1 | 1, release);
  add_pending_entry(d, uint32_t(index));
  fault("export.pinned");
  fence();
  if (!validate(d, a->slot, a->inc, b.index, gen, true)) return Outcome::Stale;  // impossible for a holder
  fault("export.validated");
  ++d.counts.exported;
  memcpy(out->domain, d.id, sizeof out->domain);
  out->slot = a->slot;
  out->inc = a->inc;
  out->index = b.index;
  out->volume = uint32_t(d.volume_of(a->slot));
  out->gen = gen;
  out->offset = d.offset_of(a->slot) + uint64_t(b.base - a->base);
  out->nbytes = b.nbytes;
  out->entry_row = row;
  out->entry_index = uint32_t(index);
  out->entry_seq = seq;
  return Outcome::Good;
}

// ---- receive
static bool well_formed(const Domain& d, const Handle& h) {
  if (h.slot >= d.slots || h.index >= kBlocks || h.entry_row >= kRows || h.entry_index >= kInFlight || h.nbytes == 0)
    return false;
  if (h.volume != uint32_t(d.volume_of(h.slot))) return false;
  uint64_t start = d.offset_of(h.slot), half = uint64_t(d.slots / 2) << kSlotShift;
  return h.offset >= start && h.offset - start < kSlotBytes && h.nbytes <= half && h.offset <= half - h.nbytes;
}

static bool offset_fits(const Domain& d, const Handle& h, int shift) {
  return h.offset - d.offset_of(h.slot) == uint64_t(h.index) << shift;
}

static Outcome hold_own(Arena* a, const Handle& h, const char** reason) {
  Domain& d = *a->domain;
  if (a->inc != h.inc || gen_of(d.word(h.slot, h.index).load(relaxed)) != h.gen) return Outcome::Stale;
  if (h.index >= a->entries() || !offset_fits(d, h, a->shift)) {
    *reason = "its offset does not fit the slot";
    return Outcome::Foreign;
  }
  uint8_t& byte = a->byte[h.index];
  if (byte == kFree || byte == kPrivate) return Outcome::Stale;
  if (h.nbytes > block_bytes(a, h.index)) {
    *reason = "it is larger than the block";
    return Outcome::Foreign;
  }
  HoldCount* hold = hold_count_at(a, h.index);
  if (!hold) return Outcome::NoMemory;
  if (byte == kLimbo) {  // back out of limbo
    byte = kCounted;
    clear(a->limbo, h.index);
    --a->nlimbo;
    --d.limbo_blocks;
    d.limbo_bytes -= block_bytes(a, h.index);
  }
  ++hold->count;
  hold->units = uint32_t((h.nbytes + 63) / 64);
  return Outcome::Good;
}

// The largest possible size of a block, as far as processes other than its owner can tell.
static uint64_t max_bytes(const Slot& line, int kind, uint32_t index) {
  if (kind == kHuge) return line.committed.load(relaxed);
  uint64_t block = kind == kTiny ? kLargestTiny : kLargestRun;
  uint64_t remaining = uint64_t(kBlocks - index) << kShift[kind];
  return block < remaining ? block : remaining;
}

Outcome hold_locked(Domain& d, const Handle& h, void** base, const char** reason) {
  if (memcmp(h.domain, d.id, sizeof h.domain) != 0) return Outcome::Foreign;
  if (!well_formed(d, h)) {
    *reason = "its fields are out of bounds";
    return Outcome::Foreign;
  }
  if (d.rowless || (*reason = check_descriptor(d))) return Outcome::Lost;
  *base = d.slot_base(h.slot) + (h.offset - d.offset_of(h.slot));
  Arena* a = d.arenas[h.slot];
  if (a && a->slot != h.slot) return Outcome::Stale;  // the slot is now a tail of a huge block
  if (a && a->ownership == Ownership::Own) return hold_own(a, h, reason);

  bool is_inherited = a && a->byte && h.index < a->entries() && a->byte[h.index] == kShared;
  if (is_inherited || (a && h.index < a->entries() && count_of(a, h.index))) {  // held already: compare only
    if (a->inc != h.inc || gen_of(d.word(h.slot, h.index).load(relaxed)) != h.gen) return Outcome::Stale;
    if (!offset_fits(d, h, a->shift)) {
      *reason = "its offset does not fit the slot";
      return Outcome::Foreign;
    }
    if (h.nbytes > max_bytes(d.slot[h.slot], a->kind, h.index)) {
      *reason = "it is larger than its block can be";
      return Outcome::Foreign;
    }
    HoldCount* hold = hold_count_at(a, h.index);
    if (!hold) return Outcome::NoMemory;
    ++hold->count;
    hold->units = uint32_t((h.nbytes + 63) / 64);
    return Outcome::Good;
  }
  publish_hold(d, h.slot, h.index);
  fence();
  bool good = validate(d, h.slot, h.inc, h.index, h.gen, false);
  fault("receive.validated");
  Outcome outcome = good ? Outcome::Good : Outcome::Stale;
  if (good) {
    // A slot's record exists while a block in it is held, so an existing record has this incarnation.
    const Slot& line = d.slot[h.slot];
    Kind kind = Kind(line.kind.load(relaxed));
    if (kind < kTiny || kind > kHuge || !offset_fits(d, h, kShift[kind])) {
      *reason = "its offset does not fit the slot";
      outcome = Outcome::Foreign;
    } else if (h.nbytes > max_bytes(line, kind, h.index)) {
      *reason = "it is larger than its block can be";
      outcome = Outcome::Foreign;
    } else {
      if (!a) a = new_arena(d, Ownership::Foreign, h.slot, h.inc, kind, kind == kHuge ? line.length.load(relaxed) : 1);
      HoldCount* hold = a ? hold_count_at(a, h.index) : nullptr;
      if (hold) {
        hold->count = 1;
        hold->units = uint32_t((h.nbytes + 63) / 64);
      } else {
        outcome = Outcome::NoMemory;
      }
    }
  }
  if (outcome != Outcome::Good) {
    clear_hold(d, h.slot, h.index);
    if (a && d.nheld(uint32_t(d.row), h.slot).load(relaxed) == 0) drop_arena(a);
  }
  return outcome;
}

void acknowledge(Domain& d, const Handle& h) {
  if (h.entry_row >= kRows || h.entry_index >= kInFlight) return;
  if (memcmp(h.domain, d.id, sizeof h.domain) != 0) return;
  fault("acknowledge");
  if (swap_word(d.entry(h.entry_row, h.entry_index).word, h.entry_seq << 1 | 1, (h.entry_seq + 1) << 1)) {
    __atomic_fetch_add(&d.counts.acknowledged, 1, __ATOMIC_RELAXED);  // by several threads at once
    fault("acknowledged");
  }
}

// ---- drop
static void enter_limbo(Arena* a, uint32_t index) {
  fault("free.limbo");
  a->byte[index] = kLimbo;
  set(a->limbo, index);
  ++a->nlimbo;
  ++a->domain->limbo_blocks;
  a->domain->limbo_bytes += block_bytes(a, index);
}

static void end_hold(Arena* a, uint32_t index) {  // in another process's slot, without array or count
  Domain& d = *a->domain;
  clear_hold(d, a->slot, index);
  if (d.nheld(uint32_t(d.row), a->slot).load(relaxed) == 0) drop_arena(a);
}

// The slow part of free.
bool discard_locked(Arena* a, uint32_t index) {
  uint8_t& byte = a->byte[index];
  if (byte == kFrozen) return true;  // Note [Freeze]: never reclaimed
  if (a->ownership == Ownership::Own) {
    if (byte == kPrivate) {
      byte = kFree;
      a->domain->return_block(a, index);
    } else if (byte == kShared) {
      if (count_of(a, index)) byte = kCounted;
      else enter_limbo(a, index);
    } else {
      return false;
    }
    return true;
  }
  if (byte != kShared) return false;
  byte = kFree;
  if (!count_of(a, index)) end_hold(a, index);
  return true;
}

bool drop_locked(Domain& d, void* base) {
  if (d.rowless) return true;  // Note [Freeze]: the row belongs to the parent
  size_t offset = size_t(static_cast<char*>(base) - d.base);
  if (offset >= d.mapped) return false;
  Arena* a = d.arenas[offset >> kSlotShift];
  if (!a) return false;
  uint32_t index = uint32_t(size_t(static_cast<char*>(base) - a->base) >> a->shift);
  if (index >= a->entries() || !count_of(a, index)) return false;
  fault("drop");
  if (--a->held[index].count) return true;
  if (a->ownership == Ownership::Own) {
    if (a->byte[index] == kCounted) enter_limbo(a, index);
  } else if (!(a->byte && a->byte[index] == kShared)) {
    end_hold(a, index);
  }
  return true;
}

// ---- the interface
PyObject* explain(Outcome outcome, const char* where, const char* reason, const Handle* h) {
  switch (outcome) {
    case Outcome::Stale:
      ++domain.counts.stale_handles;
      return raise("StaleHandle",
                   "%s: the block is gone: slot %u.%u, block %u, generation %llu (its sender has "
                   "dropped it, and the message was read before or had expired), send it again",
                   where, h->slot, h->inc, h->index, static_cast<unsigned long long>(h->gen));
    case Outcome::Foreign:
      if (reason)
        return raise("ForeignHandle", "%s: invalid handle: %s: slot %u, block %u, offset %llu, %llu bytes", where, reason,
                     h->slot, h->index, static_cast<unsigned long long>(h->offset),
                     static_cast<unsigned long long>(h->nbytes));
      return raise("ForeignHandle",
                   "%s: the handle belongs to another domain: %02x%02x%02x%02x..., this process is in "
                   "%02x%02x%02x%02x... (start it with "
                   "shmtensor.multiprocessing, or with SHMTENSOR_DOMAIN set to "
                   "st.memory.domain_environment())",
                   where, h->domain[0], h->domain[1], h->domain[2], h->domain[3], domain.id[0], domain.id[1], domain.id[2],
                   domain.id[3]);
    case Outcome::NotShared:
      return raise("ValueError", "%s: not shared memory of this process: address %p", where,
                   static_cast<const void*>(reason));
    case Outcome::NoEntry: return raise("RuntimeError", "%s: %u messages are unread, no more fit", where, kInFlight);
    case Outcome::Lost:
      return raise("DomainError", "%s: %s", where,
                   reason ? reason : "this process was forked when no row was free and shares nothing");
    case Outcome::NoMemory: return PyErr_NoMemory();
    case Outcome::Good: break;
  }
  return nullptr;
}

bool export_block(const BlockRef& block, const BlockRef& via, Handle* out) {
  if (!domain_ensure() || !warn_of_lost()) return false;
  const char* reason = nullptr;
  Outcome outcome = Outcome::NotShared;
  {
    Locked lock;
    const uint64_t now = now_ms();
    if (now >= domain.next_sweep || guest_count.load(relaxed)) sweep_all(false);
    if (block.arena) outcome = export_locked(*block.arena->domain, block, via, out, &reason, now);
  }
  if (outcome == Outcome::Good) return true;
  if (outcome == Outcome::NotShared) reason = block.base;
  explain(outcome, "export", reason, out);
  return false;
}

// The lines that the sender wrote are in another processor's cache: prefetches all of them at once.
void prefetch_block(const Handle& h) {
  if (h.slot >= domain.slots || h.index >= kBlocks || h.entry_row >= kRows || h.entry_index >= kInFlight) return;
  __builtin_prefetch(&domain.word(h.slot, h.index));
  fetch_to_write(&domain.entry(h.entry_row, h.entry_index));
  fetch_to_write(domain.bits(h.slot, uint32_t(domain.row)) + h.index / 64);
}

bool hold_block(const Handle& h, void** base, size_t* nbytes) {
  if (!domain_ensure()) return false;
  const char* reason = nullptr;
  Outcome outcome = Outcome::Foreign;
  {
    Locked lock;
    if (Domain* d = domain_of(h.domain)) {
      outcome = hold_locked(*d, h, base, &reason);
      if (outcome == Outcome::Good) ++d->counts.received;
    }
  }
  *nbytes = h.nbytes;
  if (outcome == Outcome::Good) return true;
  explain(outcome, "receive", reason, &h);
  return false;
}

void drop_block(void* base) {
  if (!domain_ready()) return;
  Locked lock;
  Domain* d = domain_at(base);
  if (d && drop_locked(*d, base) && d != &domain) leave_if_idle(d);
}

void acknowledge(const Handle& h) {
  if (!domain_ready()) return;
  if (memcmp(h.domain, domain.id, sizeof h.domain) == 0) return acknowledge(domain, h);
  if (!guest_count.load(relaxed)) return;
  Locked lock;  // this process must not leave that domain meanwhile
  if (Domain* d = domain_of(h.domain)) acknowledge(*d, h);
}

// The next entry was last written by the reader of an earlier message.
static void prefetch_entry(const Domain& d) {
  const LocalLedger& local = *d.local;
  const uint32_t n_free = local.n_free;
  uint32_t entry = n_free ? local.free_entries[n_free - 1] : local.n_used;
  if (entry < kInFlight) fetch_to_write(&d.in_flight[size_t(d.row) * kInFlight + entry]);
}

void prefetch_export() {
  if (domain.local && !domain.rowless) prefetch_entry(domain);
}

static BlockRef find_and_prefetch(Domain& d, const void* p, bool is_exported_soon) {
  BlockRef block = find_block(d, p);
  if (is_exported_soon && block.arena && d.local && !d.rowless) {
    prefetch_entry(d);
    fetch_to_write(&d.words[size_t(block.arena->slot) * kBlocks + block.index]);
  }
  return block;
}

BlockRef block_around(const void* p, bool is_exported_soon) {
  BlockRef block{};
  if (domain_ready()) {
    const Arena* a =
        domain.contains(p) ? domain.arenas[size_t(static_cast<const char*>(p) - domain.base) >> kSlotShift] : nullptr;
    if (a && a->ownership == Ownership::Own) {  // no lock: the layout around a block is constant while it is in use
      block = find_and_prefetch(domain, p, is_exported_soon);
    } else {
      Locked lock;
      if (Domain* d = domain_at(p)) block = find_and_prefetch(*d, p, is_exported_soon);
    }
  }
  if (!block.arena) block.base = static_cast<char*>(const_cast<void*>(p));
  return block;
}

void* allocate_shared(size_t nbytes) {
  void* p = heap_alloc_zeroed(nbytes);
  if (!p || !is_shared(p)) return p;
  Locked lock;
  BlockRef block = find_block(domain, p);
  if (block.arena->byte[block.index] == kPrivate) block.arena->byte[block.index] = kShared;
  return p;
}

}  // namespace shmtensor
