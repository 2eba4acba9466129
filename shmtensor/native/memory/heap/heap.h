// The heap: an allocator of array data over the slots of this process, and the gate that decides whether NumPy uses it.
#pragma once

#include "python.h"

#include "memory/heap/slot_records.h"

namespace shmtensor {

// ---- size classes
constexpr int kTinyClasses = 16, kClasses = 43;
constexpr size_t kLargestTiny = 1024, kLargestClass = 256 << 10, kLargestRun = 16 << 20;
struct SizeClass {
  uint16_t granules, npages, capacity;  // of a block; pages and blocks of a span
  uint16_t cached;                      // blocks that a thread keeps
  Kind kind;
  uint64_t inverse;  // 2^32 / granules, rounded up: exact for what is below 2^16, as indices are
  uint32_t blocks_in(uint32_t n) const { return uint32_t(n * inverse >> 32); }  // n / granules
};
extern SizeClass classes[kClasses];

// ---- per thread. __thread has no initialiser and hence no wrapper call, unlike thread_local. The initial-exec model
// would save 2 ns per access, but loading fails ("cannot allocate memory in static TLS block") if other libraries have
// used up the space.
struct Cache;
struct Thread {
  int gate;   // heap open?
  bool is_exiting;  // the thread's exit has run
  Cache* cache;
};
extern __thread Thread thread_state;

// ---- memory; no GIL needed. nullptr: no room, see pending_failure()
void* heap_alloc(Thread& thread, size_t nbytes);  // thread: the caller's thread_state
inline void* heap_alloc(size_t nbytes) { return heap_alloc(thread_state, nbytes); }
void* heap_alloc_zeroed(size_t nbytes);
void heap_free(void* p);  // only addresses inside the volumes
void* heap_realloc(void* p, size_t nbytes);
size_t heap_size(const void* p);  // usable bytes of the block
inline bool in_volumes(const void* p) { return size_t(static_cast<const char*>(p) - domain.base) < domain.mapped; }

// ---- why an allocation of this thread failed
struct Failure {
  size_t nbytes;
  char text[480];
};
const Failure* pending_failure();
void clear_failure();
// If NumPy's MemoryError is set and this thread's heap refused: replaces it by OutOfSharedMemory.
// Always returns nullptr.
PyObject* raise_allocation_failure(const char* where);

// ---- the gate. GIL held.
extern PyObject* handler_capsule;
extern bool gate_attention;  // no domain yet, after uninstall(), a warning due: the slow way
int gate_enter_slow();
void gate_leave_slow(int token);
// Opens the gate in this thread; the token is for gate_leave. -1: exception set, the gate is unchanged.
inline int gate_enter() {
  PyObject* h = PyDataMem_GetHandler();
  if (__builtin_expect(h != nullptr, 1)) Py_DECREF(h);
  if (__builtin_expect(h != handler_capsule || gate_attention, 0)) return gate_enter_slow();
  int token = thread_state.gate;
  thread_state.gate = 1;
  return token;
}
inline void gate_leave(int token) {
  if (__builtin_expect(token > 1, 0)) gate_leave_slow(token);
  else thread_state.gate = token;
}
// Shuts the gate in this thread, around user code; the token is for gate_leave.
inline int gate_shut() {
  int token = thread_state.gate;
  thread_state.gate = 0;
  return token;
}
struct Gate {
  int token;
  Gate() : token(gate_enter()) {}
  ~Gate() {
    if (token >= 0) gate_leave(token);
  }
  explicit operator bool() const { return token >= 0; }
  Gate(const Gate&) = delete;
};
struct Shut {
  int token;
  Shut() : token(gate_shut()) {}
  ~Shut() { gate_leave(token); }
  Shut(const Shut&) = delete;
};

// ---- below the interface: for ledger, fork, statistics
struct Quiesced {  // fork mutex, ledger mutex, no thread in its fast path
  Quiesced();
  ~Quiesced();
  Quiesced(const Quiesced&) = delete;
};
void quiesce();
void resume();
void heap_return(Arena* a, uint32_t index);  // frees a block without holders; ledger mutex held, byte already 0
void heap_after_fork();  // in the child: empty caches, no own arena
size_t heap_trim();      // returns free memory to the system; bytes
void heap_relieve();     // the same without thread caches; ledger mutex held
void register_cache_exit();

struct HeapFigures {
  size_t slots[4];             // by kind
  size_t blocks[6], bytes[6];  // by byte-map state
  size_t committed, cached;    // cached: free but committed
};
void heap_figures(HeapFigures* f);      // quiesced
bool heap_check(char* text, size_t n);  // quiesced; false: the violated invariant is in text
bool row_check(Domain& d, char* text, size_t n);  // the same, of this process's row

// numpy_handler.cc
// Note [Counted data]: while a profile measures memory, NumPy's handler counts the bytes of blocks that it allocates in
// the heap, less those that it frees. Its functions are replaced for that: nothing is counted otherwise.
void count_data(bool on);                // from what the heap has in use now. GIL held.
extern std::atomic<int64_t> data_bytes;  // in use by arrays
extern __thread int64_t thread_data_bytes;  // allocated less freed by this thread
void report_lost(int pid, const char* role);  // a warning for the next gate_enter, export, sweep
bool warn_of_lost();  // GIL held; false: the warning became an exception
extern std::atomic<bool> lost_reported;
void expect_attention();  // the next gate_enter takes the slow path (for fork handlers, which call no Python)
extern bool uninstalled;
PyObject* install_handler();  // the former handler of this context, or nullptr with an exception
bool make_handler();

}  // namespace shmtensor
