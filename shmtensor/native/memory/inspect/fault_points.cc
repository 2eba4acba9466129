// Fault points: list, counts, and killing.
#include "memory/inspect/fault_points.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

// The linker's bounds of the section that Note [Points] speaks of.
extern "C" {
extern const char* __start_fault_points[] __attribute__((visibility("hidden")));
extern const char* __stop_fault_points[] __attribute__((visibility("hidden")));
}

namespace shmtensor {

constexpr size_t kMaxPoints = 512;

bool fault_armed = false;
static const char* armed_name = nullptr;
static char* next = nullptr;  // the specification to arm after this point has stopped the process
static bool stops = false, counting = false;
static std::atomic<long> own_count{0};
static std::atomic<long>* remaining = &own_count;

// In memory that forked children share once "?" was armed: their hits count, too.
struct SharedCounts {
  std::atomic<uint64_t> count[kMaxPoints];
  std::atomic<uint32_t> armed;
  std::atomic<long> remaining[64];
};
static SharedCounts* shared_counts = nullptr;

size_t fault_points(const char* const** names) {
  static const char* sorted[kMaxPoints];
  static const size_t n = [] {
    size_t count = 0;
    for (const char** p = __start_fault_points; p != __stop_fault_points && count < kMaxPoints; ++p)
      if (*p) sorted[count++] = *p;
    std::sort(sorted, sorted + count, [](auto x, auto y) { return strcmp(x, y) < 0; });
    return size_t(std::unique(sorted, sorted + count, [](auto x, auto y) { return strcmp(x, y) == 0; }) - sorted);
  }();
  *names = sorted;
  return n;
}

static size_t index_of(const char* name) {
  const char* const* names;
  size_t n = fault_points(&names);
  for (size_t i = 0; i < n; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return n;
}

uint64_t fault_count(size_t point) { return shared_counts ? shared_counts->count[point].load() : 0; }

static bool start_counting() {
  if (!shared_counts) {
    void* p = mmap(nullptr, sizeof(SharedCounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    shared_counts = static_cast<SharedCounts*>(p);
  }
  for (auto& count : shared_counts->count) count = 0;
  return true;
}

static bool arm(char* specification) {
  fault_armed = stops = false;
  armed_name = next = nullptr;
  if (!*specification) return true;
  if (char* semicolon = strchr(specification, ';')) {
    *semicolon = 0;
    next = semicolon + 1;
  }
  long nth = 1;
  if (char* colon = strchr(specification, ':')) {
    *colon = 0;
    nth = atol(colon + 1);
    if (char* action = strchr(colon + 1, ':')) stops = strcmp(action + 1, "stop") == 0;
  }
  const char* const* names;
  counting = strcmp(specification, "?") == 0;
  if (counting ? !start_counting() : index_of(specification) == fault_points(&names)) return false;
  armed_name = specification;
  if (shared_counts) remaining = &shared_counts->remaining[shared_counts->armed.fetch_add(1) % 64];
  *remaining = nth;
  fault_armed = true;
  return true;
}

bool arm_fault(const char* specification) {
  static char text[200];
  snprintf(text, sizeof text, "%s", specification ? specification : "");
  return arm(text);
}

void arm_fault_from_environment() {
  const char* specification = getenv("SHMTENSOR_FAULT");
  if (!arm_fault(specification)) fprintf(stderr, "shmtensor: SHMTENSOR_FAULT names no fault point: %s\n", specification);
}

void fault_hit(const char* name) {
  if (counting) {
    shared_counts->count[index_of(name)].fetch_add(1);
    return;
  }
  if (strcmp(name, armed_name) != 0 || remaining->fetch_sub(1) != 1) return;
  if (shared_counts) shared_counts->count[index_of(name)].fetch_add(1);
  fault_armed = false;
  char* specification = next;
  kill(getpid(), stops ? SIGSTOP : SIGKILL);
  // The signal is delivered on the way out of kill(); nothing after this line runs before it.
  if (specification) {
    if (shared_counts) start_counting();  // from here on
    arm(specification);
  }
}

}  // namespace shmtensor
