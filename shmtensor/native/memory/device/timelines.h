// Numbers of work that a process has queued on its streams, for streams of other processes to wait for.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

// The row's process is dead and has exited: what it had issued and not done is lost, and who waits for it goes on.
void end_timelines(Domain& d, uint32_t row);

}  // namespace shmtensor
