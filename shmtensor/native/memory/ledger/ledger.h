// The ledger: who holds which block. PROTOCOL as code; the words are in layout.h, the private side
// in slot_records.h.
//
// What other folders use:
//   export_block   a handle with one pin: the block lives until it is acknowledged, void, expired
//   hold_block     a hold by handle, without acknowledging; drop_block ends it
//   acknowledge    ends the pin; idempotent; after hold_block succeeded, or to discard a message
//   Gate (heap.h)  opens the heap for NumPy allocations of this thread
//   raise_allocation_failure (heap.h)  turns NumPy's MemoryError into OutOfSharedMemory
// All of these need the GIL (they set exceptions); life_of and is_shared do not.
#pragma once

#include "python.h"

#include "memory/heap/slot_records.h"
#include "memory/domain/guest.h"

namespace shmtensor {

// What travels. 72 bytes, plain data.
struct Handle {
  uint8_t domain[16];
  uint32_t slot, inc, index, volume;
  uint64_t gen;
  uint64_t offset;  // of the block, in its volume
  uint64_t nbytes;
  uint32_t pin_row, pin_index;
  uint64_t pin_seq;
};
static_assert(sizeof(Handle) == 72, "a handle is 72 bytes");

inline bool is_shared(const void* p) {
  return size_t(static_cast<const char*>(p) - domain.base) < domain.shared ||
         __builtin_expect(guest_count.load(relaxed) && guest_shares(p), 0);
}

// The block around an address of this process, which the caller keeps in use; else arena is nullptr and base p. What it
// says stays right until then. Exported soon: what that writes is fetched meanwhile.
Found block_around(const void* p, bool is_exported_soon = false);
// via: the block of the channel that carries the message, which this process holds; {}: another road.
bool export_block(const Found& block, const Found& via, Handle* out);
void expect_export();  // there will be more: what the next one writes to is fetched ahead
bool hold_block(const Handle& handle, void** base, size_t* nbytes);
void expect_block(const Handle& handle);  // it will be held next: what that reads is fetched ahead
void drop_block(void* base);
void acknowledge(const Handle& handle);
bool held_elsewhere(
    const void* p);  // whether another process, or a message under way, has the block (reclaim_blocks.cc)
size_t received_here(
    const void* p);  // how many Blocks of this process came by handle and lie over the block

// A zeroed block, 64-byte aligned, "shared from birth" (its byte is 2), whatever the gate says;
// free it with heap_free.
void* allocate_shared(size_t nbytes);

// Of a thread that waits and has no lock: gives warm memory back if another process found no room
// (Note [Call for memory] in out_of_memory.cc).
void answer_in_wait();

// PeerLostError: "<where>: rank 1 (pid 77) was killed by SIGKILL (-9)". Waits up to 200 ms for the
// exit code.
PyObject* raise_peer_lost(const char* where, int row, uint32_t inc);
// Of a process that lives, but does not come: "<where>: <text>".
PyObject* raise_peer_lost(const char* where, int row, uint32_t inc, const char* text);
bool is_stopped(int row, uint32_t inc);  // by a signal; false if it is in another pid namespace

// ---- below the interface: for reclaim, sweep, fork, bind. Ledger mutex held.
enum class Outcome { Good, Stale, Foreign, NotShared, NoPin, Lost, NoMemory };
// Sets the exception of an outcome; nullptr. GIL held, mutex not.
PyObject* explain(Outcome outcome, const char* where, const char* why, const Handle* h);
Outcome export_locked(Domain& d, const Found& block, const Found& via, Handle* out, const char** why, uint64_t now);
Outcome hold_locked(Domain& d, const Handle& handle, void** base, const char** why);
bool drop_locked(Domain& d, void* base);
void acknowledge(Domain& d, const Handle& handle);  // no lock needed
bool discard_locked(Arena* arena,
                    uint32_t index);  // the array of an own or inherited block is gone

bool validate(Domain& d, uint32_t slot, uint32_t inc, uint32_t index, uint64_t gen, bool is_holder);
// Sets the bit of the own row; the caller fences.
bool publish_hold(Domain& d, uint32_t slot, uint32_t index);
void clear_hold(Domain& d, uint32_t slot, uint32_t index);

inline uint32_t row_high() { return domain.row_high(); }

// pins
struct PinFields {
  uint32_t slot, inc, index, via_slot, via_inc, via_index;
  uint64_t gen, via_gen, time_ms, nbytes;
};
bool read_pin(Pin& pin, uint64_t* word, PinFields* fields);  // false: not pending
bool is_void(Domain& d, const PinFields& f);                 // its channel is gone
int64_t take_pin(Domain& d);                                 // a free pin of the own row, or -1
void note_pin(Domain& d, uint32_t index);                    // it is PENDING now
void forget_pins(Domain& d);                                 // after fork: a fresh row
size_t pins_pending(Domain& d, size_t* nbytes);              // of the own row

struct Books {  // untouched pages of these cost nothing
  // pins of the own row: known to be free, and under way
  uint32_t pin_free[kPins], pin_out[kPins];
  uint32_t n_free, n_out, n_used, collect_at;
  Arena* batch[kMostSlots];  // what reclaim looks at
  uint32_t lost[kRows];      // incarnations seen that live without their lock
  int birth[kRows], births;  // Note [Birth]: descriptor + 1 by row, and how many
};
Books* new_books();  // nullptr: no memory
void drop_books(Books* books);

// reclaim (reclaim_blocks.cc)
size_t reclaim(Domain& d);                    // whole limbo in one batch; blocks freed
void maybe_reclaim(Domain& d, size_t asked);  // by the thresholds
size_t reclaim_orphans(Domain& d);            // slots freed
size_t expire_pins(Domain& d, bool pressed, size_t nbytes);
extern std::atomic<uint64_t> unread_grace_ms, dead_grace_ms;

// slots (claim_commit_slot.cc)
// Head slot in state CLAIMED, line 1 written; -1: none free.
int claim_slots(Domain& d, uint32_t n, int volume, Kind kind);
void publish_slots(Domain& d, uint32_t head);  // CLAIMED -> TAIL, LIVE
void release_slots(Domain& d, uint32_t head, uint32_t n, bool claimed);  // FREEING, punch, FREE
void finish_freeing(Domain& d, uint32_t head);  // by the sweeper of a dead process
void free_slot_word(Domain& d, uint32_t s);     // -> FREE, inc + 1
int commit(Domain& d, uint32_t slot, size_t offset, size_t n);  // 0 or errno; EDQUOT: no headroom
void punch(Domain& d, uint32_t slot, size_t offset, size_t n);
extern std::atomic<uint64_t> committed_bytes;  // by this process, now

}  // namespace shmtensor
