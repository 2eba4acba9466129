// Holds: validate, export, receive, acknowledge, drop.
#include "memory/ledger/ledger.h"

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"

namespace shmtensor {

// ---- export
Outcome export_locked(Domain& d, const Found& b, const Found& via, Handle* out, const char** why, uint64_t now) {
  if (d.rowless || (*why = check_descriptor(d, now))) return Outcome::Lost;
  // A channel of another domain cannot be named by a pin of this one: the message then counts as
  // one on a foreign road.
  const Arena* road = via.arena && via.arena->home == &d ? via.arena : nullptr;
  int64_t index = take_pin(d);
  if (index < 0 && expire_pins(d, true, 0)) index = take_pin(d);
  if (index < 0) return Outcome::NoPin;
  Arena* a = b.arena;
  if (a->part == Part::Own && a->byte[b.index] == kPrivate) a->byte[b.index] = kShared;
  uint64_t gen = gen_of(
      d.word(a->slot, b.index).load(acquire));  // stable while this process holds the block
  uint32_t row = uint32_t(d.row);
  Pin& pin = d.pin(row, uint32_t(index));
  // Acquire and release fence: who sees one of the new fields sees that the last message is over.
  uint64_t seq = pin.word.load(acquire) >> 1;
  std::atomic_thread_fence(std::memory_order_release);
  pin.slot.store(a->slot, relaxed);
  pin.inc.store(a->inc, relaxed);
  pin.index.store(b.index, relaxed);
  pin.gen.store(gen, relaxed);
  pin.via_slot.store(road ? road->slot : kNoSlot, relaxed);
  pin.via_inc.store(road ? road->inc : 0, relaxed);
  pin.via_index.store(road ? via.index : 0, relaxed);
  pin.via_gen.store(road ? gen_of(d.word(road->slot, via.index).load(acquire)) : 0, relaxed);
  pin.time_ms.store(now, relaxed);
  pin.nbytes.store(b.nbytes, relaxed);
  Half& high = d.rows[row].pin_high;
  if (high.load(relaxed) <= uint32_t(index)) high.store(uint32_t(index) + 1, relaxed);
  fault("export.fields");
  pin.word.store(seq << 1 | 1, release);
  note_pin(d, uint32_t(index));
  fault("export.pinned");
  fence();
  if (!validate(d, a->slot, a->inc, b.index, gen, true)) return Outcome::Stale;  // cannot be, for a holder
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
  out->pin_row = row;
  out->pin_index = uint32_t(index);
  out->pin_seq = seq;
  return Outcome::Good;
}

// ---- receive
static bool well_formed(const Domain& d, const Handle& h) {
  if (h.slot >= d.slots || h.index >= kBlocks || h.pin_row >= kRows || h.pin_index >= kPins ||
      h.nbytes == 0)
    return false;
  if (h.volume != uint32_t(d.volume_of(h.slot))) return false;
  uint64_t start = d.offset_of(h.slot), half = uint64_t(d.slots / 2) << kSlotShift;
  return h.offset >= start && h.offset - start < kSlotBytes && h.nbytes <= half &&
         h.offset <= half - h.nbytes;
}

static bool offset_fits(const Domain& d, const Handle& h, int shift) {
  return h.offset - d.offset_of(h.slot) == uint64_t(h.index) << shift;
}

static Outcome hold_own(Arena* a, const Handle& h, const char** why) {
  Domain& d = *a->home;
  if (a->inc != h.inc || gen_of(d.word(h.slot, h.index).load(relaxed)) != h.gen)
    return Outcome::Stale;
  if (h.index >= a->entries() || !offset_fits(d, h, a->shift)) {
    *why = "its offset does not fit the slot";
    return Outcome::Foreign;
  }
  uint8_t& byte = a->byte[h.index];
  if (byte == kFree || byte == kPrivate) return Outcome::Stale;
  if (h.nbytes > block_bytes(a, h.index)) {
    *why = "it is larger than the block";
    return Outcome::Foreign;
  }
  Held* held = held_of(a, h.index);
  if (!held) return Outcome::NoMemory;
  if (byte == kLimbo) {  // back out of limbo
    byte = kCounted;
    clear(a->limbo, h.index);
    --a->nlimbo;
    --d.limbo_blocks;
    d.limbo_bytes -= block_bytes(a, h.index);
  }
  ++held->count;
  held->units = uint32_t((h.nbytes + 63) / 64);
  return Outcome::Good;
}

// Where a block must end at the latest, as far as anybody but its owner can tell.
static uint64_t most_bytes(const Slot& line, int kind, uint32_t index) {
  if (kind == kHuge) return line.committed.load(relaxed);
  uint64_t block = kind == kTiny ? kLargestTiny : kLargestRun;
  uint64_t rest = uint64_t(kBlocks - index) << kShift[kind];
  return block < rest ? block : rest;
}

Outcome hold_locked(Domain& d, const Handle& h, void** base, const char** why) {
  if (memcmp(h.domain, d.id, sizeof h.domain) != 0) return Outcome::Foreign;
  if (!well_formed(d, h)) {
    *why = "its fields are out of bounds";
    return Outcome::Foreign;
  }
  if (d.rowless || (*why = check_descriptor(d))) return Outcome::Lost;
  *base = d.slot_base(h.slot) + (h.offset - d.offset_of(h.slot));
  Arena* a = d.arenas[h.slot];
  if (a && a->slot != h.slot) return Outcome::Stale;  // the slot is now a tail of a huge block
  if (a && a->part == Part::Own) return hold_own(a, h, why);

  bool inherited = a && a->byte && h.index < a->entries() && a->byte[h.index] == kShared;
  if (inherited ||
      (a && h.index < a->entries() && count_of(a, h.index))) {  // held already: compare only
    if (a->inc != h.inc || gen_of(d.word(h.slot, h.index).load(relaxed)) != h.gen)
      return Outcome::Stale;
    if (!offset_fits(d, h, a->shift)) {
      *why = "its offset does not fit the slot";
      return Outcome::Foreign;
    }
    if (h.nbytes > most_bytes(d.slot[h.slot], a->kind, h.index)) {
      *why = "it is larger than its block can be";
      return Outcome::Foreign;
    }
    Held* held = held_of(a, h.index);
    if (!held) return Outcome::NoMemory;
    ++held->count;
    held->units = uint32_t((h.nbytes + 63) / 64);
    return Outcome::Good;
  }
  publish_hold(d, h.slot, h.index);
  fence();
  bool good = validate(d, h.slot, h.inc, h.index, h.gen, false);
  fault("receive.validated");
  Outcome outcome = good ? Outcome::Good : Outcome::Stale;
  if (good) {
    // The record of a slot is kept while something in it is held, so one that is there is of this
    // incarnation.
    const Slot& line = d.slot[h.slot];
    Kind kind = Kind(line.kind.load(relaxed));
    if (kind < kTiny || kind > kHuge || !offset_fits(d, h, kShift[kind])) {
      *why = "its offset does not fit the slot";
      outcome = Outcome::Foreign;
    } else if (h.nbytes > most_bytes(line, kind, h.index)) {
      *why = "it is larger than its block can be";
      outcome = Outcome::Foreign;
    } else {
      if (!a)
        a = new_arena(d, Part::Foreign, h.slot, h.inc, kind,
                      kind == kHuge ? line.length.load(relaxed) : 1);
      Held* held = a ? held_of(a, h.index) : nullptr;
      if (held) {
        held->count = 1;
        held->units = uint32_t((h.nbytes + 63) / 64);
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
  if (h.pin_row >= kRows || h.pin_index >= kPins) return;
  if (memcmp(h.domain, d.id, sizeof h.domain) != 0) return;
  fault("acknowledge");
  if (swap_word(d.pin(h.pin_row, h.pin_index).word, h.pin_seq << 1 | 1,
                (h.pin_seq + 1) << 1)) {
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
  ++a->home->limbo_blocks;
  a->home->limbo_bytes += block_bytes(a, index);
}

static void end_hold(
    Arena* a, uint32_t index) {  // neither array nor count is left in a slot that is not our own
  Domain& d = *a->home;
  clear_hold(d, a->slot, index);
  if (d.nheld(uint32_t(d.row), a->slot).load(relaxed) == 0) drop_arena(a);
}

// The array of a block is gone: the slow half of free.
bool discard_locked(Arena* a, uint32_t index) {
  uint8_t& byte = a->byte[index];
  if (byte == kFrozen) return true;  // Note [Freeze]: never reclaimed
  if (a->part == Part::Own) {
    if (byte == kPrivate) {
      byte = kFree;
      a->home->take_back(a, index);
    } else if (byte == kShared) {
      if (count_of(a, index))
        byte = kCounted;
      else
        enter_limbo(a, index);
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
  if (d.rowless) return true;  // Note [Freeze]: the row is the parent's
  size_t offset = size_t(static_cast<char*>(base) - d.base);
  if (offset >= d.mapped) return false;
  Arena* a = d.arenas[offset >> kSlotShift];
  if (!a) return false;
  uint32_t index = uint32_t(size_t(static_cast<char*>(base) - a->base) >> a->shift);
  if (index >= a->entries() || !count_of(a, index)) return false;
  fault("drop");
  if (--a->held[index].count) return true;
  if (a->part == Part::Own) {
    if (a->byte[index] == kCounted) enter_limbo(a, index);
  } else if (!(a->byte && a->byte[index] == kShared)) {
    end_hold(a, index);
  }
  return true;
}

// ---- the interface
PyObject* explain(Outcome outcome, const char* where, const char* why, const Handle* h) {
  switch (outcome) {
    case Outcome::Stale:
      ++domain.counts.stale_handles;
      return raise("StaleHandle",
                   "%s: the block is gone: slot %u.%u, block %u, generation %llu (its sender has "
                   "dropped it, and the message was "
                   "read before or was older than the grace for unread messages), send it again",
                   where, h->slot, h->inc, h->index, static_cast<unsigned long long>(h->gen));
    case Outcome::Foreign:
      if (why)
        return raise("ForeignHandle",
                     "%s: no valid handle: %s: slot %u, block %u, offset %llu, %llu bytes", where,
                     why, h->slot, h->index, static_cast<unsigned long long>(h->offset),
                     static_cast<unsigned long long>(h->nbytes));
      return raise("ForeignHandle",
                   "%s: the handle is of another domain: %02x%02x%02x%02x..., this process is in "
                   "%02x%02x%02x%02x... (start it with "
                   "shmtensor.multiprocessing, or with SHMTENSOR_DOMAIN set to "
                   "st.memory.domain_environment())",
                   where, h->domain[0], h->domain[1], h->domain[2], h->domain[3], domain.id[0],
                   domain.id[1], domain.id[2], domain.id[3]);
    case Outcome::NotShared:
      return raise("ValueError", "%s: no shared memory of this process: address %p", where,
                   static_cast<const void*>(why));
    case Outcome::NoPin:
      return raise("RuntimeError", "%s: %u tensors are under way unread, no more fit", where,
                   kPins);
    case Outcome::Lost:
      return raise("DomainError", "%s: %s", where,
                   why ? why : "this process was forked when no row was left and shares nothing");
    case Outcome::NoMemory:
      return PyErr_NoMemory();
    case Outcome::Good:
      break;
  }
  return nullptr;
}

bool export_block(const Found& block, const Found& via, Handle* out) {
  if (!domain_ensure() || !warn_of_lost()) return false;
  const char* why = nullptr;
  Outcome outcome = Outcome::NotShared;
  {
    Locked lock;
    const uint64_t now = now_ms();
    if (now >= domain.next_sweep || guest_count.load(relaxed)) sweep_all(false);
    if (block.arena) outcome = export_locked(*block.arena->home, block, via, out, &why, now);
  }
  if (outcome == Outcome::Good) return true;
  if (outcome == Outcome::NotShared) why = block.base;
  explain(outcome, "export", why, out);
  return false;
}

// The lines that its sender wrote last lie in another processor's cache: all are asked for at once.
void expect_block(const Handle& h) {
  if (h.slot >= domain.slots || h.index >= kBlocks || h.pin_row >= kRows || h.pin_index >= kPins)
    return;
  __builtin_prefetch(&domain.word(h.slot, h.index));
  fetch_to_write(&domain.pin(h.pin_row, h.pin_index));
  fetch_to_write(domain.bits(h.slot, uint32_t(domain.row)) + h.index / 64);
}

bool hold_block(const Handle& h, void** base, size_t* nbytes) {
  if (!domain_ensure()) return false;
  const char* why = nullptr;
  Outcome outcome = Outcome::Foreign;
  {
    Locked lock;
    if (Domain* d = domain_of(h.domain)) {
      outcome = hold_locked(*d, h, base, &why);
      if (outcome == Outcome::Good) ++d->counts.received;
    }
  }
  *nbytes = h.nbytes;
  if (outcome == Outcome::Good) return true;
  explain(outcome, "receive", why, &h);
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
  Locked lock;  // it must not leave meanwhile
  if (Domain* d = domain_of(h.domain)) acknowledge(*d, h);
}

// The pin that is taken next was written last by the reader of an earlier message.
static void expect_pin(const Domain& d) {
  const Books& b = *d.books;
  const uint32_t n_free = b.n_free;
  uint32_t pin = n_free ? b.pin_free[n_free - 1] : b.n_used;
  if (pin < kPins) fetch_to_write(&d.pins[size_t(d.row) * kPins + pin]);
}

void expect_export() {
  if (domain.books && !domain.rowless) expect_pin(domain);
}

static Found found_in(Domain& d, const void* p, bool is_exported_soon) {
  Found f = find_block(d, p);
  if (is_exported_soon && f.arena && d.books && !d.rowless) {
    expect_pin(d);
    fetch_to_write(&d.words[size_t(f.arena->slot) * kBlocks + f.index]);
  }
  return f;
}

Found block_around(const void* p, bool is_exported_soon) {
  Found f{};
  if (domain_ready()) {
    const Arena* a =
        domain.contains(p) ? domain.arenas[size_t(static_cast<const char*>(p) - domain.base) >> kSlotShift] : nullptr;
    if (a && a->part == Part::Own) {  // what says where a block lies stays as it is while it is in use: no lock
      f = found_in(domain, p, is_exported_soon);
    } else {
      Locked lock;
      if (Domain* d = domain_at(p)) f = found_in(*d, p, is_exported_soon);
    }
  }
  if (!f.arena) f.base = static_cast<char*>(const_cast<void*>(p));
  return f;
}

void* allocate_shared(size_t nbytes) {
  void* p = heap_alloc_zeroed(nbytes);
  if (!p || !is_shared(p)) return p;
  Locked lock;
  Found f = find_block(domain, p);
  if (f.arena->byte[f.index] == kPrivate) f.arena->byte[f.index] = kShared;
  return p;
}

}  // namespace shmtensor
