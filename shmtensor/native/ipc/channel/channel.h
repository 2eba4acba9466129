// A channel: messages from any process to any process through shared memory, none of them lost by a death.
//
//   root ──head──> segment ──next──> segment ──next──> segment <──tail── root
//                  |64 words|        |64 words|        ...
//                  |64 cells|        |64 cells|
//
// Segments are blocks of the heap, each used once from its first cell to its last; a pin that names the channel (`via`)
// keeps a linked segment alive, whoever made it. docs/design/multiprocessing.md has the protocol and what a SIGKILL at
// each arrow leaves; tests/protocol/channel.pml is its model.
//
//   word of a cell     EMPTY ─> WRITING(w) ─> READY ─> CLAIMED(r) ─> DONE(r) ─> FINISHED
//                                  │            ^          │            │
//                        w dead    v            └──────────┘ r dead     └─> FINISHED, r dead: pins released for it
//                                 TOMB
//
//   u64 word           state:4 | row+1:12 | 0:16 | inc:32
//   u64 link           segment number mod 2^30:30 | offset in the domain / 64:34; 0: none
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

// What shutdown() said to everybody: see Note [The end] in channel.cc.
enum Ending : uint32_t { OPEN = 0, NO_MORE = 1, AT_ONCE = 2 };

struct Root {
  uint64_t magic;
  uint64_t maxsize;  // 0: no bound
  std::atomic<uint32_t> shut;  // an Ending; only grows
  alignas(64) std::atomic<uint64_t> head;
  alignas(64) std::atomic<uint64_t> tail;  // a hint, never behind head
  alignas(64) std::atomic<uint32_t> items;  // changes when a message becomes READY
  std::atomic<uint32_t> readers;            // about how many wait for that
  alignas(64) std::atomic<uint32_t> room;   // changes when a message is FINISHED
  std::atomic<uint32_t> writers;
  alignas(64) std::atomic<uint64_t> tasks_done;
  std::atomic<uint32_t> tasks;  // changes when the last task is done
  std::atomic<uint32_t> joiners;
  uint32_t debtors;  // places of the table that follows the root: kDebtors, or 0: nobody waits for tasks
  std::atomic<uint64_t>* debts() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }
};

// What a message is, in its cell or, when it is too large for that, in a block of its own: this, its handles, its bytes.
struct Message {
  std::atomic<uint32_t> exported;  // handles whose pins exist; the rest of the table is not yet written
  uint32_t handles;
  uint64_t nbytes;
  Handle* table() { return reinterpret_cast<Handle*>(this + 1); }
  char* bytes() { return reinterpret_cast<char*>(table() + handles); }
  static size_t size(size_t handles, size_t nbytes) { return sizeof(Message) + handles * sizeof(Handle) + nbytes; }
};

struct Cell {
  std::atomic<uint32_t> spilled;  // 1: data starts with the handle of a block that holds the message
  uint32_t unused;
  Message message;
  char data[kCellBytes - 8 - sizeof(Message)];
  Handle* spill() { return reinterpret_cast<Handle*>(data); }
};
static_assert(sizeof(Cell) == kCellBytes, "a cell");
static_assert(sizeof(Message) == 16 && sizeof(Handle) % 8 == 0 && sizeof(Handle) <= 128, "a message");

struct Segment {
  Handle self;  // with the pin that keeps this segment while it is linked
  Handle previous;
  uint64_t number;  // 1, 2, ...
  uint64_t link;    // of itself
  std::atomic<uint32_t> previous_released;
  std::atomic<uint64_t> tombs_before;  // in the segments before; right once those are retired
  std::atomic<uint64_t> next;
  alignas(64) std::atomic<uint32_t> first;  // written by readers; hint: all cells below are FINISHED or TOMB
  alignas(64) std::atomic<uint32_t> last;   // written by writers; hint: no cell below is EMPTY
  alignas(64) std::atomic<uint64_t> words[kCells];
  alignas(64) Cell cells[kCells];
};

// A message that was taken: its bytes, and its blocks, held. Of a large one the bytes lie in `spill`, else here.
class Arrival {
 public:
  Arrival() = default;
  ~Arrival() { clear(); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  void clear();

  PyObject* data() const;    // bytes, or a memoryview that keeps the spill: new reference
  PyObject* blocks() const;  // a list: new reference

  const char* bytes = nullptr;
  size_t nbytes = 0;
  PyObject* spill = nullptr;
  Few<PyObject*> held;

 private:
  friend class Channel;
  char few_[kCellBytes];
};

// How a channel stands, from its words alone, so that it is right whoever died: no process counts anything.
struct Account {
  uint64_t sent = 0;      // messages that were READY once
  uint64_t received = 0;  // of these: taken for good
  uint64_t waiting = 0;   // READY
  uint64_t reading = 0;   // being taken, by a reader that may still die
  uint64_t writing = 0;   // being put
  uint64_t given_up = 0;  // puts that came to nothing: refused, or the writer died
  uint64_t segments = 0;  // from the head on
};

// One process's view of a channel. All under the GIL; the caller waits (between tries) without it.
class Channel {
 public:
  enum class Try { Ok, NotNow, Over, Failed };  // Over: shut down. Failed: a Python exception is set

  Channel() = default;
  ~Channel() { close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // The root lies in a zeroed block (create) or in one that another process sent (attach); the caller keeps it.
  bool create(void* block, uint64_t maxsize, bool joinable);
  bool attach(void* block, size_t nbytes);
  void close();

  // bytes and blocks, one pin each. A message that does not fit its cell waits in *spill, a block
  // that the first try makes and later tries of the same message use again; discard() it when giving up.
  Try put(const char* bytes, size_t nbytes, const Found* blocks, uint32_t n, void** spill);
  static void discard(void** spill);
  Try get(Arrival* out, bool draining = false);

  void shut_down(Ending how);    // says so and wakes everybody
  bool drain();                // gives unread messages up; false: exception
  bool count(Account* out);    // false: exception
  int64_t unfinished_tasks();  // messages put and not yet task_done. -1: exception
  void owe(int change);        // this process took a message to work on (1), or is done with one (-1): see Note [Debts]
  bool find_lost_debtor(Peer* lost, bool* found);  // who died with work that nobody else has; false: exception
  bool check(std::string* broken);  // what is wrong, or nothing; false: exception
  Root* root() const { return root_; }

 private:
  enum class Reach { Ok, Moved, Failed };

  Segment* make_segment(Segment* before);
  Reach reach(uint64_t link, std::atomic<uint64_t>* anchor, uint64_t expected, Segment** out);
  bool to_head();
  bool to_tail();
  bool retire();
  Segment* follow(size_t i);
  bool tend(Segment* segment, int i, uint64_t word);
  void release_pins(Cell* cell);
  void release_pins(Message* message);
  Try take(Segment* segment, int i, Arrival* out);
  uint64_t finished_from_head(uint64_t enough);

  bool pin(const Found& block, Handle* out) const { return export_block(block, road_, out); }

  Root* root_ = nullptr;
  Found road_{};                  // the root's block
  uint64_t finished_ = 0;         // positions known to be over, at least
  std::vector<Segment*> chain_;   // held, from the head on, as far as this process looked
  Segment* tail_ = nullptr;       // held
  std::atomic<uint64_t>* debt_ = nullptr;  // this process's place, or that of its parent
};

}  // namespace shmtensor
