// No room: freeing memory in stages, and the error if that is not enough.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/heap/memory_limits.h"
#include "memory/heap/own_slots.h"

namespace shmtensor {

// ---- why there was no room
static thread_local Failure failure;
const Failure* pending_failure() { return failure.nbytes ? &failure : nullptr; }
void clear_failure() { failure.nbytes = 0; }

void* refuse(size_t nbytes, int error) {
  failure.nbytes = nbytes;
  Headroom h = last_headroom();
  uint64_t held = committed_bytes.load(relaxed);
  double mb = 1e-6;
  if (error == EDQUOT) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: %s has %.1f MB left of its limit of %.1f MB, this process "
             "holds %.1f MB of shared memory; free "
             "tensors, raise the limit, or use fewer processes",
             nbytes, h.name, double(h.available) * mb, double(h.limit) * mb, double(held) * mb);
  } else if (error) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: both volumes of the domain refused (%s), this process holds "
             "%.1f MB of shared memory, %s has "
             "%.1f MB left of %.1f MB; free tensors, or enlarge /dev/shm (docker run --shm-size)",
             nbytes, strerror(error), double(held) * mb, h.name, double(h.available) * mb, double(h.limit) * mb);
  } else {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: a tensor lies in one of two volumes of %.1f MB, and none of them "
             "has so much free in one piece, this "
             "process holds %.1f MB of shared memory; free tensors, or use fewer and larger ones",
             nbytes, double(domain.slots / 2) * double(kSlotBytes) * mb, double(held) * mb);
  }
  return nullptr;
}

// Note [Call for memory]: a process that is refused memory increments `pressure` in the header. The others see it in
// their next slow path, or between two slices of a wait for a queue, a lock, a group, and return their warm memory. No
// process is interrupted; one that sleeps elsewhere responds when it allocates again (its warm memory is bounded:
// bound_warmth). The caller waits for two slices before it gives up.
static void call_for_memory() {
  domain.pressure_seen = domain.header->pressure.fetch_add(1, relaxed) + 1;
  fault("memory.called");
}

static void wait_for_memory() {
  pthread_mutex_unlock(&ledger_mutex);
  usleep(60'000);
  pthread_mutex_lock(&ledger_mutex);
  // Blocks that the dead had let a GPU use; Note [Context]
  for (int waited = 0; rows_exiting(domain) && waited < 140; waited += 10) {
    pthread_mutex_unlock(&ledger_mutex);
    usleep(10'000);
    pthread_mutex_lock(&ledger_mutex);
    sweep_all(true), reclaim(domain), heap_relieve();
  }
  forget_headroom();
}

void answer_call() {
  uint32_t pressure = domain.header->pressure.load(relaxed);
  if (pressure == domain.pressure_seen) return;
  domain.pressure_seen = pressure;
  ++calls_answered;
  reclaim(domain);
  if (!filling) heap_relieve();
}
void answer_in_wait() {
  if (!domain_ready() || domain.rowless || pthread_mutex_trylock(&ledger_mutex) != 0) return;
  answer_call();
  pthread_mutex_unlock(&ledger_mutex);
}
uint64_t calls_answered = 0;

// Ledger mutex held. Stages of freeing memory, cheapest first; the caller tries again after each.
void relieve(int stage, size_t nbytes) {
  switch (stage) {
    case 0: reclaim(domain); break;
    case 1:
      heap_relieve();
      call_for_memory();
      break;
    case 2: sweep_all(true), reclaim(domain), heap_relieve(); break;
    case 3: expire_messages(domain, true, nbytes), sweep_all(true), reclaim(domain), heap_relieve(); break;
    default: wait_for_memory(); break;
  }
}

}  // namespace shmtensor
