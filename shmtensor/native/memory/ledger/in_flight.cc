// Pins: the messages under way. Those of the own row, and how anybody reads one.
#include <sys/mman.h>

#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- pins of the own row: outstanding ones, and those known to be free
Books* new_books() {
  void* p = mmap(nullptr, sizeof(Books), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  Books* books = static_cast<Books*>(p);
  books->collect_at = 64;
  return books;
}

void drop_books(Books* books) {
  if (books) munmap(books, sizeof *books);
}

// Still pending? A void pin is freed on the way: its channel is gone, nobody will acknowledge it.
static bool is_out(Domain& d, Pin& pin) {
  uint64_t word;
  PinFields fields;
  if (!read_pin(pin, &word, &fields)) return false;
  if (!is_void(d, fields) || !swap_word(pin.word, word, ((word >> 1) + 1) << 1)) return true;
  fault("pin.void");
  return false;
}

static void collect_pins(Domain& d) {
  Books& b = *d.books;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < b.n_out; ++i) {
    uint32_t index = b.pin_out[i];
    if (is_out(d, d.pin(uint32_t(d.row), index)))
      b.pin_out[kept++] = index;
    else
      b.pin_free[b.n_free++] = index;
  }
  b.n_out = kept;
  b.collect_at = kept < 32 ? 64 : 2 * kept;
}

int64_t take_pin(Domain& d) {
  Books& b = *d.books;
  if (!b.n_free && b.n_out >= b.collect_at) collect_pins(d);
  if (!b.n_free && b.n_used == kPins) collect_pins(d);
  if (b.n_free) return b.pin_free[--b.n_free];
  if (b.n_used == kPins) return -1;
  return b.n_used++;
}

void note_pin(Domain& d, uint32_t index) { d.books->pin_out[d.books->n_out++] = index; }

void forget_pins(Domain& d) {
  d.books->n_free = d.books->n_out = d.books->n_used = 0;
  d.books->collect_at = 64;
}

size_t pins_pending(Domain& d, size_t* nbytes) {
  collect_pins(d);
  *nbytes = 0;
  for (uint32_t i = 0; i < d.books->n_out; ++i)
    *nbytes += d.pin(uint32_t(d.row), d.books->pin_out[i]).nbytes.load(relaxed);
  return d.books->n_out;
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

bool is_void(Domain& d, const PinFields& f) {
  if (f.via_slot >= d.slots || f.via_index >= kBlocks) return false;
  if (f.via_slot == f.slot && f.via_inc == f.inc && f.via_index == f.index && f.via_gen == f.gen)
    return true;
  if (SlotWord::of(d.slot[f.via_slot].word.load(acquire)).inc != f.via_inc) return true;
  return gen_of(d.word(f.via_slot, f.via_index).load(acquire)) != f.via_gen;
}

}  // namespace shmtensor
