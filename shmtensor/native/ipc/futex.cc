// Futex waits on shared words; futex.h says how they are used.
#include "ipc/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "python.h"
#if __has_include("memory/ledger/ledger.h")
#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"
#endif

namespace shmtensor {

namespace {

constexpr double kSpin = 50e-6;       // what an answer restores
constexpr double kLongSpin = 200e-6;  // at most
constexpr double kLeastSpin = 3e-6;   // less is none
constexpr double kAway = 15e-6;       // 32 looks take 2 us
constexpr unsigned kProbe = 64;       // one wait in so many spins in full, whatever the last ones taught
constexpr double kSlice = 25e-3;
constexpr int kSlicesPerLook = 8;  // then the caller looks for Python's signals

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout, nullptr, 0);
}

bool one_cpu() {
  static const bool one = sysconf(_SC_NPROCESSORS_ONLN) < 2;
  return one;
}

// Note [Spin]
// Spinning pays when the other side runs on another CPU and answers soon: about as soon as this one could be woken. That
// is 50 us; but a side that has slept for long needs that itself before it begins, so an answer after t raises the
// budget to 2 t, up to 200 us. On a busy machine the other side may wait for this very CPU, and the spin is what keeps it
// waiting: then each spin that ends without an answer halves the next one, down to none, and one that is answered
// restores it (measured: 114 us a round trip with a fixed spin, 10 so). Now and then a full one looks whether times have
// changed.
struct Spin {
  double budget = kLongSpin;
  unsigned waits = 0;
  double next() { return one_cpu() ? 0.0 : ++waits % kProbe == 0 ? kLongSpin : budget; }
  // A long step between two looks: this thread was taken off its CPU, and the answer came because of that.
  void answered(double after, double step) {
    step < kAway ? void(budget = std::min(std::max(kSpin, 2 * after), kLongSpin)) : failed();
  }
  void failed() { budget = budget < 2 * kLeastSpin ? 0.0 : budget / 2; }
};
thread_local Spin spin_of_thread;

// The lock of a row costs 0.3 us to ask for; whether a process that still has it is on its way out says /proc, for 30.
int find_lost(const Peer* peers, int n, bool closely) {
#if __has_include("memory/ledger/ledger.h")
  answer_in_wait();
  for (int i = 0; i < n; i++)
    if (life_of(domain, peers[i].row, peers[i].inc, closely) != Life::Alive) return i;
#else
  (void)peers, (void)n, (void)closely;
#endif
  return -1;
}

}  // namespace

double monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void wake(std::atomic<uint32_t>* word, int n) {
  fault("wake");
  int kept = errno;
  futex(word, FUTEX_WAKE, static_cast<uint32_t>(n), nullptr);
  errno = kept;
}

bool spin_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s) {
  if (word->load(std::memory_order_acquire) != value) return true;
  double start = monotonic();
  double spin = spin_of_thread.next();
  if (timeout_s >= 0) spin = std::min(spin, timeout_s);
  double now = start;
  while (now - start < spin) {
    double before = now;
    for (int i = 0; i < 32; i++) {
      if (word->load(std::memory_order_acquire) != value) {
        now = monotonic();
        spin_of_thread.answered(now - start, now - before);
        return true;
      }
      relax();
    }
    now = monotonic();
  }
  if (spin > 0) spin_of_thread.failed();
  return false;
}

Wait wait_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s, const Peer* peers, int n,
                      int* lost, bool spins, const News& news) {
  if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
  double start = monotonic();
  if (spins && spin_while_equal(word, value, timeout_s)) return Wait::Ok;
  for (int slice = 0; slice < kSlicesPerLook; slice++) {
    double rest = timeout_s < 0 ? kSlice : timeout_s - (monotonic() - start);
    bool last = timeout_s >= 0 && rest <= kSlice;
    if (rest > 0) {
      double length = std::min(rest, kSlice);
      timespec slice_time{static_cast<time_t>(length), static_cast<long>((length - static_cast<time_t>(length)) * 1e9)};
      long rc = futex(word, FUTEX_WAIT, value, &slice_time);
      int why = errno;
      if (rc == 0 || why == EAGAIN) return Wait::Ok;
      if (why == EINTR) return Wait::Interrupted;
    }
    if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
    int dead = find_lost(peers, n, last || slice % 2);
    if (dead >= 0) {
      // What the dead one did last counts: its stores are visible once its death is.
      if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
      if (lost) *lost = dead;
      return Wait::PeerLost;
    }
    if (last) return Wait::Timeout;
    if (news.came()) return Wait::Interrupted;
  }
  return Wait::Interrupted;
}

}  // namespace shmtensor
