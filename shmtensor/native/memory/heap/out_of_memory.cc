// No room: giving back in stages, and saying why it was not enough.
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
const Failure* pending_failure() { return failure.asked ? &failure : nullptr; }
void clear_failure() { failure.asked = 0; }

void* refuse(size_t asked, int error) {
  failure.asked = asked;
  Headroom h = last_headroom();
  uint64_t held = committed_bytes.load(relaxed);
  double mb = 1e-6;
  if (error == EDQUOT) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: %s has %.1f MB left of its limit of %.1f MB, this process "
             "holds %.1f MB of shared memory; free "
             "tensors, raise the limit, or use fewer processes",
             asked, h.name, double(h.available) * mb, double(h.limit) * mb, double(held) * mb);
  } else if (error) {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: both volumes of the domain refused (%s), this process holds "
             "%.1f MB of shared memory, %s has "
             "%.1f MB left of %.1f MB; free tensors, or enlarge /dev/shm (docker run --shm-size)",
             asked, strerror(error), double(held) * mb, h.name, double(h.available) * mb,
             double(h.limit) * mb);
  } else {
    snprintf(failure.text, sizeof failure.text,
             "no room for %zu bytes: no %u free slots of 64 MiB in a row (the limit is %u slots in "
             "each of two volumes), this "
             "process holds %.1f MB of shared memory; free tensors, or use fewer and larger ones",
             asked, unsigned((asked + kSlotBytes - 1) >> kSlotShift), domain.slots / 2,
             double(held) * mb);
  }
  return nullptr;
}

// Note [Call for memory]: a process that is refused raises `pressure` in the header. The others see
// it in their next slow path, or between two slices of a wait for a queue, a lock, a group, and give
// back what they keep warm. Nobody is interrupted for it, so one that sleeps elsewhere answers when
// it allocates again (what it keeps is bounded: bound_warmth). The caller gives them a moment, two
// slices, before it gives up.
static void call_for_memory() {
  domain.pressure_seen = domain.header->pressure.fetch_add(1, relaxed) + 1;
  fault("memory.called");
}

static void wait_for_memory() {
  pthread_mutex_unlock(&ledger_mutex);
  usleep(60'000);
  pthread_mutex_lock(&ledger_mutex);
  forget_headroom();
}

void answer_call() {
  uint32_t called = domain.header->pressure.load(relaxed);
  if (called == domain.pressure_seen) return;
  domain.pressure_seen = called;
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

// Ledger mutex held. Stages of giving back, gentlest first; the caller tries again after each.
void relieve(int stage, size_t asked) {
  switch (stage) {
    case 0:
      reclaim(domain);
      break;
    case 1:
      heap_relieve();
      call_for_memory();
      break;
    case 2:
      sweep_all(true), reclaim(domain), heap_relieve();
      break;
    case 3:
      expire_pins(domain, true, asked), sweep_all(true), reclaim(domain), heap_relieve();
      break;
    default:
      wait_for_memory();
      break;
  }
}

}  // namespace shmtensor
