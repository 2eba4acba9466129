// Waiting on a word of shared memory: spins for a moment, then sleeps in the kernel; a death ends the wait.
//
//   spin <= 200 us (Note [Spin] in futex.cc) -> FUTEX_WAIT in slices of 25 ms -> after each slice: are the peers alive?
//
// A waiter loads the word, reads the state, then calls wait_while_equal with the loaded value. A process that changes the
// state changes the word (release) before wake(). So no wake is lost between reading and sleeping. The futexes are
// shared (not FUTEX_PRIVATE): the word is in a mapped file and its waiters are in several processes.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

namespace shmtensor {

struct Domain;

struct Peer {
  int row;
  uint32_t inc;
};

// A second word that a wait reads after each slice; a process that changes it need not wake the waiters.
struct EventWord {
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t value = 0;
  bool has_changed() const { return word && word->load(std::memory_order_acquire) != value; }
};

// Interrupted: a signal, a change of the event word, or 200 ms without either. The caller takes the GIL, checks for
// signals (PyErr_CheckSignals) and continues to wait for the remaining time.
enum class Wait { Ok, Timeout, PeerLost, Interrupted };

// Call without the GIL. timeout_s < 0: no limit. Ok: the word differs from value, or a wake came (check again).
// PeerLost: *lost is the index of a peer that is dead or doomed. Peers are rows of `members`; nullptr: of the own domain.
Wait wait_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s, const Peer* peers, int n, int* lost,
                      bool spins = true, const EventWord& event = {}, Domain* members = nullptr);
// Only the spin of such a wait: whether the word differed. A spinning thread needs no wake.
bool spin_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s);
void wake(std::atomic<uint32_t>* word, int n = INT_MAX);

// CLOCK_MONOTONIC, which all processes share, in seconds.
double monotonic();

// The deadline of several consecutive waits: remaining() is the timeout of wait_while_equal, -1: no limit.
class Deadline {
 public:
  explicit Deadline(double timeout_s) : at_(timeout_s < 0 ? -1.0 : monotonic() + timeout_s) {}
  double remaining() const {
    if (at_ < 0) return -1.0;
    double remaining = at_ - monotonic();
    return remaining > 0 ? remaining : 0.0;
  }
  bool is_over() const { return at_ >= 0 && monotonic() >= at_; }

 private:
  double at_;
};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace shmtensor
