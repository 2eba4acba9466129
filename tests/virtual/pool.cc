// The thread pool under ThreadSanitizer: several callers at once, each with a job on its stack that is gone when
// pool_run returns, while workers stop, start and leave and other threads take their CPUs in the middle of a slice.
//
// usage: pool SECONDS SEED      exit 0, 1: a result is wrong, 66: a data race
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "threading/thread_pool.h"

namespace shmtensor {

constexpr int64_t kSlices = 40, kElements = 2000;  // elements of a slice
static std::atomic<bool> is_over{false};
static std::atomic<int64_t> jobs{0};

static void call(uint32_t seed) {
  std::mt19937 random(seed);
  while (!is_over) {
    const int64_t n = 2 + random() % (kSlices - 2), m = 1 + random() % kElements;
    std::vector<int64_t> results(n * m, 0);
    const int64_t base = random();
    slices(n, [&](int64_t i) {
      for (int64_t j = i * m; j < (i + 1) * m; ++j) results[j] += base + j;
    });
    for (int64_t j = 0; j < n * m; ++j) {
      if (results[j] != base + j) fprintf(stderr, "element %ld of %ld\n", long(j), long(n * m)), _exit(1);
    }
    ++jobs;
  }
}

static void take_a_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
  while (!is_over) {
  }
}

}  // namespace shmtensor

int main(int, char** arguments) {
  using namespace shmtensor;
  const int seconds = atoi(arguments[1]);
  std::mt19937 random(atoi(arguments[2]));
  pool_install();
  pool_set_threads(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(call, random());
  for (int i = 0; i < 2; ++i) threads.emplace_back(take_a_cpu, i);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool_set_threads(2 + random() % 4);
    if (round % 8 == 0) pool_count_groups(round % 16 ? -1 : 1);  // in a group, workers leave and come back
  }
  is_over = true;
  for (auto& thread : threads) thread.join();
  printf("pool: %ld jobs\n", long(jobs));
  return jobs > 0 ? 0 : 1;
}
