/* What this machine can do at all: multiply-adds a second with nothing but registers, and bytes a
 * second of out = x + y on arrays of a size. The benchmarks compile it where they run
 * (cc -O3 -march=native -pthread) and show it in their header: no library can be faster.
 *
 *     ceiling flops THREADS          GFLOP/s of float32, the best of several tries
 *     ceiling add THREADS ELEMENTS   GB/s of float32 addition, 12 bytes an element, likewise
 *     ceiling wake TRIPS BYTES       seconds to wake a sleeping process and see its answer, after
 *                                    so many bytes were written; the median
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef float V __attribute__((vector_size(WIDTH)));
enum { LANES = WIDTH / 4, CHAINS = 20, ROUNDS = 2000000, TRIES = 60 };

static int threads;
static long elements;
static float *x, *y, *out;
static atomic_int ready, done, phase;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static V sink;
static volatile float factor = 0.999f, term = 1e-3f; /* nothing is known before it runs */

/* Twenty independent chains: the latency of one is hidden behind the others. */
static void multiply_add(int thread) {
  V a[CHAINS], b = {}, c = {};
  b += factor;
  c += term * (float)(thread + 1);
#pragma GCC unroll 20
  for (int i = 0; i < CHAINS; ++i) a[i] = c * (float)i;
  for (long r = 0; r < ROUNDS / CHAINS; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < CHAINS; ++i) a[i] = a[i] * b + c;
  }
#pragma GCC unroll 20
  for (int i = 1; i < CHAINS; ++i) a[0] += a[i];
  *(volatile V*)&sink = a[0];
}

static void add(int thread) {
  long start = elements * thread / threads, stop = elements * (thread + 1) / threads;
  for (long i = start; i < stop; ++i) out[i] = x[i] + y[i];
  asm volatile("" ::: "memory");
}

static void (*work)(int);

static void turn(int thread, int number) { /* all begin together, and all have finished */
  atomic_fetch_add(&ready, 1);
  while (atomic_load(&ready) < threads * number) sched_yield();
  work(thread);
  atomic_fetch_add(&done, 1);
}

static void* helper(void* argument) {
  int thread = (int)(long)argument;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(thread, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  for (int number = 1; number <= TRIES; ++number) {
    turn(thread, number);
    while (atomic_load(&phase) < number) sched_yield();
  }
  return NULL;
}

static int in_order(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* A process writes memory, wakes another that sleeps on a word, and spins until it has answered. */
static int wake(int trips, size_t nbytes) {
  atomic_int* word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char* memory = malloc(nbytes);
  double* took = malloc(sizeof(double) * trips);
  if (word == MAP_FAILED || !memory || !took) return 1;
  atomic_int* answer = word + 64;
  pid_t child = fork();
  if (child < 0) return 1;
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int trip = 0; trip < trips; ++trip) {
      while (atomic_load(word) == trip) syscall(SYS_futex, word, FUTEX_WAIT, trip, NULL, NULL, 0);
      atomic_store(answer, trip + 1);
    }
    _exit(0);
  }
  for (int trip = 0; trip < trips; ++trip) {
    memset(memory, trip, nbytes);
    double began = seconds();
    atomic_store(word, trip + 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (atomic_load(answer) == trip) atomic_thread_fence(memory_order_acquire);
    took[trip] = seconds() - began;
  }
  waitpid(child, NULL, 0);
  qsort(took, trips, sizeof *took, in_order);
  printf("%.6g\n", took[trips / 2]);
  return 0;
}

int main(int n, char** arguments) {
  if (n < 3) return 2;
  if (n > 3 && !strcmp(arguments[1], "wake"))
    return wake(atoi(arguments[2]), (size_t)atol(arguments[3]));
  threads = atoi(arguments[2]);
  double amount;
  if (!strcmp(arguments[1], "flops")) {
    work = multiply_add;
    amount = 2.0 * LANES * CHAINS * (ROUNDS / CHAINS) * threads;
  } else if (n > 3 && !strcmp(arguments[1], "add")) {
    elements = atol(arguments[3]);
    size_t nbytes = (size_t)elements * 4;
    work = add;
    amount = 3.0 * (double)nbytes;
    if (posix_memalign((void**)&x, 4096, nbytes) || posix_memalign((void**)&y, 4096, nbytes) ||
        posix_memalign((void**)&out, 4096, nbytes))
      return 1;
    memset(x, 0, nbytes);
    memset(y, 0, nbytes);
    memset(out, 0, nbytes);
  } else {
    return 2;
  }
  pthread_t workers[256];
  for (long i = 1; i < threads && i < 256; ++i)
    if (pthread_create(&workers[i], NULL, helper, (void*)i)) return 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  sched_setaffinity(0, sizeof set, &set);
  double best = 1e30;
  for (int number = 1; number <= TRIES; ++number) {
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < threads * number) sched_yield();
    double began = seconds();
    work(0);
    atomic_fetch_add(&done, 1);
    while (atomic_load(&done) < threads * number) sched_yield();
    double took = seconds() - began;
    if (took < best) best = took;
    atomic_store(&phase, number);
  }
  for (int i = 1; i < threads && i < 256; ++i) pthread_join(workers[i], NULL);
  printf("%.6g\n", amount / best);
  return 0;
}
