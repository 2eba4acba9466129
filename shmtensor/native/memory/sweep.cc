// Sweeping: what the dead held is let go, what they owned becomes an orphan.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "faults.h"
#include "ledger.h"

namespace shmtensor {

uint64_t sweeps = 0, rows_swept = 0, lost_locks = 0;

// Note [Closed by mistake]: the lock is free, but a process with the recorded start time still has
// the control file mapped. Then a library closed our descriptor in it, and its holds are real. (A
// dead one has no mappings; after exec neither.)
static bool closed_by_mistake(const Row& row) {
  int pid = int(row.pid.load(acquire));
  if (!pid || !domain.pidns || row.pidns.load(relaxed) != domain.pidns) return false;
  char state;
  unsigned long flags;
  uint64_t start;
  if (!read_process(pid, &state, &flags, &start) || start != row.start.load(relaxed) ||
      state == 'Z' || state == 'X')
    return false;
  char path[40], text[4096], wanted[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  snprintf(wanted, sizeof wanted, "%02x:%02x %llu ", major(domain.lock_dev), minor(domain.lock_dev),
           static_cast<unsigned long long>(domain.lock_ino));
  size_t kept = 0;
  bool found = false;
  for (ssize_t n; !found && (n = read(fd, text + kept, sizeof text - 1 - kept)) > 0;) {
    text[kept + size_t(n)] = 0;
    found = strstr(text, wanted) != nullptr;
    kept += size_t(n);
    size_t keep = kept < 100 ? kept : 100;  // the match may straddle two reads
    memmove(text, text + kept - keep, keep);
    kept = keep;
  }
  close(fd);
  return found;
}

static void release_slot_of_dead(uint32_t s, uint32_t row) {
  Word& word = domain.slot[s].word;
  uint64_t old = word.load(acquire);
  SlotWord w = SlotWord::of(old);
  if (w.owner != row || w.state == kSlotFree) return;
  switch (w.state) {
    case kSlotLive:
      w.owner = kNobody;
      domain.slot[s].reclaiming.store(
          0, relaxed);  // its reclaimer is dead; marks in block words are rescued or guarded by inc
      swap_word(word, old, w.packed());
      fault("sweep.orphan");
      break;
    case kSlotClaimed:
      free_slot_word(s);
      break;
    case kSlotTail: {
      uint32_t back = domain.slot[s].back.load(relaxed);
      if (back && back <= s) {
        SlotWord head = SlotWord::of(domain.slot[s - back].word.load(acquire));
        bool alive =
            head.state == kSlotLive || head.state == kSlotDying || head.state == kSlotFreeing;
        if (alive && domain.slot[s - back].length.load(relaxed) > back) return;
      }
      punch(s, 0, kSlotBytes);
      free_slot_word(s);
      break;
    }
    case kSlotFreeing:
      finish_freeing(s);
      break;
    default:
      break;
  }
}

void sweep_row(int r) {
  Row& row = domain.rows[r];
  uint64_t state = row.state.load(acquire);
  if (state_of_row(state) == kRowFree || state_of_row(state) == kRowZombie) return;
  if (closed_by_mistake(row)) {
    ++lost_locks;
    return;
  }
  fault("sweep.locked");
  for (uint32_t s = 0; s < domain.slots; ++s) {
    Half& n = domain.nheld(uint32_t(r), s);
    if (n.load(acquire) == 0) continue;
    Word* bits = domain.bits(s, uint32_t(r));
    for (uint32_t w = 0; w < kBitWords; ++w)
      if (bits[w].load(relaxed)) bits[w].store(0, release);
    fault("sweep.bits");
    n.store(0, release);
  }
  // Downwards: a tail is looked at while its head still says what it is.
  for (int v = 1; v >= 0; --v) {
    uint32_t first = v ? domain.slots / 2 : 0;
    for (uint32_t s = first + domain.header->slot_high[v].load(acquire); s-- > first;)
      release_slot_of_dead(s, uint32_t(r));
  }
  row.death_ms.store(now_ms(), relaxed);
  fault("sweep.zombie");
  row.state.store(row_word_of(inc_of_row(state), kRowZombie), release);
  ++rows_swept;
}

// The byte lock is held by the caller. True: the row is free for the next process.
bool settle_row(int r, bool pressed) {
  Row& row = domain.rows[r];
  uint64_t state = row.state.load(acquire);
  if (state_of_row(state) != kRowZombie) return state_of_row(state) == kRowFree;
  uint64_t now = now_ms(), death = row.death_ms.load(relaxed);
  uint64_t grace = pressed ? unread_grace_ms.load(relaxed) : dead_grace_ms.load(relaxed);
  bool pending = false;
  for (uint32_t i = 0, n = row.pin_high.load(acquire); i < n; ++i) {
    Pin& pin = domain.pin(uint32_t(r), i);
    uint64_t word;
    PinFields f;
    if (!read_pin(pin, &word, &f)) continue;
    uint64_t since = f.time_ms > death ? f.time_ms : death;
    if (is_void(f) || (f.via_slot == kNoSlot && now - since >= grace && now >= since)) {
      if (swap_word(pin.word, word, ((word >> 1) + 1) << 1)) ++expired_pins;
    } else {
      pending = true;
    }
  }
  if (pending) return false;
  row.state.store(row_word_of(inc_of_row(state), kRowFree), release);
  return true;
}

int sweep(bool force) {
  static uint64_t next = 0;
  uint64_t now = now_ms();
  if (domain.rowless || (!force && now < next)) return 0;
  // Jittered: two that reclaim the same orphan in turn only spoil each other's attempt.
  next = now + 100 + (uint64_t(domain.row) * 7 + now) % 23;
  ++sweeps;
  int swept = 0;
  for (uint32_t r = 0, rows = row_high(); r < rows; ++r) {
    if (int(r) == domain.row) continue;
    RowState state = state_of_row(domain.rows[r].state.load(acquire));
    if (state == kRowFree || try_lock(domain.lock, int(r)) != 0) continue;
    uint64_t before = rows_swept;
    sweep_row(int(r));
    swept += int(rows_swept - before);
    settle_row(int(r), false);
    unlock_row(domain.lock, int(r));
  }
  reclaim_orphans();
  return swept;
}

}  // namespace shmtensor
