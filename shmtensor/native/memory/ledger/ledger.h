// The ledger: which process holds which block. The shared words are in layout.h, the private side in slot_records.h.
//
// Other folders use:
//   export_block   a handle in flight: the block lives until it is acknowledged, void or expired
//   hold_block     a hold by handle, without acknowledging; drop_block ends it
//   acknowledge    ends the entry in flight; idempotent; after hold_block, or to discard a message
//   Gate (heap.h)  opens the heap for NumPy allocations of this thread
//   raise_allocation_failure (heap.h)  turns NumPy's MemoryError into OutOfSharedMemory
// All of these need the GIL (they set exceptions); liveness_of and is_shared do not.
#pragma once

#include "python.h"

#include "memory/heap/slot_records.h"
#include "memory/domain/guest.h"

namespace shmtensor {

// The handle that messages carry: 72 bytes, plain data.
struct Handle {
  uint8_t domain[16];
  uint32_t slot, inc, index, volume;
  uint64_t gen;
  uint64_t offset;  // of the block, in its volume
  uint64_t nbytes;
  uint32_t entry_row, entry_index;
  uint64_t entry_seq;
};
static_assert(sizeof(Handle) == 72, "a handle is 72 bytes");

inline bool is_shared(const void* p) {
  return size_t(static_cast<const char*>(p) - domain.base) < domain.shared ||
         __builtin_expect(guest_count.load(relaxed) && guest_shares(p), 0);
}

// The block around an address of this process; without one, arena is nullptr and base p. Valid as long as the caller
// keeps the block in use. is_exported_soon: prefetches the lines that an export writes.
BlockRef block_around(const void* p, bool is_exported_soon = false);
// via: the block of the channel that carries the message, which this process holds; {}: another transport.
bool export_block(const BlockRef& block, const BlockRef& via, Handle* out);
void prefetch_export();  // prefetches the lines that the next export writes
bool hold_block(const Handle& handle, void** base, size_t* nbytes);
void prefetch_block(const Handle& handle);  // prefetches the lines that hold_block reads
void drop_block(void* base);
void acknowledge(const Handle& handle);
bool held_elsewhere(const void* p);   // whether another process, or a message in flight, has the block
size_t received_here(const void* p);  // how many received Blocks of this process are over the block

// A zeroed, 64-byte aligned block that is shared from the start (its byte is 2), whatever the state of the gate; free it
// with heap_free.
void* allocate_shared(size_t nbytes);

// For a waiting thread without locks: returns warm memory if another process has no room (Note [Call for memory] in
// out_of_memory.cc).
void answer_in_wait();

// PeerLostError: "<where>: rank 1 (pid 77) was killed by SIGKILL (-9)". Waits up to 200 ms for the exit code.
PyObject* raise_peer_lost(Domain& d, const char* where, int row, uint32_t inc);
inline PyObject* raise_peer_lost(const char* where, int row, uint32_t inc) {
  return raise_peer_lost(domain, where, row, inc);
}
// For a process that is alive but does not respond: "<where>: <text>".
PyObject* raise_peer_lost(Domain& d, const char* where, int row, uint32_t inc, const char* text);
bool is_stopped(Domain& d, int row, uint32_t inc);  // by a signal; false if it is in another pid namespace

// ---- below the interface: for reclaim, sweep, fork, bind. Ledger mutex held.
enum class Outcome { Good, Stale, Foreign, NotShared, NoEntry, Lost, NoMemory };
// Sets the exception of an outcome; nullptr. GIL held, mutex not.
PyObject* explain(Outcome outcome, const char* where, const char* reason, const Handle* h);
Outcome export_locked(Domain& d, const BlockRef& block, const BlockRef& via, Handle* out, const char** reason, uint64_t now);
Outcome hold_locked(Domain& d, const Handle& handle, void** base, const char** reason);
bool drop_locked(Domain& d, void* base);
void acknowledge(Domain& d, const Handle& handle);  // no lock needed
bool discard_locked(Arena* arena, uint32_t index);  // frees the array of an own or inherited block

bool validate(Domain& d, uint32_t slot, uint32_t inc, uint32_t index, uint64_t gen, bool is_holder);
// Sets the bit of the own row; the caller fences.
bool publish_hold(Domain& d, uint32_t slot, uint32_t index);
void clear_hold(Domain& d, uint32_t slot, uint32_t index);

inline uint32_t row_high() { return domain.row_high(); }

// What statistics tell of a domain. Plain data: no Python object is created under the ledger mutex.
struct Membership {
  uint8_t id[16];
  bool own, read_only;
  int row;
  uint32_t inc, living, zombies, used, orphans;
  size_t holds;
};
Membership membership_of(Domain& d);  // bind_guest.cc

// Calls f(s) for each slot below the high marks.
template <class F>
void each_slot(Domain& d, F f) {
  for (int v = 0; v < 2; ++v)
    for (uint32_t s = v ? d.slots / 2 : 0, end = s + d.header->slot_high[v].load(acquire); s < end; ++s) f(s);
}

// entries of handles in flight
struct InFlightFields {
  uint32_t slot, inc, index, via_slot, via_inc, via_index;
  uint64_t gen, via_gen, time_ms, nbytes;
};
bool read_entry(InFlight& entry, uint64_t* word, InFlightFields* fields);  // false: not pending
bool is_void(Domain& d, const InFlightFields& f);         // its channel is freed
// Calls f for each pending entry below the high marks that is not void, until it returns false.
template <class F>
void each_entry(Domain& d, F f) {
  for (uint32_t r = 0, rows = d.row_high(); r < rows; ++r) {
    for (uint32_t i = 0, n = d.rows[r].in_flight_high.load(acquire); i < n; ++i) {
      InFlight& entry = d.entry(r, i);
      uint64_t word;
      InFlightFields fields;
      if (read_entry(entry, &word, &fields) && !is_void(d, fields) && !f(r, entry, word, fields)) return;
    }
  }
}
int64_t take_entry(Domain& d);                            // a free entry of the own row, or -1
void add_pending_entry(Domain& d, uint32_t index);        // it is PENDING now
void clear_entries(Domain& d);                            // after a fork, for the new row
size_t count_pending_entries(Domain& d, size_t* nbytes);  // of the own row

struct LocalLedger {  // untouched pages of these cost nothing
  // entries of the own row: free ones, and pending ones
  uint32_t free_entries[kInFlight], pending_entries[kInFlight];
  uint32_t n_free, n_out, n_used, collect_at;
  Arena* batch[kMaxSlots];             // the slots of a reclaim pass
  int fork_pipe[kRows], n_fork_pipes;  // Note [Fork pipe]: descriptor + 1 by row, and how many
  struct {
    uint32_t inc;
    uint64_t since_ms;
  } exiting[kRows],  // dead incarnations whose exit has not been seen, and since when; Note [Context]
      lost[kRows];   // those that live without their lock, and since when; 0: reported
};
LocalLedger* new_local_ledger();  // nullptr: no memory
void drop_local_ledger(LocalLedger* local);

// reclaim (reclaim_blocks.cc)
size_t reclaim(Domain& d);                    // whole limbo in one batch; blocks freed
void maybe_reclaim(Domain& d, size_t nbytes);  // by the thresholds
size_t reclaim_orphans(Domain& d);            // slots freed
size_t expire_messages(Domain& d, bool under_pressure, size_t nbytes);
extern std::atomic<uint64_t> unread_grace_ms, dead_grace_ms;

// Note [Context] in release_holds_of_dead.cc
void use_device(Domain& d);    // this process is swept only after its exit
int rows_exiting(Domain& d);   // dead rows that the last sweep here had to leave alone
extern std::atomic<uint64_t> exit_wait_ms;

// slots (claim_slots.cc)
// Head slot in state CLAIMED, line 1 written; -1: none free.
int claim_slots(Domain& d, uint32_t n, int volume, Kind kind);
void publish_slots(Domain& d, uint32_t head);  // CLAIMED -> TAIL, LIVE
void release_slots(Domain& d, uint32_t head, uint32_t n, bool claimed);  // FREEING, punch, FREE
void finish_freeing(Domain& d, uint32_t head);  // by the sweeper of a dead process
void free_slot_word(Domain& d, uint32_t s);     // -> FREE, inc + 1
Errno commit(Domain& d, uint32_t slot, size_t offset, size_t n);  // EDQUOT: no headroom
void punch(Domain& d, uint32_t slot, size_t offset, size_t n);
extern std::atomic<uint64_t> committed_bytes;  // by this process, now

}  // namespace shmtensor
