// Slabs of GPU memory: claim, hold, drop, reclaim, retire.
#include "memory/device/device_slots.h"

#include "memory/inspect/fault_points.h"

namespace shmtensor {

// Volume 1 first: volume 0 has the memory that is committed first.
int claim_slab(Domain& d, const uint64_t uuid[2], uint64_t size, uint32_t shift, const uint64_t handle[8], uint32_t* inc) {
  use_device(d);
  for (int volume : {1, 0}) {
    int s = claim_slots(d, 1, volume, kDevice);
    if (s < 0) continue;
    d.slot[s].shift.store(shift, relaxed);
    DeviceSlab& slab = d.slabs[s];
    for (int i = 0; i < 8; ++i) slab.handle[i].store(handle[i], relaxed);
    for (int i = 0; i < 2; ++i) slab.uuid[i].store(uuid[i], relaxed);
    slab.size.store(size, relaxed);
    slab.owner.store(uint64_t(d.inc) << 32 | uint32_t(d.row), relaxed);
    fault("slab.described");
    publish_slots(d, uint32_t(s));
    *inc = uint32_t(SlotWord::of(d.slot[s].word.load(acquire)).inc);
    return s;
  }
  return -1;
}

static bool is_open_or_held(Domain& d, uint32_t slot) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r)
    if (d.nheld(r, slot).load(acquire)) return true;
  return false;
}

// Note [Retiring a slab]: no mark is needed. Each block that was ever exported has been reclaimed, so no handle of this
// incarnation is valid any more, and only the holder of a valid hold opens a slab: the counts cannot rise again, but for
// the moment in which a stale receiver's hold is refused.
bool retire_slab(Domain& d, uint32_t slot, uint32_t inc) {
  uint64_t old = d.slot[slot].word.load(acquire);
  SlotWord w = SlotWord::of(old);
  if (w.state != kSlotLive || w.owner != uint32_t(d.row) || w.inc != inc || is_open_or_held(d, slot)) return false;
  bool in_flight = false;
  each_entry(d, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
    in_flight = f.slot == slot && f.inc == inc && f.gen == gen_of(d.word(slot, f.index).load(acquire));
    return !in_flight;
  });
  if (in_flight) return false;
  w.state = kSlotFreeing;
  if (!swap_word(d.slot[slot].word, old, w.packed())) return false;
  fault("slab.freeing");
  return true;
}

void end_slab(Domain& d, uint32_t slot) {
  free_slot_word(d, slot);
  fault("slab.free");
}

// ---- holds
static bool well_formed(const Domain& d, const Handle& h) {
  return h.volume == kDeviceVolume && h.slot < d.slots && h.index < kBlocks && h.entry_row < kRows &&
         h.entry_index < kInFlight && h.nbytes;
}

static bool fits(Domain& d, const Handle& h) {
  const Slot& line = d.slot[h.slot];
  uint64_t size = d.slabs[h.slot].size.load(relaxed);
  uint32_t shift = line.shift.load(relaxed);
  return line.kind.load(relaxed) == kDevice && shift < 64 && h.offset == uint64_t(h.index) << shift && h.nbytes <= size &&
         h.offset <= size - h.nbytes;
}

SlabHold hold_in_slab(Domain& d, const Handle& h, bool is_held, const char** reason) {
  *reason = nullptr;
  if (memcmp(h.domain, d.id, sizeof h.domain) != 0) return SlabHold::Foreign;
  *reason = "its fields are out of bounds";
  if (!well_formed(d, h)) return SlabHold::Foreign;
  *reason = "it does not fit the slab";
  SlotWord w = SlotWord::of(d.slot[h.slot].word.load(acquire));
  if (w.inc == h.inc && w.state == kSlotLive && w.owner == uint32_t(d.row)) {
    if (!fits(d, h)) return SlabHold::Foreign;
    return gen_of(d.word(h.slot, h.index).load(acquire)) == h.gen ? SlabHold::Home : SlabHold::Stale;
  }
  auto refused = [&] {
    SlotWord now = SlotWord::of(d.slot[h.slot].word.load(acquire));
    return now.inc == h.inc && now.state == kSlotLost ? SlabHold::Lost : SlabHold::Stale;
  };
  if (is_held) {
    if (!is_live(d, h.slot, h.inc) || gen_of(d.word(h.slot, h.index).load(acquire)) != h.gen) return refused();
    return fits(d, h) ? SlabHold::Held : SlabHold::Foreign;
  }
  use_device(d);
  publish_hold(d, h.slot, h.index);
  ++d.device_holds;
  fence();
  SlabHold result = !validate(d, h.slot, h.inc, h.index, h.gen, false) ? refused()
                    : fits(d, h)                                       ? SlabHold::Held
                                                                       : SlabHold::Foreign;
  fault("slab.validated");
  if (result != SlabHold::Held) drop_in_slab(d, h.slot, h.index);
  return result;
}

void drop_in_slab(Domain& d, uint32_t slot, uint32_t index) {
  clear_hold(d, slot, index);
  --d.device_holds;
}

void count_open(Domain& d, uint32_t slot, int change) {
  Half& n = d.nheld(uint32_t(d.row), slot);
  n.store(n.load(relaxed) + uint32_t(change), release);
  fault("slab.open");
}

bool is_live(Domain& d, uint32_t slot, uint32_t inc) {
  SlotWord w = SlotWord::of(d.slot[slot].word.load(acquire));
  return w.inc == inc && w.state == kSlotLive;
}

// ---- reclaim: as reclaim() in ledger/reclaim_blocks.cc, for a list of blocks
static void scan(Domain& d, std::vector<SlabBlock>& blocks, std::vector<bool>& in_use) {
  uint32_t rows = d.row_high();
  for (size_t k = 0; k < blocks.size(); ++k) {
    const SlabBlock& b = blocks[k];
    for (uint32_t r = 0; r < rows && !in_use[k]; ++r)
      if (d.nheld(r, b.slot).load(acquire)) in_use[k] = d.bits(b.slot, r)[b.index / 64].load(acquire) >> (b.index % 64) & 1;
  }
  fault("slab.rows");
  each_entry(d, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
    for (size_t k = 0; k < blocks.size(); ++k)
      if (blocks[k].slot == f.slot && blocks[k].index == f.index && f.gen == gen_of(d.word(f.slot, f.index).load(relaxed)) &&
          f.inc == SlotWord::of(d.slot[f.slot].word.load(relaxed)).inc)
        in_use[k] = true;
    return true;
  });
}

void reclaim_in_slabs(Domain& d, std::vector<SlabBlock>& blocks) {
  std::vector<bool> in_use(blocks.size()), candidate(blocks.size());
  scan(d, blocks, in_use);  // held blocks are not marked
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (in_use[k]) continue;
    candidate[k] = true;
    Word& word = d.word(blocks[k].slot, blocks[k].index);
    uint64_t old = word.load(acquire);
    while (state_of_block(old) != kDying && !swap_word(word, old, block_word_of(gen_of(old), kDying)))
      old = word.load(acquire);
    fault("slab.marking");
  }
  fence();
  scan(d, blocks, in_use);
  fault("slab.scanned");
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (!candidate[k]) continue;
    Word& word = d.word(blocks[k].slot, blocks[k].index);
    uint64_t old = word.load(acquire), gen = gen_of(old);
    if (state_of_block(old) != kDying) continue;  // rescued
    if (in_use[k]) swap_word(word, old, block_word_of(gen, kLive));
    else blocks[k].freed = swap_word(word, old, block_word_of(gen + 1, kQuiet));
    fault("slab.reclaimed");
  }
}

}  // namespace shmtensor
