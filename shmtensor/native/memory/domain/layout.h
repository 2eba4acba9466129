// The bytes that every process of a domain shares: areas, words and their states (layout version 6,
// little endian).
//
//   control (memfd, sparse)
//   +--------+---------+---------+-----------+------------+--------------+---------------+---------+-------------+
//   | header | rows    | slots   | nheld     | words      | bits         | in flight     | slabs   | timelines   |
//   | 4 KiB  | R x 256 | S x 128 | R x S x 4 | S x NB x 8 | S x R x 8 Ki | R x 2^20 x 64 | S x 128 | R x 64 x 16 |
//   +--------+---------+---------+-----------+------------+--------------+---------------+---------+-------------+
//   volume 0 (POSIX shared memory, unlinked at once), volume 1 (memfd): S/2 slots of 64 MiB each
//
//   row    FREE -> BORN (forked, not yet run) -> LIVE -> ZOMBIE (dead, messages pending) -> FREE
//   slot   FREE -> CLAIMED -> LIVE | TAIL -> FREEING -> FREE, inc + 1
//          LIVE and owner nobody = orphan <-> DYING -> FREEING
//          of kind kDevice (no bytes in a volume): its owner has died: LIVE -> LOST -> FREEING
//   block  QUIET(g) -> LIVE(g) <-> DYING(g) -> QUIET(g + 1)
//   entry  FREE(seq) -> PENDING(seq) -> FREE(seq + 1)        (of a handle in flight; a "pin" in tests/protocol)
//
// Note [Memory order]: a summary of the order of the shared words. docs/design/memory-order.md argues each, and
// tests/protocol/weak.py runs the patterns on a weak memory.
//   * Hold bit, entry word and the child's row form store-load pairs with DYING and its scan: each side stores (relaxed
//     or by CAS), executes fence() = atomic_thread_fence(seq_cst), and loads. Either the scan sees the hold, or the
//     holder sees the mark. nheld, in_flight_high and row_high are raised before the same fence, because they guide
//     the scan.
//   * Clearing a bit, lowering nheld and acknowledging are release; scans load acquire: a holder's last accesses to the
//     block happen before the next write there.
//   * Every CAS is acq_rel. The owner writes line 1 of a slot between CLAIMED and LIVE, and publishes it by the CAS to
//     LIVE. A reader has loaded the slot's word (acquire) and holds a block in the slot.
//   * The fields of an entry are relaxed atomics. They are written while it is FREE (seen by acquire, then a release
//     fence) and published by the release store of PENDING. A scanner reads word, fields, acquire fence, word: equal
//     words mean that the fields belong to the word.
//   * The kernel's lock orders the writes of a dead process before its sweeper (exit_mm precedes exit_files).
// gen (62 bits) and seq (63 bits) never wrap. Slot inc and nonce have 24 bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shmtensor {

using Word = std::atomic<uint64_t>;
using Half = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && Half::is_always_lock_free, "shared words must be lock free");

using Errno = int;  // what a function returns: 0, or an errno

constexpr uint32_t kLayoutVersion = 6;
constexpr uint32_t kRows = 256;               // R
constexpr uint32_t kBlocks = 65536;           // NB
constexpr uint32_t kBitWords = kBlocks / 64;  // words of one row's bitmap of one slot
constexpr uint32_t kInFlight = 1u << 20;          // per row
constexpr uint32_t kTimelines = 64;           // of CUDA's streams, per row
constexpr uint32_t kNobody = 0xFFF;           // owner of an orphan
constexpr uint32_t kNoSlot = 0xFFFFFFFF;
constexpr int kSlotShift = 26;
constexpr uint64_t kSlotBytes = 1ull << kSlotShift;  // 64 MiB
constexpr uint32_t kMinSlots = 1024, kMaxSlots = 16384;

enum RowState : uint64_t { kRowFree, kRowBorn, kRowLive, kRowZombie };
enum LivenessMode : uint32_t { kByLocks, kByProcess };  // Note [Liveness]
enum SlotState : uint64_t { kSlotFree, kSlotClaimed, kSlotLive, kSlotTail, kSlotDying, kSlotFreeing, kSlotLost };
enum BlockState : uint64_t { kQuiet, kLive, kDying };

// How a slot is divided. Tiny: granules of 64 B (the first 4 MiB); medium: 1 KiB; huge: one block of whole slots.
// Device: a slab of a GPU's memory; each has a granule of its own (Slot::shift), and its nheld also counts "open".
enum Kind : uint32_t { kNoKind, kTiny, kMedium, kHuge, kTailKind, kDevice };
constexpr int kShift[] = {0, 6, 10, 40, 40, 9};  // block index = offset >> shift

struct Header {
  char magic[8];
  uint32_t version, rows, slots, blocks;
  uint8_t id[16];
  uint32_t liveness;  // LivenessMode; the founder's choice
  uint64_t pidns;     // of the founder: inode of its pid namespace
  uint64_t timens;    // the same of its time namespace
  alignas(64) Half row_high;      // rows ever used; only grows
  alignas(64) Half slot_high[2];  // slots ever used in each volume; only grow
  Half short_volume;              // statistics only: commits that volume 0 refused
  alignas(64) Half pressure;      // counts calls for memory; a hint, relaxed: other processes then return memory
};
constexpr size_t kRowsAt = 4096;
static_assert(sizeof(Header) <= kRowsAt, "PROTOCOL: the rows begin behind the header");

struct Row {
  // line 0: the process
  Word state;         // inc << 8 | RowState
  Word exit;          // inc << 32 | 1 << 31 | (code + 2^30), 0: unknown
  Word pidns, start;  // pid namespace inode, start time in clock ticks
  Half pid;
  Half frozen;  // inc: never swept, Note [Freeze]; only for liveness "process"
  Word holder;  // 0, or the name of the process that holds the row; Note [Liveness]
  Word timens;  // time namespace in which `start`, the messages' times and death_ms were read; Note [Time namespace]
  Half device;  // inc: uses blocks of GPUs, or lets GPUs use blocks of the heap; Note [Context]
  char reserved[4];
  // line 1
  alignas(64) Half in_flight_high;  // entries ever used; only grows within an incarnation
  // line 2
  alignas(64) Word death_ms;
  Word profile;  // 0, or the file of the profile that the process records: id << 32 | descriptor (profiler/events.h)
  // line 3: role, for messages ("rank 1"); written by the row's process, read by all, always ends with NUL
  alignas(64) char role[64];
};
static_assert(sizeof(Row) == 256, "PROTOCOL: a row has four lines");

struct Slot {
  Word word;  // state:4 | owner:12 | nonce:24 | inc:24
  char reserved[56];
  // line 1, written by the owner only
  Half kind, shift, length, back;  // back: a tail's distance to its head
  Word committed;                  // bytes; of a huge block: its size
  Half reclaiming;
  char reserved1[36];
};
static_assert(sizeof(Slot) == 128, "PROTOCOL: a slot has two lines");

struct InFlight {
  Word word;  // seq << 1 | PENDING
  Word gen;
  Half slot, inc, index, via_index;
  Half via_slot, via_inc;  // via_slot = kNoSlot: unknown destination
  Word via_gen;
  Word time_ms;
  Word nbytes;  // for summaries
};
static_assert(sizeof(InFlight) == 64, "PROTOCOL: an entry has one line");

// Of a slot of kind kDevice: written by its owner between CLAIMED and LIVE.
struct DeviceSlab {
  Word handle[8];  // cudaIpcMemHandle_t
  Word uuid[2];    // of the GPU
  Word size;       // bytes
  Word owner;      // inc << 32 | row
  char reserved[32];
};
static_assert(sizeof(DeviceSlab) == 128, "two lines");

// Of a stream: the work that its process has numbered (memory/device/timelines.cc). The numbers go on, cyclically, from one
// process of the row to the next.
struct Timeline {
  Half done;                // written by the GPU after the work; = issued once the process is swept
  Half issued;              // the last number
  Half lost_from, lost_to;  // the numbers from lost_from + 1 to lost_to were not done when their process ended
};
static_assert(sizeof(Timeline) == 16, "CUDA writes the first four bytes");

// ---- packed words
struct SlotWord {
  uint64_t state, owner, nonce, inc;
  uint64_t packed() const { return state | owner << 4 | (nonce & 0xFFFFFF) << 16 | (inc & 0xFFFFFF) << 40; }
  static SlotWord of(uint64_t w) { return {w & 15, (w >> 4) & 0xFFF, (w >> 16) & 0xFFFFFF, w >> 40}; }
};
inline uint64_t gen_of(uint64_t word) { return word >> 2; }
inline BlockState state_of_block(uint64_t word) { return BlockState(word & 3); }
inline uint64_t block_word_of(uint64_t gen, BlockState state) { return gen << 2 | state; }
inline RowState state_of_row(uint64_t word) { return RowState(word & 0xFF); }
inline uint32_t inc_of_row(uint64_t word) { return uint32_t(word >> 8); }
inline uint64_t row_word_of(uint64_t inc, RowState state) { return inc << 8 | state; }

// Prefetches the cache line of p for writing. (GCC's builtin prefetches for reading unless prefetchw is enabled, which
// older processors execute as a no-op.)
inline void fetch_to_write(const void* p) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}
inline void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

inline bool swap_word(Word& word, uint64_t from, uint64_t to) {
  return word.compare_exchange_strong(from, to, std::memory_order_acq_rel, acquire);
}

// ---- offsets of the areas
struct Areas {
  size_t rows, slots, nheld, words, bits, in_flight, slabs, timelines, size;
  explicit Areas(size_t S) {
    auto page = [](size_t n) { return (n + 4095) & ~size_t(4095); };
    rows = kRowsAt;
    slots = rows + kRows * sizeof(Row);
    nheld = page(slots + S * sizeof(Slot));
    words = nheld + kRows * page(S * 4);
    bits = page(words + S * kBlocks * 8);
    in_flight = bits + S * kRows * (kBlocks / 8);
    slabs = in_flight + size_t(kRows) * kInFlight * sizeof(InFlight);
    timelines = page(slabs + S * sizeof(DeviceSlab));
    size = timelines + size_t(kRows) * kTimelines * sizeof(Timeline);
  }
};

}  // namespace shmtensor
