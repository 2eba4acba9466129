// The thread pool's words, workers and fork handlers; thread_pool.h has the picture.
//
// Note [Memory order of the pool]
// `gate` carries the job: the caller writes the job's fields, then stores the open gate (release);
// a worker enters by a compare-exchange (acquire) and so sees them. `left` is incremented with
// release and read with acquire: the caller sees all that the slices wrote. A worker touches the
// fields only between entering and leaving, and the caller changes them only when every worker that
// entered has left. `bell` and `sleepers` are sequentially consistent: either the worker sees the
// new bell before it sleeps, or the caller sees a sleeper and wakes it. A worker's `cpu` is a hint and
// carries nothing: relaxed.
//
// Note [A worker on the caller's CPU]
// The kernel likes to wake a thread beside the one that wakes it, and where CPUs are few the worker
// then waits for the caller to finish: two threads take the time of one. So a worker notes the CPU
// it runs on, and a caller that finds itself on that CPU first forbids it to the worker. The mask
// stays until the next such meeting: threads seldom move, so that the two system calls are rare.
//
// Note [Where the last job ended]
// Slices are dealt in one run per thread, and a thread takes from the others' runs when its own is
// done: in one job after the other a thread meets the same part of memory, which its own caches hold
// and no other CPU has written. Every second job goes through the runs backwards: it begins where the
// last one ended, with what is still in the cache. Neither changes what a slice computes.
//
// Note [How long a worker looks for work]
// To wake a thread that sleeps takes 20 to 60 us where the CPU was halted with it: as long as a
// product with a matrix of a million elements. Spinning is paid by others. So a worker spins for
// kSpin, and for kSpinLong if its last wait was shorter than that: between the operations of a
// program that computes it is there, and one idle spell costs at most kSpinLong, however long it is.
// (Yielding meanwhile was tried: where others compute, too, it is as good as sleeping.)
#include "threading/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace shmtensor {
namespace {

constexpr int kMaxThreads = 256;
constexpr int64_t kSpin = 30'000;  // ns a worker looks for the next job before it sleeps
constexpr int64_t kSpinLong = 200'000;  // and where jobs follow each other that fast
constexpr uint32_t kClosed = 1u << 31;

struct Worker {
  pthread_t thread;
  std::atomic<int> tid;
  std::atomic<int> cpu;  // where it last ran; -1 before it did
};

// The slices of one thread: [next, stop), the others take from it when they have none left.
struct alignas(64) Run {
  std::atomic<int64_t> next{0};
  int64_t stop = 0;
};

struct Pool {
  alignas(64) std::atomic<uint32_t> bell{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<uint32_t> gate{kClosed};  // closed bit, number of workers that entered
  alignas(64) std::atomic<uint32_t> left{0};
  std::atomic<uint32_t> waiting{0};  // the caller sleeps on `left`
  Run runs[kMaxThreads];
  Slice slice = nullptr;
  void* context = nullptr;
  int64_t n = 0;
  int parts = 1;           // runs of this job
  bool backwards = false;  // Note [Where the last job ended]
  alignas(64) std::atomic<int> busy{0};  // one caller at a time; the fork handler takes it, too
  Worker workers[kMaxThreads];
  int started = 0;
  int threads = 0;
};

Pool pool;
thread_local bool inside = false;  // this thread runs a slice: nested calls are inline

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr,
          0);
}

void futex_wake(std::atomic<uint32_t>* word, int n) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, n, nullptr, nullptr, 0);
}

// Spins while *word == value, kSpin long at most; true if it changed.
bool spin_while_equal(const std::atomic<uint32_t>& word, uint32_t value) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != value) return true;
      relax();
    }
    int64_t t = now();
    if (end == 0) end = t + kSpin;
    if (t > end) return false;
  }
}

// Waits until the bell is no longer `seen`, awake at first: Note [How long a worker looks for work].
// Returns whether it took less than kSpinLong; `often`: the wait before did.
bool await_bell(uint32_t seen, bool often, Worker* worker) {
  const int64_t start = now();
  for (int64_t waited = 0; waited < (often ? kSpinLong : kSpin); waited = now() - start) {
    for (int i = 0; i < 64; ++i) {
      if (pool.bell.load(std::memory_order_acquire) != seen) return waited < kSpinLong;
      relax();
    }
    worker->cpu.store(sched_getcpu(), std::memory_order_relaxed);
  }
  pool.sleepers.fetch_add(1);
  while (pool.bell.load() == seen) futex_wait(&pool.bell, seen);
  pool.sleepers.fetch_sub(1);
  return now() - start < kSpinLong;
}

// Slices of run `own` first, then of the others.
void claim(int own) {
  const Slice slice = pool.slice;
  void* const context = pool.context;
  const int64_t last = pool.n - 1;
  const int parts = pool.parts;
  const bool backwards = pool.backwards;
  for (int k = 0; k < parts; ++k) {
    Run& run = pool.runs[(own + k) % parts];
    for (;;) {
      const int64_t i = run.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= run.stop) break;
      slice(context, backwards ? last - i : i);
    }
  }
}

bool enter() {
  uint32_t gate = pool.gate.load(std::memory_order_relaxed);
  while (!(gate & kClosed)) {
    if (pool.gate.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void* work(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  worker->tid.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_release);
  pthread_setname_np(pthread_self(), "shmtensor");
  inside = true;
  uint32_t seen = pool.bell.load() - 1;  // look at the job for which this worker was started
  bool often = false;
  for (;;) {
    worker->cpu.store(sched_getcpu(), std::memory_order_relaxed);
    if (pool.bell.load() == seen) often = await_bell(seen, often, worker);
    seen = pool.bell.load();
    if (pool.stop.load()) return nullptr;
    if (!enter()) continue;
    claim(static_cast<int>(worker - pool.workers) + 1);
    pool.left.fetch_add(1);
    if (pool.waiting.load()) futex_wake(&pool.left, 1);
  }
}

// The CPUs this thread may use, without one of them; false if none is left or nobody can tell.
bool others(int cpu, cpu_set_t* set) {
  CPU_ZERO(set);
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof *set, set) != 0) return false;
  CPU_CLR(cpu, set);
  return CPU_COUNT(set) > 0;
}

// Called by the holder of `busy`, before the bell: Note [A worker on the caller's CPU].
void make_way(int n) {
  const int here = sched_getcpu();
  cpu_set_t set;
  bool known = false;
  for (int i = 0; i < n; ++i) {
    Worker& worker = pool.workers[i];
    if (worker.cpu.load(std::memory_order_relaxed) != here) continue;
    if (!known && !others(here, &set)) return;
    known = true;
    const int tid = worker.tid.load(std::memory_order_acquire);
    if (tid) sched_setaffinity(tid, sizeof set, &set);
    worker.cpu.store(-1, std::memory_order_relaxed);
  }
}

// Called by the holder of `busy`, before the gate opens. Fewer workers than asked for is no error.
void start_workers(int n) {
  if (pool.started >= n) return;
  cpu_set_t set;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (others(sched_getcpu(), &set)) pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals belong to Python's threads
  while (pool.started < n) {
    Worker& worker = pool.workers[pool.started];
    worker.tid.store(0);
    worker.cpu.store(-1, std::memory_order_relaxed);
    if (pthread_create(&worker.thread, &attributes, work, &worker) != 0) break;
    ++pool.started;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
}

// Called by the holder of `busy`. pthread_join returns a moment before the kernel has taken the
// thread out of /proc/self/stat, where Python counts threads after a fork: wait for that as well.
void stop_workers() {
  if (pool.started == 0) return;
  pool.stop.store(true);
  pool.bell.fetch_add(1);
  futex_wake(&pool.bell, INT_MAX);
  for (int i = 0; i < pool.started; ++i) {
    pthread_join(pool.workers[i].thread, nullptr);
    int tid = pool.workers[i].tid.load(std::memory_order_acquire);
    for (int tries = 0; tries < 10'000; ++tries) {
      if (syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH) break;
      sched_yield();
    }
  }
  pool.started = 0;
  pool.stop.store(false);
}

void take_busy() {
  while (pool.busy.exchange(1, std::memory_order_acquire)) sched_yield();
}

void release_busy() { pool.busy.store(0, std::memory_order_release); }

void before_fork() {
  if (inside) return;  // a slice that forks: its child may only exec
  take_busy();
  stop_workers();
}

void after_fork() {
  if (!inside) release_busy();
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
  if (pool.threads == 0) pool.threads = pool_default_threads();
  return pool.threads;
}

void pool_set_threads(int n) {
  take_busy();
  stop_workers();
  pool.threads = n < kMaxThreads ? n : kMaxThreads;
  release_busy();
}

// What the environment says holds for each of them: whoever wrote it knows how many there are.
void pool_share(long n) {
  const bool told = environment_threads("SHMTENSOR_NUM_THREADS") > 0 ||
                    environment_threads("OMP_NUM_THREADS") > 0;
  const long share = pool_default_threads() / (told ? 1 : n);
  pool_set_threads(share < 1 ? 1 : static_cast<int>(share));
}

void pool_run(Slice slice, void* context, int64_t n) {
  int threads = pool_threads();
  if (n < 2 || threads < 2 || inside || pool.busy.exchange(1, std::memory_order_acquire)) {
    for (int64_t i = 0; i < n; ++i) slice(context, i);
    return;
  }
  inside = true;
  int helpers = static_cast<int>(n < threads ? n - 1 : threads - 1);
  pool.slice = slice;
  pool.context = context;
  pool.n = n;
  pool.parts = helpers + 1;
  pool.backwards = !pool.backwards;
  for (int64_t k = 0; k <= helpers; ++k) {
    // Backwards the same thread counts the same slices from the other end.
    const int64_t at = pool.backwards ? helpers - k : k;
    pool.runs[k].next.store(n * at / (helpers + 1), std::memory_order_relaxed);
    pool.runs[k].stop = n * (at + 1) / (helpers + 1);
  }
  pool.left.store(0, std::memory_order_relaxed);
  pool.waiting.store(0, std::memory_order_relaxed);
  make_way(helpers < pool.started ? helpers : pool.started);
  pool.gate.store(0, std::memory_order_release);
  pool.bell.fetch_add(1);
  if (pool.started < helpers) start_workers(helpers);
  if (pool.sleepers.load()) futex_wake(&pool.bell, helpers);
  claim(0);
  uint32_t entered = pool.gate.fetch_or(kClosed, std::memory_order_acq_rel);
  uint32_t left;
  while ((left = pool.left.load(std::memory_order_acquire)) != entered) {
    if (spin_while_equal(pool.left, left)) continue;
    pool.waiting.store(1);
    if (pool.left.load() == left) futex_wait(&pool.left, left);
    pool.waiting.store(0);
  }
  inside = false;
  release_busy();
}

void pool_install() { pthread_atfork(before_fork, after_fork, after_fork); }

}  // namespace shmtensor
