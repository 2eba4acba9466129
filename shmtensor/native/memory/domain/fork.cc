// Fork: the child has its row, its lock and its holds before it runs.
//
// Note [Freeze]: when no row is free for a child, the live blocks of the parent are frozen: never reclaimed while parent
// or child lives. The child keeps the parent's lock description open, so the parent's row stays until both have ended.
// The child owns nothing, allocates privately, sends copies (is_shared is false for it) and warns once. In mode
// "process" nothing connects the parent's row to the child; the row, its holds and its slots then stay until the domain
// ends.
#include <pthread.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shmtensor {

static thread_local Self last_forked = {-1, 0};

Self last_child() { return last_forked; }

// Changes 1 (private) to 2 (shared) in 64 bytes of a byte map; returns a bit for each held block (2, 4, 5).
static uint64_t share_private_blocks(uint8_t* bytes) {
  uint64_t held = 0;
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128(), one = _mm_set1_epi8(kPrivate), limbo = _mm_set1_epi8(kLimbo);
  for (int i = 0; i < 4; ++i) {
    __m128i* at = reinterpret_cast<__m128i*>(bytes + 16 * i);
    __m128i x = _mm_loadu_si128(at);
    __m128i is_private = _mm_cmpeq_epi8(x, one);
    if (_mm_movemask_epi8(is_private)) {
      x = _mm_sub_epi8(x, is_private);  // minus -1
      _mm_storeu_si128(at, x);
    }
    unsigned not_held = unsigned(_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(x, zero), _mm_cmpeq_epi8(x, limbo))));
    held |= uint64_t(~not_held & 0xFFFF) << (16 * i);
  }
#else
  for (int i = 0; i < 64; ++i) {
    if (bytes[i] == kPrivate) bytes[i] = kShared;
    held |= uint64_t(bytes[i] != kFree && bytes[i] != kLimbo) << i;
  }
#endif
  return held;
}

// Counts the bits before it sets them: nheld is an upper bound at any moment.
static void copy_slot(Domain& d, uint32_t s, uint32_t child, Arena* a) {
  uint64_t bits[kBitWords];
  uint32_t words = a->nwords(), n = 0;
  if (a->ownership == Ownership::Own) {
    for (uint32_t w = 0; w < words; ++w) {
      bool in_use = a->kind == kHuge || a->page[w].cls != kNoClass;
      bits[w] = in_use ? share_private_blocks(a->byte + 64 * w) : 0;
      n += uint32_t(__builtin_popcountll(bits[w]));
    }
  } else {
    Word* own_bits = d.bits(s, uint32_t(d.row));
    for (uint32_t w = 0; w < words; ++w) {
      bits[w] = own_bits[w].load(relaxed);
      n += uint32_t(__builtin_popcountll(bits[w]));
    }
  }
  if (!n) return;
  d.nheld(child, s).store(n, relaxed);
  fault("fork.counted");
  Word* child_bits = d.bits(s, child);
  for (uint32_t w = 0; w < words; ++w)
    if (bits[w]) child_bits[w].store(bits[w], relaxed);
  fault("fork.copied");
}

template <class F>
static void each_arena(Domain& d, F f) {
  each_slot(d, [&](uint32_t s) {
    if (d.arenas[s] && d.arenas[s]->slot == s) f(s, d.arenas[s]);
  });
}

static void freeze(Domain& d) {
  each_arena(d, [&d](uint32_t s, Arena* a) {
    if (a->ownership == Ownership::Own) {
      for (uint32_t b = 0; b < a->entries(); ++b)
        if (a->byte[b] == kPrivate || a->byte[b] == kShared || a->byte[b] == kCounted) a->byte[b] = kFrozen;
      return;
    }
    Word* bits = d.bits(s, uint32_t(d.row));
    for (uint32_t w = 0; w < a->nwords(); ++w)
      for (uint64_t remaining = bits[w].load(relaxed); remaining; remaining &= remaining - 1) {
        uint32_t index = w * 64 + uint32_t(__builtin_ctzll(remaining));
        if (HoldCount* hold = hold_count_at(a, index)) {
          if (hold->count >= kFrozenHolds) continue;
          if (!hold->count) hold->units = uint32_t(block_bytes(a, index) / 64);
          hold->count += kFrozenHolds;
        }
      }
  });
}

static void prepare_row(Domain& d) {
  d.fork_row = d.fork_lock = -1;
  if (!d.ready.load(acquire) || d.rowless) return;
  sweep(d, false);
  if (prepare_fork(d)) {
    d.fork_row = claim_row(d, d.fork_lock, kRowBorn);
    if (d.fork_row < 0) {
      expire_messages(d, true, 0);
      sweep(d, true);
      d.fork_row = claim_row(d, d.fork_lock, kRowBorn);
    }
  }
  if (d.fork_row < 0) {
    freeze(d);
    if (by_process(d)) d.rows[d.row].frozen.store(d.inc, release);
    fault("fork.frozen");
    return;
  }
  uint32_t child = uint32_t(d.fork_row);
  d.fork_inc = inc_of_row(d.rows[child].state.load(relaxed));
  fault("fork.born");
  each_arena(d, [&d, child](uint32_t s, Arena* a) {
    if (a->ownership == Ownership::Own || d.nheld(uint32_t(d.row), s).load(relaxed)) copy_slot(d, s, child, a);
  });
  fence();
  // A copied bit is a new hold: validates each block where a reclaimer may be between its mark and its last CAS.
  each_arena(d, [&d, child](uint32_t s, Arena* a) {
    if (a->ownership == Ownership::Own || d.nheld(child, s).load(relaxed) == 0) return;
    bool is_dying = SlotWord::of(d.slot[s].word.load(acquire)).state == kSlotDying;
    if (!is_dying && !d.slot[s].reclaiming.load(acquire)) return;
    Word* bits = d.bits(s, child);
    for (uint32_t w = 0; w < a->nwords(); ++w)
      for (uint64_t remaining = bits[w].load(relaxed); remaining; remaining &= remaining - 1) {
        uint32_t index = w * 64 + uint32_t(__builtin_ctzll(remaining));
        validate(d, s, a->inc, index, gen_of(d.word(s, index).load(acquire)), true);
      }
  });
  fault("fork.ready");
}

static void prepare() {
  domain_ensure_quiet();
  quiesce();
  prepare_row(domain);
  each_guest(prepare_row);
}

static void parent_row(Domain& d) {
  if (!d.ready.load(acquire) || d.rowless) return;
  finish_fork_in_parent(d);
  if (d.spare < 0 && !by_process(d)) d.spare = open_description(d);
}

static void parent() {
  last_forked = domain.fork_row < 0 ? Self{-1, 0} : Self{domain.fork_row, domain.fork_inc};
  parent_row(domain);
  each_guest(parent_row);
  fault("fork.parent");
  resume();
}

// False: this process has no row.
static bool child_row(Domain& d) {
  if (d.fork_row < 0) {
    d.rowless = true;  // and the parent's lock description stays open
    d.shared = 0;
    if (d.fork_lock >= 0) close(d.fork_lock);
    d.fork_lock = -1;
    close_fork_pipes(d);
    fault("fork.rowless");
    return false;
  }
  fault("fork.child");
  finish_fork_in_child(d);
  d.row = d.fork_row;
  d.inc = d.fork_inc;
  d.share_error = nullptr;
  d.checked_ms = 0;
  identify_row(d, d.row);
  fault("fork.identified");
  d.rows[d.row].state.store(row_word_of(d.inc, kRowLive), release);
  fault("fork.live");
  if (!by_process(d)) d.spare = open_description(d);
  clear_entries(d);
  d.holds -= d.device_holds;  // slots of kind kDevice were not copied: a forked child cannot use its parent's GPU memory
  d.device_holds = 0;
  each_arena(d, [&d](uint32_t s, Arena* a) {
    if (d.nheld(uint32_t(d.row), s).load(relaxed) == 0) drop_arena(a);
    else if (a->ownership == Ownership::Own) a->ownership = Ownership::Inherited, a->is_binned = false;
  });
  d.counts = {};
  return true;
}

static void child() {
  last_forked = {-1, 0};
  if (domain_ready() && !domain.rowless) {
    if (!child_row(domain)) expect_attention();
    heap_after_fork();
  }
  each_guest([](Domain& d) {
    if (!d.rowless && !child_row(d)) hide_guest(d);
  });
  resume();
}

void install_fork_handlers() { pthread_atfork(prepare, parent, child); }

}  // namespace shmtensor
