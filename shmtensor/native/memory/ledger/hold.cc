// The shared side of a hold: its bit in the own row, and its validation.
#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- validate: after a hold was published and fenced. True: the hold is valid.
// QUIET(gen) is valid only for a process that holds the block already: in an export, in a fork. An exported block is
// LIVE, so to a receiver QUIET(gen) means that the handle was never exported.
bool validate(Domain& d, uint32_t slot, uint32_t inc, uint32_t index, uint64_t gen, bool is_holder) {
  Word& word = d.slot[slot].word;
  for (;;) {
    uint64_t old = word.load(acquire);
    SlotWord w = SlotWord::of(old);
    if (w.inc != (inc & 0xFFFFFF)) return false;
    if (w.state == kSlotDying) {  // rescue: the reclaimer's last CAS fails
      w.state = kSlotLive;
      w.owner = kNobody;
      swap_word(word, old, w.packed());
      fault("rescue.slot");
      continue;
    }
    if (w.state != kSlotLive) return false;
    Word& block = d.word(slot, index);
    uint64_t seen = block.load(acquire);
    if (gen_of(seen) != gen) return false;
    if (state_of_block(seen) == kLive) return true;
    if (state_of_block(seen) == kQuiet && !is_holder) return false;
    swap_word(block, seen, block_word_of(gen, kLive));  // DYING: rescue; QUIET: first export
    if (state_of_block(seen) == kDying) fault("rescue.block");
  }
}

// ---- bits of the own row. A hold is published, fenced (by the caller), validated.
bool publish_hold(Domain& d, uint32_t slot, uint32_t index) {
  Half& n = d.nheld(uint32_t(d.row), slot);
  n.store(n.load(relaxed) + 1, relaxed);
  fault("receive.counted");
  Word& bits = d.bits(slot, uint32_t(d.row))[index / 64];
  uint64_t old = bits.load(relaxed);
  bits.store(old | 1ull << (index % 64), relaxed);
  fault("receive.bit");
  ++d.holds;
  return !(old >> (index % 64) & 1);
}

void clear_hold(Domain& d, uint32_t slot, uint32_t index) {
  Word& bits = d.bits(slot, uint32_t(d.row))[index / 64];
  bits.store(bits.load(relaxed) & ~(1ull << (index % 64)), release);
  --d.holds;
  fault("drop.bit");
  Half& n = d.nheld(uint32_t(d.row), slot);
  n.store(n.load(relaxed) - 1, release);
  fault("drop.counted");
}

}  // namespace shmtensor
