// The thread pool: runs the slices of one job at a time on the caller and on workers.
//
//   caller                                   worker
//   ------                                   ------
//   lock `busy` (or run inline)              last_bell = bell; spin, then futex sleep on bell
//   write the job, open the gate, ring  -->  enter the gate (fails once it is closed)
//   run slices until none is left            run slices until none is left
//   close the gate: E workers entered        increment `finished`
//   wait until `finished` is E
//
// The caller never waits for a worker that has not entered, so a descheduled worker costs nothing; one that has
// entered gets the caller's CPU: Note [A worker that waits for a CPU].
// Slices depend on the problem alone, not on the number of threads, and so do the results.
// Workers run no Python and hold no lock while idle. Before a fork they are stopped and joined
// (pthread_atfork), so a child inherits no inconsistent state and Python counts one thread.
#pragma once

#include <cstdint>
#include <type_traits>

namespace shmtensor {

using Slice = void (*)(void* context, int64_t index);

// Runs slice(context, i) for each i in [0, n), in any order, on any thread; returns when all have finished. A call from
// a slice, or while another thread's job runs, runs inline. Throws std::bad_alloc if a slice did.
void pool_run(Slice slice, void* context, int64_t n);

int pool_threads();            // the caller included
void pool_set_threads(int n);  // workers are stopped; they start again on demand
void pool_share(long n);       // this process is one of n that compute at once
int pool_default_threads();    // SHMTENSOR_NUM_THREADS, OMP_NUM_THREADS, else the CPUs we may use

// This process joins (1) or leaves (-1) a process group of several ranks: thread_pool.cc, Note [A CPU that another rank
// needs].
void pool_count_groups(int change);

// Registers the fork handlers; called once, at import.
void pool_install();

template <class F>
void slices(int64_t n, F&& body) {
  if (n <= 0) return;
  if (n == 1) return body(static_cast<int64_t>(0));
  auto* context = const_cast<void*>(static_cast<const void*>(&body));
  pool_run([](void* c, int64_t i) { (*static_cast<std::remove_reference_t<F>*>(c))(i); }, context, n);
}

// body(start, stop) over [0, n) in pieces of `grain`; one piece runs inline.
template <class F>
void ranges(int64_t n, int64_t grain, F&& body) {
  slices((n + grain - 1) / grain, [&](int64_t i) {
    int64_t start = i * grain, stop = start + grain;
    body(start, stop < n ? stop : n);
  });
}

}  // namespace shmtensor
