// The domain: the family of processes that share tensors, its files, mappings and this process's
// row.
#pragma once

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <mutex>

#include "layout.h"

namespace shmtensor {

struct Self {
  int row;
  uint32_t inc;
};
enum class Life {
  Alive,
  Doomed,
  Dead
};  // Doomed: exiting, memory not yet reusable. Dead: lock obtainable, or row reused

struct Domain {
  std::atomic<bool> ready{false};
  bool rowless =
      false;  // forked when no row was left: owns nothing, shares nothing (Note [Freeze])
  uint8_t id[16];
  int control = -1, volume[2] = {-1, -1};
  int lock = -1,
      spare = -1;  // own description with the row's byte locked; one more for the next fork
  uint64_t lock_dev = 0, lock_ino = 0;
  uint64_t checked_ms = 0;     // when the lock's descriptor was last looked at
  const char* lost = nullptr;  // why this process must not share any more
  uint64_t pidns = 0;
  uint32_t slots = 0;  // S
  int row = -1;
  uint32_t inc = 0;
  char* control_base = nullptr;
  Header* header = nullptr;
  Row* rows = nullptr;
  Slot* slot = nullptr;
  char* nheld_base = nullptr;
  size_t nheld_stride = 0;
  Word* words = nullptr;
  char* bits_base = nullptr;
  Pin* pins = nullptr;
  char* base = nullptr;  // slot s lies at base + s * 64 MiB
  size_t mapped = 0;     // bytes mapped at base
  size_t shared = 0;     // bytes at base that count as shared (0 in a rowless process)

  Half& nheld(uint32_t r, uint32_t s) {
    return reinterpret_cast<Half*>(nheld_base + r * nheld_stride)[s];
  }
  Word* bits(uint32_t s, uint32_t r) {
    return reinterpret_cast<Word*>(bits_base + (size_t(s) * kRows + r) * (kBlocks / 8));
  }
  Word& word(uint32_t s, uint32_t index) { return words[size_t(s) * kBlocks + index]; }
  Pin& pin(uint32_t r, uint32_t index) { return pins[size_t(r) * kPins + index]; }
  char* slot_base(uint32_t s) const { return base + (size_t(s) << kSlotShift); }
  int volume_of(uint32_t s) const { return s >= slots / 2; }
  uint64_t offset_of(uint32_t s) const {
    return uint64_t(s - (volume_of(s) ? slots / 2 : 0)) << kSlotShift;
  }
};

extern Domain domain;

// Lock order: GIL -> fork mutex -> ledger mutex -> (try) byte lock. No Python under either mutex.
extern pthread_mutex_t fork_mutex, ledger_mutex;
struct Locked {
  Locked() { pthread_mutex_lock(&ledger_mutex); }
  ~Locked() { pthread_mutex_unlock(&ledger_mutex); }
  Locked(const Locked&) = delete;
};

inline bool domain_ready() { return domain.ready.load(acquire); }
bool domain_ensure();        // GIL held; false: Python exception set
bool domain_ensure_quiet();  // no exception; may be called without the GIL (fork handler)
const char* domain_join(const int fds[3], const uint8_t id[16]);  // nullptr: joined, else why not
int domain_environment(char* text, size_t n);  // what to put into SHMTENSOR_DOMAIN

inline uint64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return uint64_t(t.tv_sec) * 1000 + uint64_t(t.tv_nsec) / 1000000;
}

// ---- rows (row.cc)
inline Self self() { return {domain.row, domain.inc}; }
Life life_of(int row, uint32_t inc);  // any thread, no GIL
bool describe_peer(int row, uint32_t inc, char* text, size_t n, int* pid, int* exit_code,
                   bool* code_known);
void set_role(const char* role);
bool record_exit(int row, uint32_t inc, int code);
bool record_exit_pid(int pid, int code);
int open_description();  // a new description of control on a high descriptor number, or -1 (errno)
int try_lock(int fd, int row);  // 0: locked; else errno
void unlock_row(int fd, int row);
int claim_row(
    int fd, RowState state);  // a row whose byte fd now locks, or -1; the row's inc is in its word
void identify_row(int row);   // writes pid, namespace, start time of this process
uint64_t own_pid_namespace();
bool read_process(int pid, char* state, unsigned long* flags, uint64_t* start);
int high_descriptor(int fd);  // moves fd out of the way of programs that count on low numbers
const char*
check_descriptor();  // nullptr, or why this process must stop sharing (at most every 100 ms)

// ---- sweep (sweep.cc), ledger mutex held
int sweep(bool force);    // rows swept; at most every 100 ms unless forced
void sweep_row(int row);  // its byte lock is held by the caller
bool settle_row(int row,
                bool pressed);  // ZOMBIE without pending pins -> FREE; pressed: unread_grace counts
extern uint64_t sweeps, rows_swept, lost_locks;

// ---- fork (fork.cc)
void install_fork_handlers();
Self last_child();  // row given to the last child that this thread forked, or {-1, 0}

}  // namespace shmtensor
