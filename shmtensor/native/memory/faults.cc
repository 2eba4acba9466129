// Fault points: counting and dying.
#include "faults.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace shmtensor {

bool fault_armed = false;
static char armed_name[64];
static std::atomic<long> remaining{0};
static bool stops = false;

void arm_fault(const char* specification) {
  fault_armed = false;
  stops = false;
  if (!specification || !*specification) return;
  strncpy(armed_name, specification, sizeof armed_name - 1);
  long nth = 1;
  if (char* colon = strchr(armed_name, ':')) {
    *colon = 0;
    nth = atol(colon + 1);
    if (char* action = strchr(colon + 1, ':')) stops = strcmp(action + 1, "stop") == 0;
  }
  remaining = nth;
  fault_armed = true;
}

void arm_fault_from_environment() { arm_fault(getenv("SHMTENSOR_FAULT")); }

void fault_hit(const char* name) {
  if (strcmp(name, armed_name) != 0 || remaining.fetch_sub(1) != 1) return;
  fault_armed = false;
  kill(getpid(), stops ? SIGSTOP : SIGKILL);
  // The signal is delivered on the way out of kill(); nothing after this line runs before it.
}

}  // namespace shmtensor
