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

constexpr double kSpin = 50e-6;       // the budget after a successful spin
constexpr double kLongSpin = 200e-6;  // the largest budget
constexpr double kMinSpin = 3e-6;     // less counts as none
constexpr double kPreempted = 15e-6;  // 32 loads take 2 us
constexpr unsigned kProbe = 64;       // one of so many waits spins in full
constexpr double kSlice = 25e-3;
constexpr int kSlicesPerCall = 8;  // then the caller looks for Python's signals

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout, nullptr, 0);
}

bool has_one_cpu() {
  static const bool one = sysconf(_SC_NPROCESSORS_ONLN) < 2;
  return one;
}

// Note [Spin]
// Spinning pays if the other side runs on another CPU and answers within the time of a wake, about 50 us. A side that
// has slept needs that time itself before it starts, so an answer after t raises the budget to 2 t, up to 200 us. On a
// busy machine the other side may wait for this CPU, which the spin occupies. So each spin without an answer halves the
// budget, down to none, and a successful one restores it (measured: 114 us per round trip with a fixed spin, 10 us with
// this one). A full spin now and then detects that the load has changed.
struct Spin {
  double budget = kLongSpin;
  unsigned waits = 0;
  double next() { return has_one_cpu() ? 0.0 : ++waits % kProbe == 0 ? kLongSpin : budget; }
  // A long step between two checks: this thread was preempted, and the answer came because of that.
  void succeeded(double after, double step) {
    step < kPreempted ? void(budget = std::min(std::max(kSpin, 2 * after), kLongSpin)) : failed();
  }
  void failed() { budget = budget < 2 * kMinSpin ? 0.0 : budget / 2; }
};
thread_local Spin spin_of_thread;

// Testing the lock of a row costs 0.3 us; /proc, which shows whether a process with the lock is exiting, costs 30 us.
int find_dead(Domain* members, const Peer* peers, int n, bool use_proc) {
#if __has_include("memory/ledger/ledger.h")
  answer_in_wait();
  for (int i = 0; i < n; i++)
    if (liveness_of(members ? *members : domain, peers[i].row, peers[i].inc, use_proc) != Liveness::Alive) return i;
#else
  (void)members, (void)peers, (void)n, (void)use_proc;
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
  int saved_errno = errno;
  futex(word, FUTEX_WAKE, static_cast<uint32_t>(n), nullptr);
  errno = saved_errno;
}

bool spin_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s) {
  if (word->load(std::memory_order_acquire) != value) return true;
  double start = monotonic();
  double spin = spin_of_thread.next();
  if (timeout_s >= 0) spin = std::min(spin, timeout_s);
  double now = start;
  while (now - start < spin) {
    double previous = now;
    for (int i = 0; i < 32; i++) {
      if (word->load(std::memory_order_acquire) != value) {
        now = monotonic();
        spin_of_thread.succeeded(now - start, now - previous);
        return true;
      }
      relax();
    }
    now = monotonic();
  }
  if (spin > 0) spin_of_thread.failed();
  return false;
}

Wait wait_while_equal(std::atomic<uint32_t>* word, uint32_t value, double timeout_s, const Peer* peers, int n, int* lost,
                      bool spins, const EventWord& event, Domain* members) {
  if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
  double start = monotonic();
  if (spins && spin_while_equal(word, value, timeout_s)) return Wait::Ok;
  for (int slice = 0; slice < kSlicesPerCall; slice++) {
    double remaining = timeout_s < 0 ? kSlice : timeout_s - (monotonic() - start);
    bool is_last = timeout_s >= 0 && remaining <= kSlice;
    if (remaining > 0) {
      double length = std::min(remaining, kSlice);
      timespec slice_time{static_cast<time_t>(length), static_cast<long>((length - static_cast<time_t>(length)) * 1e9)};
      long rc = futex(word, FUTEX_WAIT, value, &slice_time);
      int error = errno;
      if (rc == 0 || error == EAGAIN) return Wait::Ok;
      if (error == EINTR) return Wait::Interrupted;
    }
    if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
    int dead = find_dead(members, peers, n, is_last || slice % 2);
    if (dead >= 0) {
      // The last stores of the dead process count: they are visible once its death is.
      if (word->load(std::memory_order_acquire) != value) return Wait::Ok;
      if (lost) *lost = dead;
      return Wait::PeerLost;
    }
    if (is_last) return Wait::Timeout;
    if (event.has_changed()) return Wait::Interrupted;
  }
  return Wait::Interrupted;
}

}  // namespace shmtensor
