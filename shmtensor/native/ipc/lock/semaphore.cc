// Semaphores; dead processes return their permits: Note [Permits of the dead] in lock.h.
#include <algorithm>

#include "memory/inspect/fault_points.h"
#include "ipc/liveness.h"
#include "ipc/lock/lock.h"

namespace shmtensor {

namespace {

constexpr double kCheckInterval = 0.1;  // seconds between two checks of the holders

bool swap(std::atomic<uint64_t>* slot, uint64_t from, uint64_t to) {
  return slot->compare_exchange_strong(from, to, std::memory_order_seq_cst);
}

bool try_take(SemaphoreWord* semaphore, Peer me) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  for (uint32_t i = 0; i < semaphore->slots; i++) {
    uint64_t who = owner[i].load(std::memory_order_seq_cst);
    if ((who == 0 || who == kReturned) && swap(&owner[i], who, pack(me))) {
      fault("semaphore.taken");
      return true;
    }
  }
  uint32_t loose = semaphore->loose.load(std::memory_order_seq_cst);
  while (loose > 0)
    if (semaphore->loose.compare_exchange_weak(loose, loose - 1, std::memory_order_seq_cst)) {
      fault("semaphore.loose.taken");
      return true;
    }
  return false;
}

bool exited_cleanly(Peer peer) {
  char text[256];
  int pid, code;
  bool has_code;
  return describe_peer(peer.row, peer.inc, text, sizeof text, &pid, &code, &has_code) && has_code && code == 0;
}

// Frees the permits of dead processes. Called by waiters; idempotent, so after a kill the next waiter continues.
bool return_from_dead(SemaphoreWord* semaphore) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  uint64_t alive = 0;  // the last living holder; its permits are often adjacent
  bool has_changed = false;
  for (uint32_t i = 0; i < semaphore->slots; i++) {
    uint64_t who = owner[i].load(std::memory_order_seq_cst);
    if (who == 0 || who == kReturned || who == alive) continue;
    Peer peer = unpack(who);
    if (!is_dead(peer) || exited_cleanly(peer)) {
      alive = who;
      continue;
    }
    if (!swap(&owner[i], who, kReturned)) continue;
    fault("semaphore.returned");
    has_changed = true;
  }
  if (has_changed) {
    semaphore->turn.fetch_add(1, std::memory_order_seq_cst);
    fault("semaphore.turned");
    if (semaphore->waiters.load(std::memory_order_seq_cst)) wake(&semaphore->turn);
  }
  return has_changed;
}

// Frees one slot: an own one, else one that a death has returned, else that of another holder.
bool release_one(SemaphoreWord* semaphore, Peer me) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  for (int pass = 0; pass < 3; pass++) {
    for (uint32_t i = 0; i < semaphore->slots; i++) {
      uint64_t who = owner[i].load(std::memory_order_seq_cst);
      if (who == 0) continue;
      if (pass == 0 ? who != pack(me) : pass == 1 ? who != kReturned : who == kReturned) continue;
      if (swap(&owner[i], who, 0)) {
        fault("semaphore.given");
        return true;
      }
      i--;  // it has changed: check it again
    }
  }
  return false;
}

}  // namespace

uint64_t permits(SemaphoreWord* semaphore) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  uint64_t n = semaphore->loose.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < semaphore->slots; i++) {
    uint64_t who = owner[i].load(std::memory_order_seq_cst);
    n += who == 0 || who == kReturned;
  }
  return n;
}

Wait acquire_permit(SemaphoreWord* semaphore, Peer me, double timeout_s) {
  Deadline deadline(timeout_s);
  for (;;) {
    uint32_t turn = semaphore->turn.load(std::memory_order_seq_cst);
    if (try_take(semaphore, me)) return Wait::Ok;
    if (deadline.is_over()) return return_from_dead(semaphore) && try_take(semaphore, me) ? Wait::Ok : Wait::Timeout;
    double remaining = deadline.remaining();
    semaphore->waiters.fetch_add(1, std::memory_order_seq_cst);
    fault("semaphore.waiting");
    Wait result = wait_while_equal(
        &semaphore->turn, turn, remaining < 0 ? kCheckInterval : std::min(remaining, kCheckInterval), nullptr, 0, nullptr);
    semaphore->waiters.fetch_sub(1, std::memory_order_seq_cst);
    if (result == Wait::Interrupted) return result;
    if (result == Wait::Timeout) return_from_dead(semaphore);
  }
}

bool release_permits(SemaphoreWord* semaphore, Peer me, uint32_t n) {
  if (semaphore->bounded) {
    uint64_t now = permits(semaphore);
    if (now + n > semaphore->limit) {
      // Permits that deaths have returned may still be released; each counts once.
      uint32_t returned = 0;
      for (uint32_t i = 0; i < semaphore->slots; i++)
        returned += semaphore->owner()[i].load(std::memory_order_seq_cst) == kReturned;
      if (now + n > uint64_t(semaphore->limit) + returned) return false;
    }
  }
  uint32_t remaining = n;
  while (remaining && release_one(semaphore, me)) remaining--;
  uint32_t loose = semaphore->loose.load(std::memory_order_relaxed);
  uint32_t max_loose = semaphore->limit - semaphore->slots;
  while (remaining) {
    if (remaining > max_loose - std::min(max_loose, loose)) return false;
    if (semaphore->loose.compare_exchange_weak(loose, loose + remaining, std::memory_order_seq_cst)) {
      fault("semaphore.loose.given");
      break;
    }
  }
  semaphore->turn.fetch_add(1, std::memory_order_seq_cst);
  fault("semaphore.told");
  if (semaphore->waiters.load(std::memory_order_seq_cst)) wake(&semaphore->turn, static_cast<int>(n));
  return true;
}

}  // namespace shmtensor
