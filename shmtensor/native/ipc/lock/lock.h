// Locks, semaphores and conditions on words of a shared block; none of them needs a name or a descriptor.
//
//   Lock      | owner u64 = inc<<32 | row+1, 0: free | turn u32 | waiters u32 | thread u64 | depth u32 |
//   Semaphore | turn u32 | waiters u32 | bounded u32 | limit u32 | slots u32 | loose u32 | a u64 for each slot:
//             | owner as of a lock, 0: free, kReturned: free, and its owner died with it |
//   Places    | tickets u64 | high u32 | - | place[kPlaces]: who u64, state u32, -, ticket u64, - |    (a condition)
//
// A lock whose holder died is not handed on silently, for what it guards may be half written: acquire() answers
// HolderLost, to everybody, until somebody calls recover(). Words that count waiters may stay too high when a waiter is
// killed; that costs a system call per release and nothing else.
//
// Note [Permits of the dead]
// A semaphore's first permits (to kMostPermitSlots) are slots that name who holds them, so taking, giving back and returning
// what a dead process held are one CAS each, and a kill between two instructions leaves nothing half done. Permits
// beyond, and those that somebody released who had none to release, are `loose`: a plain count, for a semaphore that
// starts at 0 is a signal and nobody's property. Who releases without holding releases for another: the slot of a
// dead or living holder, or it makes good for one that death has returned already (kReturned), so that a permit taken
// here and released there (room in a buffer) is not counted twice. What a process held that ended with exit code 0
// stays taken, as in the standard library: it left in order, and may have handed over.
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

constexpr uint32_t kMostPermitSlots = 1024;
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

enum class Taken { Ok, Timeout, HolderLost, Interrupted };

inline uint64_t pack(Peer peer) { return static_cast<uint64_t>(peer.inc) << 32 | static_cast<uint32_t>(peer.row + 1); }
inline Peer unpack(uint64_t word) { return {static_cast<int>(word & 0xFFFFFFFFu) - 1, static_cast<uint32_t>(word >> 32)}; }

// All without the GIL. *lost: the dead holder.
Taken take_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost);
void free_lock(LockWord* lock);
// Takes a lock from a holder that is dead (its row can be locked: no thread of it runs any more).
Taken recover_lock(LockWord* lock, Peer me, double timeout_s, Peer* lost);

Wait take_one(SemaphoreWord* semaphore, Peer me, double timeout_s);
bool give_back(SemaphoreWord* semaphore, Peer me, uint32_t n);  // false: more than the limit
uint64_t permits(SemaphoreWord* semaphore);                      // that can be taken now

int enter_place(Places* places, Peer me);  // -1: all places are taken
Wait sleep_at(Places* places, int index, double timeout_s);
void leave_place(Places* places, int index);
int notify_places(Places* places, int n);

}  // namespace shmtensor
