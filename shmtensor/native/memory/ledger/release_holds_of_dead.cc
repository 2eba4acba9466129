// Sweeping: releases the holds of dead processes and orphans their slots.
#include <stdlib.h>
#include <unistd.h>

#include "memory/device/timelines.h"
#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

// Note [Closed by mistake]: the lock is free, but a process with the recorded start time has the control file mapped.
// Then a library closed the lock's descriptor in that process, and its holds are valid. (A dead process has no mappings,
// nor has one after exec.) A forked child may close all descriptors just before it ends or executes a program
// (subprocess with preexec_fn), so it is reported when it is still so after kLostMs.
constexpr uint64_t kLostMs = 100;
static bool closed_by_mistake(const Domain& d, const Row& row) {
  int pid = int(row.pid.load(acquire));
  if (!pid || !d.pidns || row.pidns.load(relaxed) != d.pidns) return false;
  return liveness_of_process(pid, row.start.load(relaxed), row.timens.load(relaxed)) != Liveness::Dead &&
         maps_control(d, pid) == Mapped::Yes;
}

// Note [Context]: a process that uses a GPU is killed. Its lock is free as soon as its descriptors are closed, but the driver
// ends its context later (seen: 31 ms), and until then its kernels and copies may use each block that it held, received or
// owned. The driver does so before the process exits: from then on /proc shows a zombie, or nothing. So the row of such a
// process, which says so before the first of these blocks (`device`), is left alone until its exit is seen. Where nothing
// can be seen (another pid namespace, no /proc of its own), or where a living process is seen, which has executed another
// program, the row waits for exit_wait_ms since this process first found the lock free.
std::atomic<uint64_t> exit_wait_ms{2'000};

void use_device(Domain& d) {
  Half& device = d.rows[d.row].device;
  if (device.load(relaxed) == d.inc) return;
  device.store(d.inc, release);
  fault("row.device");
}

// Whether /proc here is of the pid namespace of the row's process.
static bool can_see(const Domain& d, const Row& row) {
  const uint64_t pidns = d.pidns ? d.pidns : own_pid_namespace();  // a joiner has no row yet
  if (!pidns || row.pidns.load(relaxed) != pidns || (pidns == kUntoldNamespace && !by_process(d))) return false;
  char self[32] = "";
  return readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) == int(getpid());
}

// Whether the context of the dead process may still be there.
static bool is_exiting(Domain& d, int r, uint32_t inc) {
  const Row& row = d.rows[r];
  if (row.device.load(relaxed) != inc) return false;
  const int pid = int(row.pid.load(acquire));
  const Liveness liveness =
      pid && can_see(d, row) ? liveness_of_process(pid, row.start.load(relaxed), row.timens.load(relaxed)) : Liveness::Alive;
  auto& seen = d.local->exiting[r];
  const uint64_t now = now_ms();
  if (seen.inc != inc || now < seen.since_ms) seen = {inc, now};
  return liveness == Liveness::Doomed || (liveness == Liveness::Alive && now - seen.since_ms < exit_wait_ms.load(relaxed));
}

int rows_exiting(Domain& d) {
  int found = 0;
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r) {
    const uint64_t state = d.rows[r].state.load(acquire);
    found += state_of_row(state) == kRowLive && d.local->exiting[r].inc == inc_of_row(state);
  }
  return found;
}

static void release_slot_of_dead(Domain& d, uint32_t s, uint32_t row) {
  Word& word = d.slot[s].word;
  uint64_t old = word.load(acquire);
  SlotWord w = SlotWord::of(old);
  if (w.owner != row || w.state == kSlotFree) return;
  switch (w.state) {
    case kSlotLive:
      w.owner = kNobody;
      if (d.slot[s].kind.load(relaxed) == kDevice) {  // its memory ends with the processes that have it open
        w.state = kSlotLost;
        swap_word(word, old, w.packed());
        fault("sweep.lost");
        break;
      }
      // Its reclaimer is dead; marks in block words are rescued or guarded by inc.
      d.slot[s].reclaiming.store(0, relaxed);
      fault("sweep.unmarked");
      swap_word(word, old, w.packed());
      fault("sweep.orphan");
      break;
    case kSlotClaimed:
      free_slot_word(d, s);
      fault("sweep.claimed");
      break;
    case kSlotTail: {
      fault("sweep.tail.found");
      uint32_t back = d.slot[s].back.load(relaxed);
      if (back && back <= s) {
        SlotWord head = SlotWord::of(d.slot[s - back].word.load(acquire));
        bool is_alive = head.state == kSlotLive || head.state == kSlotDying || head.state == kSlotFreeing;
        if (is_alive && d.slot[s - back].length.load(relaxed) > back) return;
      }
      // By CAS: an orphan's tails still name the row of the dead process. Since the load of the word, the reclaimer of
      // that orphan may have freed this slot, and another process may have claimed it.
      w.state = kSlotFreeing;
      if (!swap_word(word, old, w.packed())) return;
      fault("sweep.tail");
      finish_freeing(d, s);
      break;
    }
    case kSlotFreeing:
      finish_freeing(d, s);
      fault("sweep.freed");
      break;
    default: break;
  }
}

void sweep_row(Domain& d, int r) {
  Row& row = d.rows[r];
  uint64_t state = row.state.load(acquire);
  if (state_of_row(state) == kRowFree || state_of_row(state) == kRowZombie) return;
  if (!by_process(d) && closed_by_mistake(d, row)) {
    auto& seen = d.local->lost[r];
    const uint64_t now = now_ms();
    if (seen.inc != inc_of_row(state)) seen = {inc_of_row(state), now};
    if (seen.since_ms && now - seen.since_ms >= kLostMs) {
      seen.since_ms = 0;
      ++d.counts.lost_locks;
      report_lost(int(row.pid.load(acquire)), row.role);
    }
    return;
  }
  if (is_exiting(d, r, inc_of_row(state))) return;
  fault("sweep.locked");
  for (uint32_t s = 0; s < d.slots; ++s) {
    Half& n = d.nheld(uint32_t(r), s);
    if (n.load(acquire) == 0) continue;
    Word* bits = d.bits(s, uint32_t(r));
    for (uint32_t w = 0; w < kBitWords; ++w)
      if (bits[w].load(relaxed)) bits[w].store(0, release);
    fault("sweep.bits");
    n.store(0, release);
    fault("sweep.uncounted");
  }
  // Downwards: a tail is handled while its head still has its state.
  for (int v = 1; v >= 0; --v) {
    uint32_t first = v ? d.slots / 2 : 0;
    for (uint32_t s = first + d.header->slot_high[v].load(acquire); s-- > first;) release_slot_of_dead(d, s, uint32_t(r));
  }
  if (row.device.load(relaxed) == inc_of_row(state)) end_timelines(d, uint32_t(r));
  row.timens.store(d.timens, relaxed);  // of this clock; Note [Time namespace]
  row.death_ms.store(now_ms(), relaxed);
  fault("sweep.zombie");
  row.state.store(row_word_of(inc_of_row(state), kRowZombie), release);
  fault("sweep.done");
  ++d.counts.rows_swept;
}

static bool lives_in(Domain& d, uint64_t timens) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r) {
    RowState state = state_of_row(d.rows[r].state.load(acquire));
    if ((state == kRowLive || state == kRowBorn) && d.rows[r].timens.load(relaxed) == timens) return true;
  }
  return false;
}

// The caller has obtained the row. True: the row is free for the next process.
bool settle_row(Domain& d, int r, bool under_pressure) {
  Row& row = d.rows[r];
  uint64_t state = row.state.load(acquire);
  if (state_of_row(state) != kRowZombie) return state_of_row(state) == kRowFree;
  uint64_t now = now_ms();
  // A sweeper of another time namespace noted the time by its clock: the grace period begins again, by the founder's, or, if
  // nobody lives who has either clock, by this one.
  const uint64_t noted = row.timens.load(relaxed), founders = d.header->timens;
  if (noted != d.timens && (d.timens == founders || (!lives_in(d, noted) && !lives_in(d, founders)))) {
    row.timens.store(d.timens, relaxed);
    row.death_ms.store(now, relaxed);
  }
  bool is_own_clock = row.timens.load(relaxed) == d.timens;
  uint64_t death = row.death_ms.load(relaxed);
  uint64_t grace = under_pressure ? unread_grace_ms.load(relaxed) : dead_grace_ms.load(relaxed);
  bool pending = false;
  for (uint32_t i = 0, n = row.in_flight_high.load(acquire); i < n; ++i) {
    InFlight& entry = d.entry(uint32_t(r), i);
    uint64_t word;
    InFlightFields f;
    if (!read_entry(entry, &word, &f)) continue;
    uint64_t since = f.time_ms > death && f.time_ms <= now ? f.time_ms : death;
    if (is_void(d, f) || (f.via_slot == kNoSlot && is_own_clock && now - since >= grace && now >= since)) {
      if (swap_word(entry.word, word, ((word >> 1) + 1) << 1)) ++d.counts.expired_messages;
      fault("settle.pin");
    } else {
      pending = true;
    }
  }
  if (pending) return false;
  row.state.store(row_word_of(inc_of_row(state), kRowFree), release);
  fault("settle.free");
  return true;
}

int sweep(Domain& d, bool force) {
  uint64_t now = now_ms();
  if (d.rowless || d.read_only || (!force && now < d.next_sweep)) return 0;
  // Jittered: processes that reclaim the same orphan by turns only disturb each other.
  d.next_sweep = now + 100 + (uint64_t(d.row) * 7 + now) % 23;
  ++d.counts.sweeps;
  int swept = 0;
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r) {
    if (int(r) == d.row) continue;
    RowState state = state_of_row(d.rows[r].state.load(acquire));
    if (state == kRowFree || !obtain_row(d, d.lock, int(r), force)) continue;
    uint64_t before = d.counts.rows_swept;
    sweep_row(d, int(r));
    swept += int(d.counts.rows_swept - before);
    settle_row(d, int(r), false);
    yield_row(d, d.lock, int(r));
    fault("sweep.yielded");
  }
  reclaim_orphans(d);
  return swept;
}

int sweep_all(bool force) {
  int swept = sweep(domain, force);
  each_guest([&](Domain& d) { swept += sweep(d, force); });
  return swept;
}

}  // namespace shmtensor
