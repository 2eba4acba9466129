// Pins: the messages under way. Those of the own row, and how anybody reads one.
#include "ledger.h"

namespace shmtensor {

// ---- pins of the own row: outstanding ones, and those known to be free
static uint32_t pin_free[kPins], pin_out[kPins];  // untouched pages of these cost nothing
static uint32_t n_free = 0, n_out = 0, n_used = 0, collect_at = 64;

// Still pending? A void pin is freed on the way: its channel is gone, nobody will acknowledge it.
static bool is_out(Pin& pin) {
  uint64_t word;
  PinFields fields;
  if (!read_pin(pin, &word, &fields)) return false;
  return !(is_void(fields) && swap_word(pin.word, word, ((word >> 1) + 1) << 1));
}

static void collect_pins() {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n_out; ++i) {
    uint32_t index = pin_out[i];
    if (is_out(domain.pin(uint32_t(domain.row), index)))
      pin_out[kept++] = index;
    else
      pin_free[n_free++] = index;
  }
  n_out = kept;
  collect_at = kept < 32 ? 64 : 2 * kept;
}

int64_t take_pin() {
  if (!n_free && n_out >= collect_at) collect_pins();
  if (!n_free && n_used == kPins) collect_pins();
  if (n_free) return pin_free[--n_free];
  if (n_used == kPins) return -1;
  return n_used++;
}

void note_pin(uint32_t index) { pin_out[n_out++] = index; }

void forget_pins() { n_free = n_out = n_used = 0, collect_at = 64; }

size_t pins_pending(size_t* nbytes) {
  collect_pins();
  *nbytes = 0;
  for (uint32_t i = 0; i < n_out; ++i)
    *nbytes += domain.pin(uint32_t(domain.row), pin_out[i]).nbytes.load(relaxed);
  return n_out;
}

bool read_pin(Pin& pin, uint64_t* word, PinFields* f) {
  for (;;) {
    uint64_t w = pin.word.load(acquire);
    if (!(w & 1)) return false;
    *f = {pin.slot.load(relaxed),     pin.inc.load(relaxed),     pin.index.load(relaxed),
          pin.via_slot.load(relaxed), pin.via_inc.load(relaxed), pin.via_index.load(relaxed),
          pin.gen.load(relaxed),      pin.via_gen.load(relaxed), pin.time_ms.load(relaxed),
          pin.nbytes.load(relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (pin.word.load(relaxed) == w) {
      *word = w;
      return true;
    }
    // Acknowledged meanwhile, or a newer publication, which validates by itself: look at what is
    // there now.
  }
}

bool is_void(const PinFields& f) {
  if (f.via_slot >= domain.slots || f.via_index >= kBlocks) return false;
  if (f.via_slot == f.slot && f.via_inc == f.inc && f.via_index == f.index && f.via_gen == f.gen)
    return true;
  if (SlotWord::of(domain.slot[f.via_slot].word.load(acquire)).inc != f.via_inc) return true;
  return gen_of(domain.word(f.via_slot, f.via_index).load(acquire)) != f.via_gen;
}

}  // namespace shmtensor
