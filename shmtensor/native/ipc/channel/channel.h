// A channel: messages from any process to any process through shared memory; no death loses a message.
//
//   root ──head──> segment ──next──> segment ──next──> segment <──tail── root
//                  |64 words|        |64 words|        ...
//                  |64 cells|        |64 cells|
//
// Segments are blocks of the heap, each used once from its first cell to its last. A handle in flight through the channel
// (`via`) keeps a linked segment alive, even if its creator ends. docs/design/multiprocessing.md has the protocol and the
// effects of a SIGKILL at each arrow; tests/protocol/channel.pml is its model.
//
//   word of a cell     EMPTY ─> WRITING(w) ─> READY ─> CLAIMED(r) ─> DONE(r) ─> FINISHED
//                                  │            ^          │            │
//                        w dead    v            └──────────┘ r dead     └─> FINISHED, r dead: handles acknowledged for it
//                                 TOMB
//
//   u64 word           state:4 | row+1:12 | 0:16 | inc:32
//   u64 link           segment number mod 2^30:30 | offset in the domain / 64:34; 0: none
//
// Counts, sizes, handles and links in shared memory are read once, checked against the memory that they describe, and used
// from there (copy_once.h): a process that writes there at the wrong moment causes an error, no access elsewhere.
#pragma once

#include <string>
#include <vector>

#include "memory/ledger/ledger.h"
#include "python.h"
#include "ipc/small_vector.h"
#include "ipc/futex.h"

namespace shmtensor {

constexpr int kCells = 64;
constexpr uint32_t kDebtors = 512;  // 256 rows, and as many of the dead
constexpr size_t kCellBytes = 512;
constexpr uint64_t kChannelMagic = 0x314C4E4E41484353;  // "SCHANNL1"

enum CellState : uint64_t { EMPTY = 0, WRITING = 1, READY = 2, CLAIMED = 3, DONE = 4, FINISHED = 5, TOMB = 6 };

// The state after shutdown(): Note [The end] in channel.cc.
enum Ending : uint32_t { OPEN = 0, NO_MORE = 1, AT_ONCE = 2 };

struct Root {
  uint64_t magic;
  uint64_t maxsize;  // 0: no bound
  std::atomic<uint32_t> shut;  // an Ending; only grows
  alignas(64) std::atomic<uint64_t> head;
  alignas(64) std::atomic<uint64_t> tail;  // a hint, never behind head
  alignas(64) std::atomic<uint32_t> items;  // changes when a message becomes READY
  std::atomic<uint32_t> readers;            // an upper bound of those that wait for it
  alignas(64) std::atomic<uint32_t> room;   // changes when a message is FINISHED
  std::atomic<uint32_t> writers;
  alignas(64) std::atomic<uint64_t> tasks_done;
  std::atomic<uint32_t> tasks;  // changes when the last task is done
  std::atomic<uint32_t> joiners;
  uint32_t debtors;  // entries of the table after the root: kDebtors, or 0: the queue is not joinable
  std::atomic<uint64_t>* debts() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }
};

// A message, in its cell or, if it is too large, in its own block: this header, its handles, its bytes.
struct Message {
  std::atomic<uint32_t> exported;  // handles in flight; the rest of the table is not yet written
  uint32_t handles;
  uint64_t nbytes;
  Handle* table() { return reinterpret_cast<Handle*>(this + 1); }
  char* bytes(uint32_t n) { return reinterpret_cast<char*>(table() + n); }  // after n handles
  static size_t size(size_t handles, size_t nbytes) { return sizeof(Message) + handles * sizeof(Handle) + nbytes; }
};

struct Cell {
  std::atomic<uint32_t> spilled;  // 1: data starts with the handle of a block with the message
  uint32_t unused;
  Message message;
  char data[kCellBytes - 8 - sizeof(Message)];
  Handle* spill() { return reinterpret_cast<Handle*>(data); }
};
static_assert(sizeof(Cell) == kCellBytes, "a cell");
static_assert(sizeof(Message) == 16 && sizeof(Handle) % 8 == 0 && sizeof(Handle) <= 128, "a message");

struct Segment {
  Handle self;  // in flight while the segment is linked, which keeps it alive
  Handle previous;
  uint64_t number;  // 1, 2, ...
  uint64_t link;    // of itself
  std::atomic<uint32_t> previous_released;
  std::atomic<uint64_t> tombs_before;  // in the previous segments; valid once those are retired
  std::atomic<uint64_t> next;
  alignas(64) std::atomic<uint32_t> first;  // written by readers; hint: all cells below are FINISHED or TOMB
  alignas(64) std::atomic<uint32_t> last;   // written by writers; hint: no cell below is EMPTY
  alignas(64) std::atomic<uint64_t> words[kCells];
  alignas(64) Cell cells[kCells];
};

// A received message: its bytes and its blocks. The bytes of a large one are in `spill`, else in inline_bytes_.
class ReceivedMessage {
 public:
  ReceivedMessage() = default;
  ~ReceivedMessage() { clear(); }
  ReceivedMessage(const ReceivedMessage&) = delete;
  ReceivedMessage& operator=(const ReceivedMessage&) = delete;
  void clear();

  PyObject* data() const;    // bytes, or a memoryview over the spill: new reference
  PyObject* blocks() const;  // a list: new reference

  const char* bytes = nullptr;
  size_t nbytes = 0;
  PyObject* spill = nullptr;
  SmallVector<PyObject*> blocks_held;

 private:
  friend class Channel;
  char inline_bytes_[kCellBytes];
};

// The state of a channel, computed from its words alone; no process keeps counters, so deaths cannot make it wrong.
struct MessageCounts {
  uint64_t sent = 0;      // messages that were READY once
  uint64_t received = 0;  // of these: finished
  uint64_t waiting = 0;   // READY
  uint64_t reading = 0;   // CLAIMED by a reader that may still die
  uint64_t writing = 0;   // WRITING
  uint64_t given_up = 0;  // failed puts: refused, or the writer died
  uint64_t segments = 0;  // from the head on
};

// One process's view of a channel. Call with the GIL; the caller waits between tries without it.
class Channel {
 public:
  enum class Try { Ok, NotNow, Over, Failed };  // Over: shut down. Failed: a Python exception is set

  Channel() = default;
  ~Channel() { close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // The root is in a zeroed block (create) or in one from another process (attach), which the caller keeps alive.
  bool create(void* block, uint64_t maxsize, bool joinable);
  bool attach(void* block, size_t nbytes);
  void close();

  // Sends bytes and a handle of each block. A message that does not fit its cell is stored in *spill, a block that the
  // first try creates and later tries of the same message reuse; discard() it when giving up.
  Try put(const char* bytes, size_t nbytes, const BlockRef* blocks, uint32_t n, void** spill);
  static void discard(void** spill);
  Try get(ReceivedMessage* out, bool draining = false);

  void shut_down(Ending how);      // stores the state and wakes all waiters
  bool drain();                    // drops unread messages; false: exception
  bool count(MessageCounts* out);  // false: exception
  int64_t unfinished_tasks();      // messages put and not yet task_done. -1: exception
  void owe(int change);            // this process took a message (1) or called task_done (-1): Note [Debts]
  bool find_lost_debtor(Peer* lost, bool* found);  // a process that died with an unfinished task; false: exception
  bool check(std::string* violation);  // empty: none; false: exception
  Root* root() const { return root_; }

 private:
  enum class Reach { Ok, Moved, Failed };

  Segment* make_segment(Segment* before);
  static Reach raise_no_segment(uint64_t link);
  Reach reach(uint64_t link, std::atomic<uint64_t>* anchor, uint64_t expected, Segment** out);
  bool to_head();
  bool to_tail();
  bool retire_head();
  Segment* follow(size_t i);
  bool recover_cell(Segment* segment, int i, uint64_t word);
  void acknowledge_handles(Cell* cell);
  void acknowledge_handles(Message* message, size_t capacity);
  Try take(Segment* segment, int i, ReceivedMessage* out);
  uint64_t finished_from_head(uint64_t enough);

  bool export_handle(const BlockRef& block, Handle* out) const { return export_block(block, channel_block_, out); }

  Root* root_ = nullptr;
  BlockRef channel_block_{};                  // the root's block
  uint64_t finished_ = 0;         // a lower bound of finished positions
  std::vector<Segment*> chain_;   // held segments from the head on, as far as this process has read
  Segment* tail_ = nullptr;       // held
  uint32_t debtors_ = 0;          // the root's, checked
  std::atomic<uint64_t>* debt_ = nullptr;  // the table entry of this process, or of its parent before a fork
};

}  // namespace shmtensor
