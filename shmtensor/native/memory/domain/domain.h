// The domain: the processes that share tensors, its files and mappings, and this process's row.
#pragma once

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <mutex>

#include "memory/domain/layout.h"

namespace shmtensor {

struct Self {
  int row;
  uint32_t inc;
};
enum class Liveness {
  Alive,
  Doomed,
  Dead
};  // Doomed: exiting, memory not yet reusable. Dead: lock obtainable, or row reused

// Counts of this process's operations in the domain.
struct Counts {
  uint64_t exported, received, acknowledged, stale_handles;
  uint64_t reclaim_passes, reclaimed_blocks, orphans_freed, expired_messages;
  uint64_t sweeps, rows_swept, lost_locks;
};

struct Arena;
struct LocalLedger;  // large, rarely used private records of a membership (ledger.h)

// Lock order: GIL -> fork mutex -> ledger mutex -> (try) byte lock. No Python under either mutex.
extern pthread_mutex_t fork_mutex, ledger_mutex;

// Note [Membership]: one record per domain that this process belongs to: files, mappings, row, and the private side of
// the ledger. `domain` is the process's own domain, which has its heap; the others are guests (guest.h). No function
// below the heap uses the global `domain`; the ledger's functions take the record as an argument, so that a process can
// be in several domains, and a test can simulate several processes. All memberships of a process share one ledger
// mutex; such a test gives each its own.
struct Domain {
  std::atomic<bool> ready{false};
  bool rowless = false;  // forked when no row was free: owns nothing, shares nothing (Note [Freeze])
  bool read_only = false;  // a guest that may not write to the volumes; it does not sweep either
  uint8_t id[16];
  int control = -1, volume[2] = {-1, -1};
  int lock = -1, spare = -1;  // own description with the row's byte locked; one more for the next fork
  uint64_t lock_dev = 0, lock_ino = 0;
  uint64_t checked_ms = 0;     // time of the last check of the lock's descriptor
  const char* share_error = nullptr;  // why this process must not share any more
  uint64_t pidns = 0, timens = 0;  // of this process when it identified its row
  uint64_t name = 0;  // in holder words; Note [Liveness]
  uint32_t slots = 0;  // S
  bool advised = false;  // huge pages were requested
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
  InFlight* in_flight = nullptr;
  DeviceSlab* slabs = nullptr;
  Timeline* timelines = nullptr;
  char* base = nullptr;  // slot s is at base + s * 64 MiB
  size_t mapped = 0;     // bytes mapped at base
  size_t shared = 0;     // bytes at base that count as shared (0 in a rowless process)

  // ---- the private side; guarded by the mutex
  pthread_mutex_t* mutex = &ledger_mutex;
  void (*return_block)(Arena*, uint32_t) = nullptr;  // returns an own block without holders to the heap
  uint64_t next_sweep = 0, last_pass_ms = 0;
  uint32_t pressure_seen = 0;  // the last call for memory that was answered
  size_t holds = 0;  // bits set in the own row
  size_t device_holds = 0;  // of them, bits of blocks of GPUs; a forked child has none
  size_t limbo_blocks = 0, limbo_bytes = 0;
  uint64_t retry_blocks = 0, retry_bytes = 0;
  // For the child that is being forked; fork_read: Note [Fork pipe].
  int fork_lock = -1, fork_read = -1, fork_row = -1;
  uint32_t fork_inc = 0;
  Counts counts = {};
  LocalLedger* local = nullptr;
  Arena* arenas[kMaxSlots];  // by slot; a tail's entry is its head's arena

  Half& nheld(uint32_t r, uint32_t s) { return reinterpret_cast<Half*>(nheld_base + r * nheld_stride)[s]; }
  Word* bits(uint32_t s, uint32_t r) { return reinterpret_cast<Word*>(bits_base + (size_t(s) * kRows + r) * (kBlocks / 8)); }
  Word& word(uint32_t s, uint32_t index) { return words[size_t(s) * kBlocks + index]; }
  InFlight& entry(uint32_t r, uint32_t index) { return in_flight[size_t(r) * kInFlight + index]; }
  char* slot_base(uint32_t s) const { return base + (size_t(s) << kSlotShift); }
  int volume_of(uint32_t s) const { return s >= slots / 2; }
  uint64_t offset_of(uint32_t s) const { return uint64_t(s - (volume_of(s) ? slots / 2 : 0)) << kSlotShift; }
  bool contains(const void* p) const { return size_t(static_cast<const char*>(p) - base) < mapped; }
  uint32_t row_high() const { return header->row_high.load(acquire); }
};

extern Domain domain;

struct Locked {
  pthread_mutex_t* mutex;
  explicit Locked(Domain& d = domain) : mutex(d.mutex) { pthread_mutex_lock(mutex); }
  ~Locked() { pthread_mutex_unlock(mutex); }
  Locked(const Locked&) = delete;
};

inline bool domain_ready() { return domain.ready.load(acquire); }
bool domain_ensure();        // GIL held; false: Python exception set
bool domain_ensure_quiet();  // no exception; may be called without the GIL (fork handler)
const char* domain_join(const int fds[3], const uint8_t id[16]);  // nullptr: joined, else why not
int domain_environment(char* text, size_t n);  // the value of SHMTENSOR_DOMAIN
void close_inherited_on_exec();  // what a launcher's environment names: no program started here gets it

inline uint64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return uint64_t(t.tv_sec) * 1000 + uint64_t(t.tv_nsec) / 1000000;
}

// ---- rows (process_table.cc)
inline Self self() { return {domain.row, domain.inc}; }
// Any thread, no GIL. Without use_proc it asks only for the lock (in mode "locks"); a process being killed counts as
// alive then.
Liveness liveness_of(Domain& d, int row, uint32_t inc, bool use_proc = true);
inline Liveness liveness_of(int row, uint32_t inc) { return liveness_of(domain, row, inc); }
bool describe_peer(Domain& d, int row, uint32_t inc, char* text, size_t n, int* pid, int* exit_code, bool* code_known);
inline bool describe_peer(int row, uint32_t inc, char* text, size_t n, int* pid, int* exit_code, bool* code_known) {
  return describe_peer(domain, row, inc, text, n, pid, exit_code, code_known);
}
void set_role(Domain& d, const char* role);
bool record_exit(int row, uint32_t inc, int code);
bool record_exit_pid(int pid, int code);
int open_description(Domain& d);  // of control, on a high descriptor number, or -1 (errno)
Errno try_lock(int fd, int row);
void unlock_row(int fd, int row);
// Obtains a free row (by fd's lock, or by name); -1: none. The row's inc is in its word.
int claim_row(Domain& d, int fd, RowState state);
void identify_row(Domain& d, int row);  // writes pid, namespaces, start time of this process
uint64_t own_pid_namespace();             // 0: there is no /proc
uint64_t own_time_namespace();            // 0: the kernel has none
// Whether a start time that was recorded in that time namespace can be compared with one that this process reads.
bool can_compare_starts(uint64_t time_namespace);
constexpr uint64_t kUntoldNamespace = 1;  // the kernel does not distinguish namespaces
// The text of /proc/PID/stat after the process's name, from the third field on; nullptr: there is none. Also called in the
// child's fork handler: uses only system calls and arithmetic.
char* read_stat(int pid, char (&text)[1024]);
bool read_process(int pid, char* state, unsigned long* flags, uint64_t* start, long* threads = nullptr);
int high_descriptor(int fd);  // moves fd to a high number, away from programs that rely on low numbers
// nullptr, or why this process must stop sharing (checks at most every 100 ms)
const char* check_descriptor(Domain& d, uint64_t now = now_ms());

// ---- sweep (release_holds_of_dead.cc), ledger mutex held
int sweep(Domain& d, bool force);    // rows swept; at most every 100 ms unless forced
int sweep_all(bool force);           // in every domain of this process
void sweep_row(Domain& d, int row);  // the caller has obtained it
// ZOMBIE without pending entries -> FREE; under_pressure: after unread_grace instead of dead_grace
bool settle_row(Domain& d, int row, bool under_pressure);

// ---- fork (fork.cc)
void install_fork_handlers();
Self last_child();  // row given to the last child that this thread forked, or {-1, 0}

}  // namespace shmtensor
