// Holds: validate, export, receive, acknowledge, drop.
#include "ledger.h"

#include "faults.h"
#include "heap.h"

namespace shmtensor {

uint64_t exported = 0, received = 0, acknowledged = 0, stale_handles = 0;

// ---- validate: after a hold was published and fenced. True: it stands. (PROTOCOL, section 4)
bool validate(uint32_t slot, uint32_t inc, uint32_t index, uint64_t gen) {
  Word& word = domain.slot[slot].word;
  for (;;) {
    uint64_t old = word.load(acquire);
    SlotWord w = SlotWord::of(old);
    if (w.inc != (inc & 0xFFFFFF)) return false;
    if (w.state == kSlotDying) {  // rescue: the reclaimer's last CAS fails
      w.state = kSlotLive;
      w.owner = kNobody;
      swap_word(word, old, w.packed());
      continue;
    }
    if (w.state != kSlotLive) return false;
    Word& block = domain.word(slot, index);
    uint64_t seen = block.load(acquire);
    if (gen_of(seen) != gen) return false;
    if (state_of_block(seen) == kLive) return true;
    swap_word(block, seen, block_word_of(gen, kLive));  // DYING: rescue; QUIET: first export
  }
}

// ---- bits of the own row. Rule 1: published, FENCE (the caller's), validated.
bool publish_hold(uint32_t slot, uint32_t index) {
  Half& n = domain.nheld(uint32_t(domain.row), slot);
  n.store(n.load(relaxed) + 1, relaxed);
  Word& bits = domain.bits(slot, uint32_t(domain.row))[index / 64];
  uint64_t old = bits.load(relaxed);
  bits.store(old | 1ull << (index % 64), relaxed);
  return !(old >> (index % 64) & 1);
}

void clear_hold(uint32_t slot, uint32_t index) {
  Word& bits = domain.bits(slot, uint32_t(domain.row))[index / 64];
  bits.store(bits.load(relaxed) & ~(1ull << (index % 64)), release);
  fault("drop.bit");
  Half& n = domain.nheld(uint32_t(domain.row), slot);
  n.store(n.load(relaxed) - 1, release);
}

// ---- export
Outcome export_locked(const void* p, uint64_t via, Handle* out, const char** why) {
  if (domain.rowless || (*why = check_descriptor())) return Outcome::Lost;
  Found b = find_block(p);
  if (!b.arena) return Outcome::NotShared;
  Found channel{};
  if (via) {
    channel = find_block(reinterpret_cast<const void*>(via));
    if (!channel.arena) return Outcome::NotShared;
  }
  int64_t index = take_pin();
  if (index < 0 && expire_pins(true, 0)) index = take_pin();
  if (index < 0) return Outcome::NoPin;
  Arena* a = b.arena;
  if (a->part == Part::Own && a->byte[b.index] == kPrivate) a->byte[b.index] = kShared;
  uint64_t gen = gen_of(
      domain.word(a->slot, b.index).load(acquire));  // stable while this process holds the block
  uint32_t row = uint32_t(domain.row);
  Pin& pin = domain.pin(row, uint32_t(index));
  uint64_t seq = pin.word.load(relaxed) >> 1;
  pin.slot.store(a->slot, relaxed);
  pin.inc.store(a->inc, relaxed);
  pin.index.store(b.index, relaxed);
  pin.gen.store(gen, relaxed);
  pin.via_slot.store(via ? channel.arena->slot : kNoSlot, relaxed);
  pin.via_inc.store(via ? channel.arena->inc : 0, relaxed);
  pin.via_index.store(via ? channel.index : 0, relaxed);
  pin.via_gen.store(via ? gen_of(domain.word(channel.arena->slot, channel.index).load(acquire)) : 0,
                    relaxed);
  pin.time_ms.store(now_ms(), relaxed);
  pin.nbytes.store(b.nbytes, relaxed);
  Half& high = domain.rows[row].pin_high;
  if (high.load(relaxed) <= uint32_t(index)) high.store(uint32_t(index) + 1, relaxed);
  fault("export.fields");
  pin.word.store(seq << 1 | 1, release);
  note_pin(uint32_t(index));
  fault("export.pinned");
  fence();
  if (!validate(a->slot, a->inc, b.index, gen)) return Outcome::Stale;  // cannot be, for a holder
  fault("export.validated");
  ++exported;
  memcpy(out->domain, domain.id, sizeof out->domain);
  out->slot = a->slot;
  out->inc = a->inc;
  out->index = b.index;
  out->volume = uint32_t(domain.volume_of(a->slot));
  out->gen = gen;
  out->offset = domain.offset_of(a->slot) + uint64_t(b.base - a->base);
  out->nbytes = b.nbytes;
  out->pin_row = row;
  out->pin_index = uint32_t(index);
  out->pin_seq = seq;
  return Outcome::Good;
}

// ---- receive
static bool well_formed(const Handle& h) {
  if (h.slot >= domain.slots || h.index >= kBlocks || h.pin_row >= kRows || h.pin_index >= kPins ||
      h.nbytes == 0)
    return false;
  if (h.volume != uint32_t(domain.volume_of(h.slot))) return false;
  uint64_t start = domain.offset_of(h.slot), half = uint64_t(domain.slots / 2) << kSlotShift;
  return h.offset >= start && h.offset - start < kSlotBytes && h.nbytes <= half &&
         h.offset <= half - h.nbytes;
}

static bool offset_fits(const Handle& h, int shift) {
  return h.offset - domain.offset_of(h.slot) == uint64_t(h.index) << shift;
}

static Outcome hold_own(Arena* a, const Handle& h, const char** why) {
  if (a->inc != h.inc || gen_of(domain.word(h.slot, h.index).load(relaxed)) != h.gen)
    return Outcome::Stale;
  if (h.index >= a->entries() || !offset_fits(h, a->shift)) {
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
    --limbo_blocks;
    limbo_bytes -= block_bytes(a, h.index);
  }
  ++held->count;
  held->units = uint32_t((h.nbytes + 63) / 64);
  return Outcome::Good;
}

Outcome hold_locked(const Handle& h, void** base, const char** why) {
  if (memcmp(h.domain, domain.id, sizeof h.domain) != 0) return Outcome::Foreign;
  if (!well_formed(h)) {
    *why = "its fields are out of bounds";
    return Outcome::Foreign;
  }
  if (domain.rowless || (*why = check_descriptor())) return Outcome::Lost;
  *base = domain.slot_base(h.slot) + (h.offset - domain.offset_of(h.slot));
  Arena* a = arenas[h.slot];
  if (a && a->slot != h.slot) return Outcome::Stale;  // the slot is now a tail of a huge block
  if (a && a->part == Part::Own) return hold_own(a, h, why);

  bool inherited = a && a->byte && h.index < a->entries() && a->byte[h.index] == kShared;
  if (inherited ||
      (a && h.index < a->entries() && count_of(a, h.index))) {  // held already: compare only
    if (a->inc != h.inc || gen_of(domain.word(h.slot, h.index).load(relaxed)) != h.gen)
      return Outcome::Stale;
    if (!offset_fits(h, a->shift)) {
      *why = "its offset does not fit the slot";
      return Outcome::Foreign;
    }
    Held* held = held_of(a, h.index);
    if (!held) return Outcome::NoMemory;
    ++held->count;
    held->units = uint32_t((h.nbytes + 63) / 64);
    return Outcome::Good;
  }
  publish_hold(h.slot, h.index);
  fault("receive.bit");
  fence();
  bool good = validate(h.slot, h.inc, h.index, h.gen);
  fault("receive.validated");
  Outcome outcome = good ? Outcome::Good : Outcome::Stale;
  if (good) {
    // The record of a slot is kept while something in it is held, so one that is there is of this
    // incarnation.
    const Slot& line = domain.slot[h.slot];
    Kind kind = Kind(line.kind.load(relaxed));
    if (kind < kTiny || kind > kHuge || !offset_fits(h, kShift[kind]) ||
        (kind != kHuge && (uint64_t(h.index) << kShift[kind]) + h.nbytes > kSlotBytes)) {
      *why = "its offset does not fit the slot";
      outcome = Outcome::Foreign;
    } else {
      if (!a)
        a = new_arena(Part::Foreign, h.slot, h.inc, kind,
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
    clear_hold(h.slot, h.index);
    if (a && domain.nheld(uint32_t(domain.row), h.slot).load(relaxed) == 0) drop_arena(a);
  }
  return outcome;
}

void acknowledge(const Handle& h) {
  if (!domain_ready() || h.pin_row >= kRows || h.pin_index >= kPins) return;
  if (memcmp(h.domain, domain.id, sizeof h.domain) != 0) return;
  fault("acknowledge");
  if (swap_word(domain.pin(h.pin_row, h.pin_index).word, h.pin_seq << 1 | 1,
                (h.pin_seq + 1) << 1)) {
    ++acknowledged;
    fault("acknowledged");
  }
}

// ---- drop
static void enter_limbo(Arena* a, uint32_t index) {
  a->byte[index] = kLimbo;
  set(a->limbo, index);
  ++a->nlimbo;
  ++limbo_blocks;
  limbo_bytes += block_bytes(a, index);
}

static void end_hold(
    Arena* a, uint32_t index) {  // neither array nor count is left in a slot that is not our own
  clear_hold(a->slot, index);
  if (domain.nheld(uint32_t(domain.row), a->slot).load(relaxed) == 0) drop_arena(a);
}

// The array of a block is gone: the slow half of free.
bool discard_locked(Arena* a, uint32_t index) {
  uint8_t& byte = a->byte[index];
  if (byte == kFrozen) return true;  // Note [Freeze]: never reclaimed
  if (a->part == Part::Own) {
    if (byte == kPrivate) {
      byte = kFree;
      heap_return(a, index);
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

bool drop_locked(void* base) {
  if (domain.rowless) return true;  // Note [Freeze]: the row is the parent's
  size_t offset = size_t(static_cast<char*>(base) - domain.base);
  if (offset >= domain.mapped) return false;
  Arena* a = arenas[offset >> kSlotShift];
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
static PyObject* explain(Outcome outcome, const char* where, const char* why, const Handle* h) {
  switch (outcome) {
    case Outcome::Stale:
      ++stale_handles;
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

bool export_block(const void* p, uint64_t via, Handle* out) {
  if (!domain_ensure()) return false;
  const char* why = nullptr;
  Outcome outcome;
  {
    Locked lock;
    sweep(false);
    outcome = export_locked(p, via, out, &why);
  }
  if (outcome == Outcome::Good) return true;
  if (outcome == Outcome::NotShared) why = static_cast<const char*>(p);
  explain(outcome, "export", why, out);
  return false;
}

bool hold_block(const Handle& h, void** base, size_t* nbytes) {
  if (!domain_ensure()) return false;
  const char* why = nullptr;
  Outcome outcome;
  {
    Locked lock;
    outcome = hold_locked(h, base, &why);
    if (outcome == Outcome::Good) ++received;
  }
  *nbytes = h.nbytes;
  if (outcome == Outcome::Good) return true;
  explain(outcome, "receive", why, &h);
  return false;
}

void drop_block(void* base) {
  if (!domain_ready()) return;
  Locked lock;
  drop_locked(base);
}

Span span_of(const void* p) {
  if (!domain_ready()) return {nullptr, 0};
  Locked lock;
  Found f = find_block(p);
  return {f.base, f.nbytes};
}

void* allocate_shared(size_t nbytes) {
  void* p = heap_alloc_zeroed(nbytes);
  if (!p || !is_shared(p)) return p;
  Locked lock;
  Found f = find_block(p);
  if (f.arena->byte[f.index] == kPrivate) f.arena->byte[f.index] = kShared;
  return p;
}

}  // namespace shmtensor
