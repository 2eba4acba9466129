// Fork: the child has its row, its lock and its holds before it runs.
//
// Note [Freeze]: when no row is left for a child, what is live in the parent is frozen: never
// reclaimed while either lives. The child keeps the parent's lock description open, so the parent's
// row stays until both are gone; it owns nothing, allocates privately, sends copies (is_shared is
// false for it) and warns once.
#include <pthread.h>
#include <unistd.h>

#include "faults.h"
#include "heap.h"
#include "ledger.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shmtensor {

static int new_lock = -1;
static int new_row = -1;
static uint32_t new_inc = 0;
static thread_local Self forked = {-1, 0};

Self last_child() { return forked; }

// Turns 1 into 2 in 64 bytes of a byte map, and says which are held: 2, 4, 5.
static uint64_t pack(uint8_t* bytes) {
  uint64_t held = 0;
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128(), one = _mm_set1_epi8(kPrivate),
                limbo = _mm_set1_epi8(kLimbo);
  for (int i = 0; i < 4; ++i) {
    __m128i* at = reinterpret_cast<__m128i*>(bytes + 16 * i);
    __m128i x = _mm_loadu_si128(at);
    __m128i is_private = _mm_cmpeq_epi8(x, one);
    if (_mm_movemask_epi8(is_private)) {
      x = _mm_sub_epi8(x, is_private);  // minus -1
      _mm_storeu_si128(at, x);
    }
    unsigned not_held = unsigned(
        _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(x, zero), _mm_cmpeq_epi8(x, limbo))));
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

// Bits first counted, then set: nheld is an upper bound at every moment.
static void copy_slot(uint32_t s, uint32_t child, Arena* a) {
  uint64_t bits[kBitWords];
  uint32_t words = a->nwords(), n = 0;
  if (a->part == Part::Own) {
    for (uint32_t w = 0; w < words; ++w) {
      bool used = a->kind == kHuge || a->page[w].cls != kNoClass;
      bits[w] = used ? pack(a->byte + 64 * w) : 0;
      n += uint32_t(__builtin_popcountll(bits[w]));
    }
  } else {
    Word* mine = domain.bits(s, uint32_t(domain.row));
    for (uint32_t w = 0; w < words; ++w) {
      bits[w] = mine[w].load(relaxed);
      n += uint32_t(__builtin_popcountll(bits[w]));
    }
  }
  if (!n) return;
  domain.nheld(child, s).store(n, relaxed);
  Word* theirs = domain.bits(s, child);
  for (uint32_t w = 0; w < words; ++w)
    if (bits[w]) theirs[w].store(bits[w], relaxed);
  fault("fork.copied");
}

template <class F>
static void each_arena(F f) {
  for (int v = 0; v < 2; ++v) {
    uint32_t first = v ? domain.slots / 2 : 0,
             end = first + domain.header->slot_high[v].load(relaxed);
    for (uint32_t s = first; s < end; ++s)
      if (arenas[s] && arenas[s]->slot == s) f(s, arenas[s]);
  }
}

static void freeze() {
  each_arena([](uint32_t s, Arena* a) {
    if (a->part == Part::Own) {
      for (uint32_t b = 0; b < a->entries(); ++b)
        if (a->byte[b] == kPrivate || a->byte[b] == kShared || a->byte[b] == kCounted)
          a->byte[b] = kFrozen;
      return;
    }
    Word* bits = domain.bits(s, uint32_t(domain.row));
    for (uint32_t w = 0; w < a->nwords(); ++w)
      for (uint64_t rest = bits[w].load(relaxed); rest; rest &= rest - 1) {
        uint32_t index = w * 64 + uint32_t(__builtin_ctzll(rest));
        if (Held* held = held_of(a, index)) {
          if (held->count >= kFrozenHolds) continue;
          if (!held->count) held->units = uint32_t(block_bytes(a, index) / 64);
          held->count += kFrozenHolds;
        }
      }
  });
}

static void prepare() {
  domain_ensure_quiet();
  quiesce();
  new_row = -1;
  new_lock = -1;
  if (!domain_ready() || domain.rowless) return;
  sweep(false);
  new_lock = open_description();
  if (new_lock < 0) {
    new_lock = domain.spare;
    domain.spare = -1;
  }
  if (new_lock >= 0) {
    new_row = claim_row(new_lock, kRowBorn);
    if (new_row < 0) {
      expire_pins(true, 0);
      sweep(true);
      new_row = claim_row(new_lock, kRowBorn);
    }
  }
  if (new_row < 0) {
    freeze();
    return;
  }
  uint32_t child = uint32_t(new_row);
  new_inc = inc_of_row(domain.rows[child].state.load(relaxed));
  fault("fork.born");
  each_arena([child](uint32_t s, Arena* a) {
    if (a->part == Part::Own || domain.nheld(uint32_t(domain.row), s).load(relaxed))
      copy_slot(s, child, a);
  });
  fence();
  // A copied row is a new hold: where a reclaimer may be between its mark and its last CAS, each
  // block is validated.
  each_arena([child](uint32_t s, Arena* a) {
    if (a->part == Part::Own || domain.nheld(child, s).load(relaxed) == 0) return;
    bool dying = SlotWord::of(domain.slot[s].word.load(acquire)).state == kSlotDying;
    if (!dying && !domain.slot[s].reclaiming.load(acquire)) return;
    Word* bits = domain.bits(s, child);
    for (uint32_t w = 0; w < a->nwords(); ++w)
      for (uint64_t rest = bits[w].load(relaxed); rest; rest &= rest - 1) {
        uint32_t index = w * 64 + uint32_t(__builtin_ctzll(rest));
        validate(s, a->inc, index, gen_of(domain.word(s, index).load(acquire)));
      }
  });
  fault("fork.ready");
}

static void parent() {
  forked = {new_row, new_inc};
  if (new_row < 0) forked = {-1, 0};
  if (new_lock >= 0) close(new_lock);
  new_lock = -1;
  if (domain_ready() && !domain.rowless && domain.spare < 0) domain.spare = open_description();
  fault("fork.parent");
  resume();
}

static void child() {
  forked = {-1, 0};
  if (domain_ready() && !domain.rowless) {
    if (new_row < 0) {
      domain.rowless = true;  // and the parent's lock description stays open
      domain.shared = 0;
      if (new_lock >= 0) close(new_lock);
      expect_attention();
    } else {
      fault("fork.child");
      close(domain.lock);
      if (domain.spare >= 0) close(domain.spare);
      domain.lock = new_lock;
      domain.row = new_row;
      domain.inc = new_inc;
      domain.lost = nullptr;
      domain.checked_ms = 0;
      identify_row(new_row);
      domain.rows[new_row].state.store(row_word_of(new_inc, kRowLive), release);
      fault("fork.live");
      domain.spare = open_description();
      forget_pins();
      each_arena([](uint32_t s, Arena* a) {
        if (domain.nheld(uint32_t(domain.row), s).load(relaxed) == 0)
          drop_arena(a);
        else if (a->part == Part::Own)
          a->part = Part::Inherited;
      });
      exported = received = acknowledged = stale_handles = 0;
      reclaim_passes = reclaimed_blocks = orphans_freed = expired_pins = sweeps = rows_swept =
          lost_locks = 0;
    }
    heap_after_fork();
  }
  new_lock = -1;
  resume();
}

void install_fork_handlers() { pthread_atfork(prepare, parent, child); }

}  // namespace shmtensor
