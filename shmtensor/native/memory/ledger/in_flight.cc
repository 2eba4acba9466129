// Entries of handles in flight: those of the own row, and reading any entry.
#include <sys/mman.h>

#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- entries of the own row: pending ones, and free ones
LocalLedger* new_local_ledger() {
  void* p = mmap(nullptr, sizeof(LocalLedger), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  LocalLedger* local = static_cast<LocalLedger*>(p);
  local->collect_at = 64;
  return local;
}

void drop_local_ledger(LocalLedger* local) {
  if (local) munmap(local, sizeof *local);
}

// Whether an entry is pending. Frees a void one: its channel is freed, so nobody will acknowledge it.
static bool is_pending(Domain& d, InFlight& entry) {
  uint64_t word;
  InFlightFields fields;
  if (!read_entry(entry, &word, &fields)) return false;
  if (!is_void(d, fields) || !swap_word(entry.word, word, ((word >> 1) + 1) << 1)) return true;
  fault("pin.void");
  return false;
}

static void collect_entries(Domain& d) {
  LocalLedger& local = *d.local;
  uint32_t n = 0;
  for (uint32_t i = 0; i < local.n_out; ++i) {
    uint32_t index = local.pending_entries[i];
    if (is_pending(d, d.entry(uint32_t(d.row), index))) local.pending_entries[n++] = index;
    else local.free_entries[local.n_free++] = index;
  }
  local.n_out = n;
  local.collect_at = n < 32 ? 64 : 2 * n;
}

int64_t take_entry(Domain& d) {
  LocalLedger& local = *d.local;
  if (!local.n_free && local.n_out >= local.collect_at) collect_entries(d);
  if (!local.n_free && local.n_used == kInFlight) collect_entries(d);
  if (local.n_free) return local.free_entries[--local.n_free];
  if (local.n_used == kInFlight) return -1;
  return local.n_used++;
}

void add_pending_entry(Domain& d, uint32_t index) { d.local->pending_entries[d.local->n_out++] = index; }

void clear_entries(Domain& d) {
  d.local->n_free = d.local->n_out = d.local->n_used = 0;
  d.local->collect_at = 64;
}

size_t count_pending_entries(Domain& d, size_t* nbytes) {
  collect_entries(d);
  *nbytes = 0;
  for (uint32_t i = 0; i < d.local->n_out; ++i)
    *nbytes += d.entry(uint32_t(d.row), d.local->pending_entries[i]).nbytes.load(relaxed);
  return d.local->n_out;
}

bool read_entry(InFlight& entry, uint64_t* word, InFlightFields* f) {
  for (;;) {
    uint64_t w = entry.word.load(acquire);
    if (!(w & 1)) return false;
    *f = {entry.slot.load(relaxed),     entry.inc.load(relaxed),     entry.index.load(relaxed),
          entry.via_slot.load(relaxed), entry.via_inc.load(relaxed), entry.via_index.load(relaxed),
          entry.gen.load(relaxed),      entry.via_gen.load(relaxed), entry.time_ms.load(relaxed),
          entry.nbytes.load(relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.word.load(relaxed) == w) {
      *word = w;
      return true;
    }
    // Acknowledged meanwhile, or published anew (its publisher validates): read again.
  }
}

bool is_void(Domain& d, const InFlightFields& f) {
  if (f.via_slot >= d.slots || f.via_index >= kBlocks) return false;
  if (f.via_slot == f.slot && f.via_inc == f.inc && f.via_index == f.index && f.via_gen == f.gen) return true;
  if (SlotWord::of(d.slot[f.via_slot].word.load(acquire)).inc != f.via_inc) return true;
  return gen_of(d.word(f.via_slot, f.via_index).load(acquire)) != f.via_gen;
}

}  // namespace shmtensor
