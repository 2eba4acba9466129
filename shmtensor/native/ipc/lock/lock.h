// Locks, semaphores and conditions on words of a shared block; none of them needs a name or a descriptor.
//
//   Lock      | owner u64 = inc<<32 | row+1, 0: free | turn u32 | waiters u32 | thread u64 | depth u32 |
//   Semaphore | turn u32 | waiters u32 | bounded u32 | limit u32 | slots u32 | loose u32 | u64 per slot: |
//             | owner as of a lock; 0: free; kReturned: free, because its owner died with it                |
//   Places    | tickets u64 | high u32 | - | place[kPlaces]: who u64, state u32, -, ticket u64, - |    (a condition)
//
// The lock of a dead holder is not passed on silently, because the guarded data may be half written: acquire() returns
// HolderLost in all processes until one calls recover(). A count of waiters may stay too high after a waiter was killed;
// that only costs a system call per release.
//
// Note [Permits of the dead]
// The first permits of a semaphore (up to kMaxPermitSlots) are slots that name their holder. So acquiring, releasing and
// returning a dead process's permit are one CAS each, and a kill between two instructions leaves no partial state.
// Further permits, and those released by a process that held none, are `loose`: a plain count, because a semaphore that
// starts at 0 is a signal without owner. A release by a process without permits frees the slot of another holder, dead
// or alive, or one that a death has returned already (kReturned), so that a permit acquired in one process and released
// in another (room in a buffer) is not counted twice. The permits of a process that ended with exit code 0 stay
// acquired, as in the standard library: the process may have passed them on.
#pragma once

#include "ipc/futex.h"

namespace shmtensor {

struct LockWord {
  std::atomic<uint64_t> owner;
  std::atomic<uint32_t> turn;
  std::atomic<uint32_t> waiters;
  std::atomic<uint64_t> thread;  // of the owner; written and read by the owner alone
  std::atomic<uint32_t> depth;
};

constexpr uint32_t kMaxPermitSlots = 1024;
constexpr uint64_t kReturned = UINT64_MAX;

struct SemaphoreWord {
  std::atomic<uint32_t> turn;  // changes when permits come
  std::atomic<uint32_t> waiters;
  uint32_t bounded;
  uint32_t limit;
  uint32_t slots;
  std::atomic<uint32_t> loose;
  uint32_t unused[10];
  std::atomic<uint64_t>* owner() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }
};
static_assert(sizeof(SemaphoreWord) == 64, "a line, then the slots");

constexpr int kPlaces = 254;

struct Place {
  std::atomic<uint64_t> who;
  std::atomic<uint32_t> state;  // 0 idle, 1 waiting, 2 notified
  uint32_t unused;
  std::atomic<uint64_t> ticket;  // order of arrival
  uint64_t spare;
};

struct Places {
  std::atomic<uint64_t> tickets;
  std::atomic<uint32_t> high;
  uint32_t unused[13];
  Place place[kPlaces];
};

enum class LockResult { Ok, Timeout, HolderLost, Interrupted };

inline uint64_t pack(Peer peer) { return static_cast<uint64_t>(peer.inc) << 32 | static_cast<uint32_t>(peer.row + 1); }
inline Peer unpack(uint64_t word) { return {static_cast<int>(word & 0xFFFFFFFFu) - 1, static_cast<uint32_t>(word >> 32)}; }

// All without the GIL. *lost: the dead holder.
LockResult take_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost);
void free_lock(LockWord* lock);
// Takes a lock from a dead holder (its row can be locked, so none of its threads runs).
LockResult recover_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost);

Wait acquire_permit(SemaphoreWord* semaphore, Peer me, double timeout_s);
bool release_permits(SemaphoreWord* semaphore, Peer me, uint32_t n);  // false: more than the limit
uint64_t permits(SemaphoreWord* semaphore);  // available now

int enter_place(Places* places, Peer me);  // -1: all places are in use
Wait wait_at_place(Places* places, int index, double timeout_s);
void leave_place(Places* places, int index);
int notify_places(Places* places, int n);

}  // namespace shmtensor
