// Semaphores whose permits come back from the dead; Note [Permits of the dead] in lock.h.
#include <algorithm>

#include "memory/inspect/fault_points.h"
#include "ipc/liveness.h"
#include "ipc/lock/lock.h"

namespace shmtensor {

namespace {

constexpr double kLook = 0.1;  // seconds between two looks at the holders

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

bool left_in_order(Peer peer) {
  char text[256];
  int pid, code;
  bool known;
  return describe_peer(peer.row, peer.inc, text, sizeof text, &pid, &code, &known) && known && code == 0;
}

// Frees what dead processes held. Idempotent, by whoever waits; killed on the way, the next one goes on.
bool return_from_dead(SemaphoreWord* semaphore) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  uint64_t alive = 0;  // the last holder that was found to live: they come in runs
  bool any = false;
  for (uint32_t i = 0; i < semaphore->slots; i++) {
    uint64_t who = owner[i].load(std::memory_order_seq_cst);
    if (who == 0 || who == kReturned || who == alive) continue;
    Peer peer = unpack(who);
    if (!is_dead(peer) || left_in_order(peer)) {
      alive = who;
      continue;
    }
    if (!swap(&owner[i], who, kReturned)) continue;
    fault("semaphore.returned");
    any = true;
  }
  if (any) {
    semaphore->turn.fetch_add(1, std::memory_order_seq_cst);
    fault("semaphore.turned");
    if (semaphore->waiters.load(std::memory_order_seq_cst)) wake(&semaphore->turn);
  }
  return any;
}

// Gives one slot back: an own one, else one that death has returned, else another's.
bool free_one(SemaphoreWord* semaphore, Peer me) {
  std::atomic<uint64_t>* owner = semaphore->owner();
  for (int choice = 0; choice < 3; choice++) {
    for (uint32_t i = 0; i < semaphore->slots; i++) {
      uint64_t who = owner[i].load(std::memory_order_seq_cst);
      if (who == 0) continue;
      if (choice == 0 ? who != pack(me) : choice == 1 ? who != kReturned : who == kReturned) continue;
      if (swap(&owner[i], who, 0)) {
        fault("semaphore.given");
        return true;
      }
      i--;  // it changed: look at this one again
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

Wait take_one(SemaphoreWord* semaphore, Peer me, double timeout_s) {
  Deadline deadline(timeout_s);
  for (;;) {
    uint32_t turn = semaphore->turn.load(std::memory_order_seq_cst);
    if (try_take(semaphore, me)) return Wait::Ok;
    if (deadline.passed()) return return_from_dead(semaphore) && try_take(semaphore, me) ? Wait::Ok : Wait::Timeout;
    double left = deadline.left();
    semaphore->waiters.fetch_add(1, std::memory_order_seq_cst);
    fault("semaphore.waiting");
    Wait result = wait_while_equal(&semaphore->turn, turn, left < 0 ? kLook : std::min(left, kLook), nullptr, 0, nullptr);
    semaphore->waiters.fetch_sub(1, std::memory_order_seq_cst);
    if (result == Wait::Interrupted) return result;
    if (result == Wait::Timeout) return_from_dead(semaphore);
  }
}

bool give_back(SemaphoreWord* semaphore, Peer me, uint32_t n) {
  if (semaphore->bounded) {
    uint64_t now = permits(semaphore);
    if (now + n > semaphore->limit) {
      // Those that death returned may be made good for; each counts once.
      uint32_t returned = 0;
      for (uint32_t i = 0; i < semaphore->slots; i++)
        returned += semaphore->owner()[i].load(std::memory_order_seq_cst) == kReturned;
      if (now + n > uint64_t(semaphore->limit) + returned) return false;
    }
  }
  uint32_t left = n;
  while (left && free_one(semaphore, me)) left--;
  uint32_t loose = semaphore->loose.load(std::memory_order_relaxed);
  uint32_t most = semaphore->limit - semaphore->slots;
  while (left) {
    if (left > most - std::min(most, loose)) return false;
    if (semaphore->loose.compare_exchange_weak(loose, loose + left, std::memory_order_seq_cst)) {
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
