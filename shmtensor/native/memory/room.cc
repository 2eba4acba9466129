// No room: giving back in stages, and saying why it was not enough.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "headroom.h"
#include "store.h"

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

// Ledger mutex held. Stages of giving back, gentlest first; the caller tries again after each.
void relieve(int stage, size_t asked) {
  switch (stage) {
    case 0:
      reclaim();
      break;
    case 1:
      heap_relieve();
      break;
    case 2:
      sweep(true), reclaim(), heap_relieve();
      break;
    default:
      expire_pins(true, asked), sweep(true), reclaim(), heap_relieve();
      break;
  }
}

}  // namespace shmtensor
