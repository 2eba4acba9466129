// Waiting on a word of shared memory: spin for a moment, then sleep in the kernel, and never past a death.
//
//   spin <= 200 us (as long as that pays: Note [Spin] in futex.cc) -> FUTEX_WAIT in slices of 25 ms -> after each slice: are the peers alive?
//
// A waiter reads the state, then calls wait_while_equal with the value of the word that it saw; whoever changes the
// state changes the word (release) before wake(). So no wake can fall between the look and the sleep. The futexes are
// shared ones (not FUTEX_PRIVATE): the word lies in a mapped file and its waiters in several processes.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

namespace shmtensor {

struct Peer {
  int row;
  uint32_t inc;
};

// A second word that a wait looks at after each slice; whoever changes it need not wake.
struct News {
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t seen = 0;
  bool came() const { return word && word->load(std::memory_order_acquire) != seen; }
};

// Interrupted: a signal came, or news, or 200 ms went by without either. The caller takes the GIL, looks for signals
// (PyErr_CheckSignals) and goes on waiting with what is left of its timeout.
enum class Wait { Ok, Timeout, PeerLost, Interrupted };

// Call without the GIL. timeout_s < 0: no limit. Ok: the word differs from value, or a wake came (look again).
// PeerLost: *lost is the index of a peer that is dead or doomed.
Wait wait_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s, const Peer* peers, int n,
                      int* lost, bool spins = true, const News& news = {});
// The first part of such a wait alone: whether the word differed while it spun. Nobody need wake who only spins.
bool spin_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s);
void wake(std::atomic<uint32_t>* word, int n = INT_MAX);

// A moment on a CLOCK_MONOTONIC clock that all processes share, in seconds.
double monotonic();

// Deadline of a wait that is made of several: left() is what wait_while_equal wants, -1 for no limit.
class Deadline {
 public:
  explicit Deadline(double timeout_s) : at_(timeout_s < 0 ? -1.0 : monotonic() + timeout_s) {}
  double left() const {
    if (at_ < 0) return -1.0;
    double rest = at_ - monotonic();
    return rest > 0 ? rest : 0.0;
  }
  bool passed() const { return at_ >= 0 && monotonic() >= at_; }

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
