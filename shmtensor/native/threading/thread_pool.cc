// The thread pool's state, workers and fork handlers; thread_pool.h has the diagram.
//
// Note [Memory order of the pool]
// `gate` publishes the job: the caller writes the job's fields, then stores the open gate (release); a worker enters by
// a compare-exchange (acquire) and so sees them. `finished` is incremented with release and read with acquire: the
// caller sees all that the slices wrote. A worker reads the fields only between entering and finishing, and the caller
// changes them only when every worker that entered has finished; so the words of the runs are relaxed. `bell`,
// `sleepers` and `stop` are sequentially consistent: either the worker sees the new bell before it sleeps, or the caller
// sees a sleeper and wakes it. A worker's `cpu`, `is_in_job` and `has_callers_cpu`, and the pool's `left`, `groups` and
// `caller` are hints that publish nothing: relaxed. Those of a worker are not the job's: it may write them after the
// caller has returned.
//
// Note [A worker on the caller's CPU]
// The kernel tends to wake a thread on the CPU of the thread that wakes it. With few CPUs the worker then waits for the
// caller to finish: two threads take the time of one. So a worker records the CPU it runs on, and a caller that runs on
// that CPU first removes it from the worker's affinity mask. The mask stays until the next conflict: threads seldom
// migrate, so the two system calls are rare. A worker that waits for that CPU cannot record it, and if its mask has no
// other CPU and the caller does not sleep, it may wait for ever (always under SCHED_FIFO): after a job that a worker
// missed, the masks of all workers lose the caller's CPU, if it is another one than last time.
//
// Note [A worker that waits for a CPU]
// Where another process computes on a worker's CPU, the scheduler takes the CPU from the worker in the middle of a
// slice, for 3 ms and more, and the caller has nothing left to do but wait. Nobody else can run that slice: it has
// begun, and may work in place. So a caller that has waited for a while reads the CPU time of the workers in the job.
// A worker whose time has not advanced is not running: the caller moves it to its own CPU, by its affinity mask, and
// sleeps. The worker finishes its slice there, wakes the caller and sleeps, too; if it spun, the caller would have to
// wait for its CPU. Then the worker gets its mask back.
//
// Note [A CPU that another rank needs]
// The ranks of a process group wait for each other in every collective. If they have more threads than there are CPUs, a
// worker of one, which computes or spins, takes the CPU from the caller of another, and all wait for that one: with two
// threads in each of two ranks on two CPUs, a step of 120 us took 3 times as long. So in a process that is in a
// shared-memory group of several ranks, a worker looks every kLook how long it and the caller have waited for a CPU (the
// kernel counts that). If one of them did for a twentieth of the time in which it could have run, the worker leaves the
// pool for kLeave, and at each following look that finds the same for twice as long, up to kLeaveMost; a look that does
// not halves the time. (With a fifth, a rank whose worker had left waited for the other rank's worker, which did not
// notice.) When the other ranks sleep, workers stay. Without a group nobody waits for the caller that lost its CPU, and
// half a CPU is better than none.
//
// Note [Who computes which slice]
// A thread begins with one run of slices, which it takes from its first to its last, and takes the last slices of other
// runs when that is empty: in consecutive jobs with as many runs a thread works on the same part of memory, which is in its
// caches and which no other CPU has written. Where CPUs have no cache in common, three operations on 131,072 numbers take
// 2.8 times as long if every second job goes through the runs backwards, so that others' first slices are taken. It does
// not change what a slice computes. (With fewer runs than threads several may begin with the same one.)
//
// Note [How long a worker spins]
// Waking a sleeping thread takes 20 to 60 us if its CPU was halted: as long as a product with a matrix of a million
// elements. Spinning costs other processes CPU time. So a worker spins for kSpin, and for kSpinLong if its last wait
// was shorter than that: between the operations of a computation it is ready at once, and an idle period costs at most
// kSpinLong, however long it is. (Yielding while spinning was tried: if other processes compute, it is as slow as
// sleeping.)
#include "threading/thread_pool.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace shmtensor {
namespace {

constexpr int kMaxThreads = 256;
constexpr int64_t kMaxSlices = INT32_MAX;  // more run inline
constexpr int64_t kSpin = 30'000;  // ns a worker spins for the next job before it sleeps
constexpr int64_t kSpinLong = 200'000;  // the same, if the previous wait was shorter than this
constexpr int64_t kCallerSpin = 15'000;  // ns the caller spins for the workers before it looks whether they run
constexpr int64_t kCallerSleep = 500'000;  // ns it sleeps before it looks again
// Note [A CPU that another rank needs]
constexpr int64_t kLook = 3'000'000;  // ns between two looks of a worker
constexpr int64_t kEnough = 500'000;  // ns for which a thread wanted a CPU before its share is judged
constexpr int64_t kLeave = 20'000'000;  // ns a worker leaves the pool at first
constexpr int64_t kLeaveMost = 320'000'000;
constexpr uint32_t kClosed = 1u << 31;

struct Worker {
  pthread_t thread;
  std::atomic<int> tid;
  std::atomic<int> cpu;  // where it last ran; -1: unknown
  std::atomic<bool> is_in_job;
  std::atomic<bool> has_callers_cpu;  // Note [A worker that waits for a CPU]
  int64_t cpu_time;             // when the caller last read it
  cpu_set_t own_cpus;           // its mask while it has the caller's
  int excluded_cpu;             // the caller's CPU, when the caller last removed it from the mask; -1: never
};

// The slices of one thread: Note [Who computes which slice].
class alignas(64) Run {
 public:
  void set(int64_t first, int64_t end) {
    first_ = first;
    state_.store(static_cast<uint64_t>(end - first) << 32, std::memory_order_relaxed);
  }
  // The slice taken by a thread that begins with this run; -1: none is left.
  int64_t take_first() {
    const uint64_t old = state_.fetch_add(1, std::memory_order_relaxed);
    return is_empty(old) ? -1 : first_ + next(old);
  }
  // The same by any other thread.
  int64_t take_last() {
    uint64_t old = state_.load(std::memory_order_relaxed);
    while (!is_empty(old)) {
      if (state_.compare_exchange_weak(old, old - (uint64_t{1} << 32), std::memory_order_relaxed))
        return first_ + stop(old) - 1;
    }
    return -1;
  }

 private:
  static int64_t next(uint64_t state) { return static_cast<int64_t>(state & 0xffffffffu); }
  static int64_t stop(uint64_t state) { return static_cast<int64_t>(state >> 32); }
  static bool is_empty(uint64_t state) { return next(state) >= stop(state); }

  std::atomic<uint64_t> state_{0};  // stop << 32 | next, relative to first_; the slices [next, stop) are left
  int64_t first_ = 0;
};

struct Pool {
  alignas(64) std::atomic<uint32_t> bell{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> stop{0};  // workers end; those that have left sleep on it
  std::atomic<int> left{0};       // workers that have left: Note [A CPU that another rank needs]
  std::atomic<int> groups{0};     // process groups of several ranks that this process is in
  std::atomic<int> caller{0};     // thread id of the last caller
  alignas(64) std::atomic<uint32_t> gate{kClosed};  // closed bit, number of workers that entered
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<uint32_t> waiting{0};  // the caller sleeps on `finished`
  std::atomic<bool> lacks_memory{false};  // a slice has thrown std::bad_alloc; published by `finished`
  Run runs[kMaxThreads];
  Slice slice = nullptr;
  void* context = nullptr;
  int parts = 1;  // runs of this job
  alignas(64) std::atomic<int> busy{0};  // the lock of the caller; the fork handler takes it, too
  Worker workers[kMaxThreads];
  int started = 0;
  bool has_missing_workers = false;  // fewer workers entered the last job than it asked for
  std::atomic<int> threads{0};  // relaxed: a call that reads it while it is set uses either number
};

Pool pool;
thread_local bool in_slice = false;  // this thread runs a slice: nested calls run inline

int64_t read_clock(clockid_t clock) {
  timespec t;
  return clock_gettime(clock, &t) == 0 ? t.tv_sec * 1'000'000'000LL + t.tv_nsec : -1;
}

int64_t now() { return read_clock(CLOCK_MONOTONIC); }

thread_local int known_tid = 0;  // of this thread, once asked for

int own_tid() {
  if (known_tid == 0) known_tid = static_cast<int>(syscall(SYS_gettid));
  return known_tid;
}

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t value, const timespec* timeout = nullptr) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, timeout, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int n) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, n, nullptr, nullptr, 0);
}

// Spins while word == value, kCallerSpin long at most; true if it changed.
bool spin_while_equal(const std::atomic<uint32_t>& word, uint32_t value) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != value) return true;
      cpu_pause();
    }
    int64_t t = now();
    if (end == 0) end = t + kCallerSpin;
    if (t > end) return false;
  }
}

// Waits until the bell differs from last_bell; spins first: Note [How long a worker spins].
// Returns whether it took less than kSpinLong.
bool wait_for_bell(uint32_t last_bell, int64_t spin, Worker* worker) {
  const int64_t start = now();
  for (int64_t elapsed = 0; elapsed < spin; elapsed = now() - start) {
    for (int i = 0; i < 64; ++i) {
      if (pool.bell.load(std::memory_order_acquire) != last_bell) return elapsed < kSpinLong;
      cpu_pause();
    }
    worker->cpu.store(sched_getcpu(), std::memory_order_relaxed);
  }
  pool.sleepers.fetch_add(1);
  while (pool.bell.load() == last_bell) futex_wait(&pool.bell, last_bell);
  pool.sleepers.fetch_sub(1);
  return now() - start < kSpinLong;
}

// How long a thread of this process has run, and waited for a CPU while it could run.
struct CpuTimes {
  int64_t run = 0, waited = 0;  // ns
};

// False if the kernel does not count them.
bool read_cpu_times(int tid, CpuTimes* times) {
  char path[64], text[96];
  snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  return sscanf(text, "%" SCNd64 " %" SCNd64, &times->run, &times->waited) == 2;
}

// Of one worker: Note [A CPU that another rank needs].
class Attendance {
 public:
  explicit Attendance(int tid) : worker_(tid) {}

  // Called between two jobs; returns after the time for which the worker leaves the pool.
  void look() {
    if (pool.groups.load(std::memory_order_relaxed) == 0) {
      next_look_ = 0;
      return;
    }
    if (next_look_ == 0) return begin();
    const int64_t t = now();
    if (t < next_look_) return;
    next_look_ = t + kLook;
    const bool is_in_demand = has_waited(worker_, &worker_times_) | has_waited(caller(), &caller_times_);
    if (!is_in_demand) {
      leave_ = leave_ / 2 > kLeave ? leave_ / 2 : kLeave;
      return;
    }
    pool.left.fetch_add(1, std::memory_order_relaxed);
    const timespec timeout = {0, static_cast<long>(leave_)};
    futex_wait(&pool.stop, 0, &timeout);
    pool.left.fetch_sub(1, std::memory_order_relaxed);
    leave_ = leave_ * 2 < kLeaveMost ? leave_ * 2 : kLeaveMost;
    begin();
  }

 private:
  // The next look judges what is used from now on.
  void begin() {
    next_look_ = now() + kLook;
    read_cpu_times(worker_, &worker_times_);
    read_cpu_times(caller_, &caller_times_);
  }
  int caller() {
    const int tid = pool.caller.load(std::memory_order_relaxed);
    if (tid != caller_) {
      caller_ = tid;
      read_cpu_times(tid, &caller_times_);
    }
    return tid;
  }

  // Whether the thread has waited for a twentieth of the time since the last look in which it wanted a CPU.
  static bool has_waited(int tid, CpuTimes* last) {
    CpuTimes times;
    if (!read_cpu_times(tid, &times)) return false;
    const int64_t run = times.run - last->run, waited = times.waited - last->waited;
    *last = times;
    return run + waited > kEnough && 20 * waited > run + waited;
  }

  int worker_, caller_ = 0;
  CpuTimes worker_times_, caller_times_;
  int64_t next_look_ = 0, leave_ = kLeave;  // 0: not in a group
};

// Runs the slices of run first_run, then the last ones of other runs.
void run_slices(int first_run) {
  const Slice slice = pool.slice;
  void* const context = pool.context;
  const int parts = pool.parts;
  for (int k = 0; k < parts; ++k) {
    Run& run = pool.runs[(first_run + k) % parts];
    for (;;) {
      const int64_t i = k == 0 ? run.take_first() : run.take_last();
      if (i < 0) break;
      try {
        slice(context, i);
      } catch (const std::bad_alloc&) {
        pool.lacks_memory.store(true, std::memory_order_relaxed);
      }
    }
  }
}

bool enter_gate() {
  uint32_t gate = pool.gate.load(std::memory_order_relaxed);
  while (!(gate & kClosed)) {
    if (pool.gate.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
  }
  return false;
}

void* worker_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  worker->tid.store(own_tid(), std::memory_order_release);
  pthread_setname_np(pthread_self(), "shmtensor");
  in_slice = true;
  uint32_t last_bell = pool.bell.load() - 1;  // so that it runs the job for which this worker was started
  bool was_busy = false;  // the last wait was short: Note [How long a worker spins]
  bool has_callers_cpu = false;
  Attendance attendance(own_tid());
  for (;;) {
    attendance.look();
    worker->cpu.store(sched_getcpu(), std::memory_order_relaxed);
    const int64_t spin = has_callers_cpu ? 0 : was_busy ? kSpinLong : kSpin;
    if (pool.bell.load() == last_bell) was_busy = wait_for_bell(last_bell, spin, worker);
    last_bell = pool.bell.load();
    if (pool.stop.load()) return nullptr;
    worker->is_in_job.store(true, std::memory_order_relaxed);
    if (enter_gate()) {
      run_slices(static_cast<int>(worker - pool.workers) + 1);
      has_callers_cpu = worker->has_callers_cpu.load(std::memory_order_relaxed);
      pool.finished.fetch_add(1);
      if (pool.waiting.load()) futex_wake(&pool.finished, 1);
    }
    worker->is_in_job.store(false, std::memory_order_relaxed);
  }
}

// The CPUs this thread may use, except one; false if there is no other or on error.
bool allowed_cpus_except(int cpu, cpu_set_t* set) {
  CPU_ZERO(set);
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof *set, set) != 0) return false;
  CPU_CLR(cpu, set);
  return CPU_COUNT(set) > 0;
}

// Called with `busy` locked, before the bell: Note [A worker on the caller's CPU].
void move_workers_off_cpu() {
  const int current_cpu = sched_getcpu();
  cpu_set_t set;
  bool has_mask = false;
  for (int i = 0; i < pool.started; ++i) {
    Worker& worker = pool.workers[i];
    const bool may_wait_here = pool.has_missing_workers && worker.excluded_cpu != current_cpu;
    if (worker.cpu.load(std::memory_order_relaxed) != current_cpu && !may_wait_here) continue;
    if (!has_mask && !allowed_cpus_except(current_cpu, &set)) return;
    has_mask = true;
    const int tid = worker.tid.load(std::memory_order_acquire);
    if (tid) sched_setaffinity(tid, sizeof set, &set);
    worker.excluded_cpu = current_cpu;
    worker.cpu.store(-1, std::memory_order_relaxed);
  }
}

// Called by a caller that is about to sleep: Note [A worker that waits for a CPU]. Returns whether a worker was moved.
bool move_waiting_workers_here() {
  cpu_set_t here;
  CPU_ZERO(&here);
  const int current_cpu = sched_getcpu();
  if (current_cpu < 0 || current_cpu >= CPU_SETSIZE) return false;
  CPU_SET(current_cpu, &here);
  bool is_any_moved = false;
  for (int i = 0; i < pool.started; ++i) {
    Worker& worker = pool.workers[i];
    clockid_t clock;
    if (!worker.is_in_job.load(std::memory_order_relaxed) || worker.has_callers_cpu.load(std::memory_order_relaxed) ||
        pthread_getcpuclockid(worker.thread, &clock) != 0)
      continue;
    const int64_t last_cpu_time = worker.cpu_time;
    worker.cpu_time = read_clock(clock);
    if (worker.cpu_time != last_cpu_time) continue;
    const int tid = worker.tid.load(std::memory_order_acquire);
    if (sched_getaffinity(tid, sizeof here, &worker.own_cpus) != 0) continue;
    worker.has_callers_cpu.store(true, std::memory_order_relaxed);
    sched_setaffinity(tid, sizeof here, &here);
    is_any_moved = true;
  }
  return is_any_moved;
}

void move_workers_back() {
  for (int i = 0; i < pool.started; ++i) {
    Worker& worker = pool.workers[i];
    if (!worker.has_callers_cpu.load(std::memory_order_relaxed)) continue;
    sched_setaffinity(worker.tid.load(std::memory_order_acquire), sizeof worker.own_cpus, &worker.own_cpus);
    worker.has_callers_cpu.store(false, std::memory_order_relaxed);
  }
}

// Called with `busy` locked, when the gate is closed.
void wait_for_workers(uint32_t entered_count) {
  const timespec timeout = {0, kCallerSleep};
  bool is_any_moved = false;
  uint32_t finished;
  while ((finished = pool.finished.load(std::memory_order_acquire)) != entered_count) {
    if (spin_while_equal(pool.finished, finished)) continue;
    const bool is_first_look = pool.waiting.exchange(1) == 0;
    is_any_moved |= move_waiting_workers_here();
    if (is_first_look && !is_any_moved) continue;  // their CPU time is compared at the second
    if (pool.finished.load() == finished) futex_wait(&pool.finished, finished, &timeout);
  }
  if (is_any_moved) move_workers_back();
}

// Called with `busy` locked, before the gate opens. Starting fewer workers than n is no error.
void start_workers(int n) {
  if (pool.started >= n) return;
  cpu_set_t set;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (allowed_cpus_except(sched_getcpu(), &set)) pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals belong to Python's threads
  while (pool.started < n) {
    Worker& worker = pool.workers[pool.started];
    worker.tid.store(0);
    worker.cpu.store(-1, std::memory_order_relaxed);
    worker.is_in_job.store(false, std::memory_order_relaxed);
    worker.has_callers_cpu.store(false, std::memory_order_relaxed);
    worker.cpu_time = -1;
    worker.excluded_cpu = -1;
    if (pthread_create(&worker.thread, &attributes, worker_main, &worker) != 0) break;
    ++pool.started;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
}

// Called with `busy` locked. pthread_join returns shortly before the kernel removes the thread from /proc/self/stat,
// where Python counts threads after a fork: wait for that as well.
void stop_workers() {
  if (pool.started == 0) return;
  pool.stop.store(1);
  futex_wake(&pool.stop, INT_MAX);
  pool.bell.fetch_add(1);
  futex_wake(&pool.bell, INT_MAX);
  for (int i = 0; i < pool.started; ++i) {
    pthread_join(pool.workers[i].thread, nullptr);
    int tid = pool.workers[i].tid.load(std::memory_order_acquire);
    for (int attempt = 0; attempt < 10'000; ++attempt) {
      if (syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH) break;
      sched_yield();
    }
  }
  pool.started = 0;
  pool.stop.store(0);
}

void acquire_busy() {
  while (pool.busy.exchange(1, std::memory_order_acquire)) sched_yield();
}

void release_busy() { pool.busy.store(0, std::memory_order_release); }

void before_fork() {
  if (in_slice) return;  // a slice that forks: its child may only exec
  acquire_busy();
  stop_workers();
}

void after_fork() {
  if (!in_slice) release_busy();
}

void after_fork_in_child() {
  known_tid = 0;
  after_fork();
}

int cgroup_cpus() {
  long quota = 0, period = 0;
  if (FILE* f = fopen("/sys/fs/cgroup/cpu.max", "r")) {
    int n = fscanf(f, "%ld %ld", &quota, &period);  // "max 100000" reads nothing: no limit
    fclose(f);
    if (n == 2 && quota > 0 && period > 0) return static_cast<int>((quota + period - 1) / period);
  }
  return kMaxThreads;
}

int environment_threads(const char* name) {
  const char* text = getenv(name);
  int n = text ? atoi(text) : 0;
  return n > 0 ? n : 0;
}

}  // namespace

int pool_default_threads() {
  int n = environment_threads("SHMTENSOR_NUM_THREADS");
  if (n == 0) n = environment_threads("OMP_NUM_THREADS");
  if (n == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = cgroup_cpus();
    if (quota < n) n = quota;
  }
  return n < 1 ? 1 : n > kMaxThreads ? kMaxThreads : n;
}

int pool_threads() {
  int n = pool.threads.load(std::memory_order_relaxed);
  if (n == 0) pool.threads.store(n = pool_default_threads(), std::memory_order_relaxed);
  return n;
}

void pool_set_threads(int n) {
  acquire_busy();
  stop_workers();
  pool.threads.store(n < kMaxThreads ? n : kMaxThreads, std::memory_order_relaxed);
  release_busy();
}

// A number of threads from the environment applies to each process unchanged.
void pool_share(long n) {
  const bool is_set = environment_threads("SHMTENSOR_NUM_THREADS") > 0 || environment_threads("OMP_NUM_THREADS") > 0;
  const long share = pool_default_threads() / (is_set ? 1 : n);
  pool_set_threads(share < 1 ? 1 : static_cast<int>(share));
}

void pool_count_groups(int change) { pool.groups.fetch_add(change, std::memory_order_relaxed); }

void pool_run(Slice slice, void* context, int64_t n) {
  const int threads = pool_threads() - pool.left.load(std::memory_order_relaxed);
  if (n < 2 || n > kMaxSlices || threads < 2 || in_slice || pool.busy.exchange(1, std::memory_order_acquire)) {
    for (int64_t i = 0; i < n; ++i) slice(context, i);
    return;
  }
  in_slice = true;
  if (pool.groups.load(std::memory_order_relaxed)) pool.caller.store(own_tid(), std::memory_order_relaxed);
  int worker_count = static_cast<int>(n < threads ? n - 1 : threads - 1);
  pool.slice = slice;
  pool.context = context;
  pool.parts = worker_count + 1;
  for (int64_t k = 0; k < pool.parts; ++k) pool.runs[k].set(n * k / pool.parts, n * (k + 1) / pool.parts);
  pool.finished.store(0, std::memory_order_relaxed);
  pool.waiting.store(0, std::memory_order_relaxed);
  pool.lacks_memory.store(false, std::memory_order_relaxed);
  move_workers_off_cpu();
  pool.gate.store(0, std::memory_order_release);
  pool.bell.fetch_add(1);
  if (pool.started < worker_count) start_workers(worker_count);
  if (pool.sleepers.load()) futex_wake(&pool.bell, worker_count);
  run_slices(0);
  const uint32_t entered_count = pool.gate.fetch_or(kClosed, std::memory_order_acq_rel);
  pool.has_missing_workers = entered_count < static_cast<uint32_t>(worker_count);
  wait_for_workers(entered_count);
  const bool lacks_memory = pool.lacks_memory.load(std::memory_order_relaxed);
  in_slice = false;
  release_busy();
  if (lacks_memory) throw std::bad_alloc();
}

void pool_install() { pthread_atfork(before_fork, after_fork, after_fork_in_child); }

}  // namespace shmtensor
