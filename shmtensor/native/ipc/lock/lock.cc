// Locks and conditions on shared words; lock.h has the layout and the effects of a death.
#include "ipc/lock/lock.h"

#include <algorithm>
#include <vector>

#include "memory/inspect/fault_points.h"
#include "ipc/liveness.h"

namespace shmtensor {

LockResult take_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost) {
  Deadline deadline(timeout_s);
  for (;;) {
    uint32_t turn = lock->turn.load(std::memory_order_seq_cst);
    uint64_t holder = 0;
    if (lock->owner.compare_exchange_strong(holder, pack(me), std::memory_order_seq_cst)) {
      fault("lock.taken");
      return LockResult::Ok;
    }
    Peer peer = unpack(holder);
    if (deadline.is_over()) {
      if (is_alive(peer)) return LockResult::Timeout;
      *lost = peer;
      return LockResult::HolderLost;
    }
    int index = 0;
    lock->waiters.fetch_add(1, std::memory_order_seq_cst);
    fault("lock.waiting");
    Wait result = wait_while_equal(&lock->turn, turn, deadline.remaining(), &peer, 1, &index);
    lock->waiters.fetch_sub(1, std::memory_order_seq_cst);
    if (result == Wait::Interrupted) return LockResult::Interrupted;
    if (result == Wait::PeerLost && lock->owner.load(std::memory_order_acquire) == holder) {
      *lost = peer;
      return LockResult::HolderLost;
    }
  }
}

void free_lock(LockWord* lock) {
  lock->owner.store(0, std::memory_order_seq_cst);
  fault("lock.freed");
  lock->turn.fetch_add(1, std::memory_order_seq_cst);
  fault("lock.turned");
  if (lock->waiters.load(std::memory_order_seq_cst)) wake(&lock->turn, 1);
}

LockResult recover_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost) {
  Deadline deadline(timeout_s);
  for (;;) {
    uint64_t holder = lock->owner.load(std::memory_order_acquire);
    Peer peer = unpack(holder);
    if (holder == 0 || is_alive(peer)) return take_lock(lock, me, deadline.remaining(), lost);
    if (is_dead(peer)) {
      if (lock->owner.compare_exchange_strong(holder, pack(me), std::memory_order_seq_cst)) {
        fault("lock.recovered");
        return LockResult::Ok;
      }
      continue;
    }
    if (deadline.is_over()) {
      *lost = peer;
      return LockResult::HolderLost;
    }
    // Doomed: the kernel has not finished its exit, and nobody wakes us then.
    std::atomic<uint32_t> unchanged{0};
    double remaining = deadline.remaining();
    wait_while_equal(&unchanged, 0, remaining < 0 ? 2e-3 : std::min(remaining, 2e-3), nullptr, 0, nullptr);
  }
}

namespace {

void vacate(Place* place, uint64_t who) {
  place->state.store(0, std::memory_order_release);
  fault("condition.leaving");
  place->who.compare_exchange_strong(who, 0, std::memory_order_acq_rel);
  fault("condition.left");
}

}  // namespace

int enter_place(Places* places, Peer me) {
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < kPlaces; i++) {
      Place* place = &places->place[i];
      uint64_t who = 0;
      if (!place->who.compare_exchange_strong(who, pack(me), std::memory_order_acq_rel)) {
        // Takes over the place of a killed waiter, but only if no other place is free.
        if (round == 0 || !is_dead(unpack(who)) ||
            !place->who.compare_exchange_strong(who, pack(me), std::memory_order_acq_rel))
          continue;
      }
      fault("condition.entered");
      uint32_t high = places->high.load(std::memory_order_relaxed);
      while (high < static_cast<uint32_t>(i + 1) && !places->high.compare_exchange_weak(high, i + 1)) {
      }
      fault("condition.placed");
      place->ticket.store(places->tickets.fetch_add(1), std::memory_order_relaxed);
      place->state.store(1, std::memory_order_seq_cst);
      fault("condition.waiting");
      return i;
    }
  }
  return -1;
}

Wait wait_at_place(Places* places, int index, double timeout_s) {
  Place* place = &places->place[index];
  Deadline deadline(timeout_s);
  for (;;) {
    Wait result = wait_while_equal(&place->state, 1, deadline.remaining(), nullptr, 0, nullptr);
    if (place->state.load(std::memory_order_acquire) == 2) {
      vacate(place, place->who.load(std::memory_order_relaxed));
      return Wait::Ok;
    }
    if (result == Wait::Timeout) {
      uint32_t waiting = 1;
      bool is_notified = !place->state.compare_exchange_strong(waiting, 0, std::memory_order_acq_rel);
      vacate(place, place->who.load(std::memory_order_relaxed));
      return is_notified ? Wait::Ok : Wait::Timeout;
    }
    if (result == Wait::Interrupted) return result;
  }
}

void leave_place(Places* places, int index) {
  Place* place = &places->place[index];
  vacate(place, place->who.load(std::memory_order_relaxed));
}

int notify_places(Places* places, int n) {
  std::vector<std::pair<uint64_t, Place*>> waiting;
  uint32_t high = places->high.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < high; i++) {
    Place* place = &places->place[i];
    if (place->state.load(std::memory_order_seq_cst) == 1)
      waiting.emplace_back(place->ticket.load(std::memory_order_relaxed), place);
  }
  std::sort(waiting.begin(), waiting.end());
  int notified = 0;
  for (auto& [ticket, place] : waiting) {
    if (notified >= n) break;
    uint64_t who = place->who.load(std::memory_order_acquire);
    uint32_t state = 1;
    if (is_dead(unpack(who))) {  // a killed waiter must not consume the notification
      if (place->state.compare_exchange_strong(state, 0)) vacate(place, who);
      continue;
    }
    if (!place->state.compare_exchange_strong(state, 2, std::memory_order_seq_cst)) continue;
    fault("condition.notified");
    wake(&place->state, 1);
    notified++;
  }
  return notified;
}

}  // namespace shmtensor
