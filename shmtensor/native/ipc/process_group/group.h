// The shm group: W ranks that meet in one shared block, compare their calls, and read each other's memory.
//
// One block of the domain, zeroed at birth, little endian, every word naturally aligned. W = world size, I = kInline:
//
//        0  Header    128 B   magic u64 | world u32 | broken u32 (1 + the rank, 65536 * reason) | writer u32 | events u32 | text 96 B
//      128  Line[W]   896 B each, written by its rank alone
//             +0    Member   state u32 {EMPTY 0, JOINING 1, JOINED 2, LEFT 3} | row i32 | inc u32 | pid i32
//            +64    Meeting  phase u32 (only grows) | sleepers u32 (written by those that wait for this rank)
//                   | inbox u32 (counts messages to this rank; written by senders) | readers u32 (waiting for any message)
//           +128    Record[2]  384 B each: this rank's call, collective n in Record[n & 1]
//        .  Mailbox[W x W] 256 B each, (from, to): word u32 (odd: it has a message) | sleepers u32 | verdict u32 | Record
//        .  I bytes x 2 x W: small data, rank r's data of collective n at [(2 r + (n & 1)) I]
//        .  Step[W][kRecorded] 256 B each: each rank's latest calls, its collective n in Step[r][n % kRecorded]
//        .  Step[W][kMessages] its latest messages
//
// Meeting. A collective is one or two meetings. At a meeting a rank adds 1 to its own phase (release) and waits until
// every other phase has reached that value (acquire). Phases are equal at the start of every collective, because all
// ranks detect a mismatch at its first meeting (all compare the same W records), which ends it there.
//
// Note [Two records]. Record n is in slot n & 1 and stays readable until all ranks have compared and used it: a rank
// that writes record n + 2 has passed the first meeting of n + 1, so all had arrived there, so all had left n.
//
// Data. Up to I bytes go inline, and one meeting is enough. Larger data is read directly from the peers' memory: the
// record has a handle, which its rank itself acknowledges, and the offset of the data in the block. Every rank holds the
// block during the call, because the peer may die and its memory be reused while a slow rank still reads or writes
// there. The second meeting tells each rank that no other one uses its data any more.
//
// No wait is endless: it ends with the peer's arrival, its death (PeerLostError), its leaving, `broken` (a rank gave up:
// timeout, signal, no handle, or an exception ends it), or the timeout. A rank that gives up breaks the group: the phases
// are invalid then, and every later call raises.
//
// Note [Events]. Leaving and breaking change no word that is waited for. So they increment `events`. A waiter loads it
// before it checks for both, and again after each slice of 25 ms, so that no wait outlasts them by more. The wake only
// shortens the wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/ledger/ledger.h"
#include "python.h"
#include "ipc/futex.h"

namespace shmtensor::group {

constexpr int kMaxWorld = 128;
constexpr size_t kInline = 65536;  // tunable: docs/design/distributed.md has the measurement
constexpr int kMaxDims = 8;

enum class Collective : uint8_t {
  None,
  Barrier,
  Broadcast,
  AllReduce,
  Reduce,
  AllGather,
  ReduceScatter,
  Gather,
  Scatter,
  AllToAll,
  Exchange,
  Message,
  Receive,  // only in the flight recorder
};
// PremulSum: the sum of each rank's data times its factor; the caller has multiplied already.
enum class ReduceOp : uint8_t { Sum, Product, Min, Max, Avg, And, Or, Xor, PremulSum, None };
const char* name_of(Collective);
const char* name_of(ReduceOp);

// A rank's call; all fields before `offset` must be equal on all ranks (the shape is that of the rank's operand).
struct Record {
  uint64_t number;
  Collective what;
  ReduceOp op;
  int8_t dtype;  // NumPy's type number, -1 for bytes
  int8_t ndim;
  int32_t root;  // -1: none
  uint64_t nbytes;
  int64_t shape[kMaxDims];
  uint64_t offset;  // of the data in the block of the handle
  uint32_t is_direct;  // 1: the handle below is set
  uint32_t unused;
  Handle handle;

  bool same_call(const Record& other) const;
  std::string text() const;  // all_reduce(float32 (3, 4), SUM)
};
static_assert(sizeof(Record) <= 384, "Record fits its space");

constexpr size_t kLinesAt = 128;  // where Line[0] begins

struct alignas(64) Header {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> world;
  std::atomic<uint32_t> broken;
  std::atomic<uint32_t> writer;  // 1 + the rank that writes, or wrote, the text
  std::atomic<uint32_t> events;  // grows when the group breaks and when a rank leaves
  char text[96];
};
static_assert(sizeof(Header) == kLinesAt, "as the diagram says");

// Why a group is broken, in one word with 1 + the rank, so that both are always consistent.
enum Reason : uint32_t { kLost = 1, kGaveUp = 2, kStopped = 3, kTimedOut = 4 };

inline uint32_t broken_by(int rank, Reason reason) { return static_cast<uint32_t>(rank + 1) | reason << 16; }
inline int rank_of_broken(uint32_t word) { return static_cast<int>(word & 0xffff) - 1; }
inline Reason reason_of_broken(uint32_t word) { return static_cast<Reason>(word >> 16); }

inline bool has_passed(uint32_t phase, uint32_t target) { return static_cast<int32_t>(phase - target) >= 0; }

enum class Membership : uint32_t { Empty, Joining, Joined, Left };

struct alignas(64) Line {
  std::atomic<uint32_t> state;
  int32_t row;
  uint32_t inc;
  int32_t pid;
  alignas(64) std::atomic<uint32_t> phase;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> inbox, readers;
  struct alignas(64) {
    Record record;
    char padding[384 - sizeof(Record)];
  } records[2];
};
static_assert(sizeof(Line) == 896, "as the diagram says");

struct alignas(64) Mailbox {
  std::atomic<uint32_t> word;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> verdict;  // set by the receiver: 1: the record differs from its own
  alignas(64) Record record;
};
static_assert(sizeof(Mailbox) == 256, "as the diagram says");

// The flight recorder: a rank's calls and their progress. Written by its rank alone; other ranks read it even if that
// rank is dead (flight_recorder.cc).
enum class Progress : uint64_t { None, Called, Met, Done };

struct alignas(64) Step {
  std::atomic<uint64_t> word;  // number * 4 + Progress; 0 while the rest is written
  double began, ended;  // CLOCK_MONOTONIC, which all processes of the machine share
  Record call;
};
static_assert(sizeof(Step) == 256, "as the diagram says");

constexpr int kRecorded = 256;  // tunable
constexpr int kMessages = 64;  // tunable
constexpr int kAnyRank = -2;  // a step's root: waits for any sender

// One rank's end of a group. All methods: GIL held on entry; false means that a Python exception is set.
class Group {
 public:
  static size_t nbytes_of(int world);

  // base: the group block, which the caller keeps alive. Claims the rank's line, without a meeting. others: an address in
  // each further domain whose memory the ranks may pass as data; the caller holds blocks there, as all ranks do.
  bool join(void* base, size_t nbytes, int rank, int world, const std::vector<void*>& others);
  void leave();  // the others get "rank r has left the group"

  int rank() const { return rank_; }
  int world() const { return world_; }
  uint64_t number() const { return number_; }
  uint64_t bytes_inline() const { return bytes_inline_; }
  uint64_t bytes_direct() const { return bytes_direct_; }
  uint32_t broken() const { return header().broken.load(std::memory_order_acquire); }  // as of broken_by(); 0: it is whole
  bool is_broken() const { return broken() != 0; }
  std::string why() const;  // of a rank that gave up or whose wait timed out: its reason
  bool is_own() const;  // false in a forked copy
  bool has_left() const;
  int find_dead() const;  // a rank whose process has ended without leaving; -1: none
  // Whether all ranks can hold the block at an address: it is shared, in a domain of the group.
  bool reaches(const void* p) const;
  bool is_alive(int p) const { return liveness_of(*members_, line(p).row, line(p).inc) == Liveness::Alive; }
  bool raise_lost(const char* where, int p);  // the PeerLostError of a rank; false
  uint64_t missing() const;  // a bit for each of the first 64 ranks that has not arrived at this rank's last meeting

  // A collective: begin() publishes the call, meets, compares; then at(p) is rank p's data; end() meets again if the data
  // is direct, and drops the holds. `shares`: whether other ranks read or write this rank's data. `reads`: the rank whose
  // data this rank needs, or one of these.
  static constexpr int kReadsAll = -1, kReadsNone = -2;
  bool begin(Record& call, void* data, bool is_direct, bool shares, int reads, double timeout);
  char* at(int p) const { return data_[p]; }
  size_t nbytes_at(int p) const { return line(p).records[number_ & 1].record.nbytes; }
  bool end(double timeout);
  void give_up();  // instead of end(), after break_off()

  // Point to point; the sender returns when the receiver has the data.
  bool send(Record& call, void* data, int to, double timeout);
  bool receive(Record& call, void* data, int from, double timeout);
  int find_sender(double timeout);  // waits for a rank with a message for this one; -1: exception

  void break_off(const char* why);  // this rank gives up: ends the waits of all ranks

  // A recorded step of a rank, of collectives or of messages. False: it does not exist, or is being written.
  bool read_step(int p, uint64_t number, Step* out, Progress* progress, bool is_message = false) const;
  uint64_t last_number(int p, bool is_message = false) const;

  // A wait checks this many seconds before its timeout whether a missing rank is stopped: for groups whose other waits
  // end at another time.
  double slack = 0;

 private:
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  Line& line(int p) const { return reinterpret_cast<Line*>(base_ + kLinesAt)[p]; }
  Mailbox& mailbox(int from, int to) const {
    return reinterpret_cast<Mailbox*>(base_ + kLinesAt + sizeof(Line) * world_)[from * world_ + to];
  }
  char* inline_data(int p, uint64_t number) const;
  Step& step(int p, uint64_t number, bool is_message = false) const;
  uint64_t record_message(const Record& call, int with, Collective what);  // returns its number
  void record_arrival(uint64_t message);
  void record(const Record& call);
  void record(Progress progress);
  std::string describe_position(int p) const;  // "rank 1 had completed #41 all_reduce(...) and was in #42 barrier()"
  void append_position(int p) const;  // appends it to the message of the current exception

  bool enter(const char* where);  // refuses other processes, other threads, broken groups
  bool meet(const char* where, double timeout);
  struct Condition {  // a word of another rank: true once it differs from value, or (a phase) has reached it
    std::atomic<uint32_t>*word, *sleepers;
    uint32_t value;
    bool differs;
    bool is_done() const;
  };
  // only = kAll: waits for all ranks that have not reached the phase (a meeting); kAny: for any other rank; else that rank.
  static constexpr int kAll = -1, kAny = -2;
  bool wait(const char* where, const Condition&, int only, const Deadline& deadline, double timeout);
  static void announce(std::atomic<uint32_t>* word, std::atomic<uint32_t>* sleepers, uint32_t value);
  bool check_peers(const char* where, uint32_t phase, int only);
  bool compare(const Record& call);
  bool fail_broken(const char* where);
  bool fail_left(const char* where);
  void mark_broken(uint32_t by);
  void announce_event();
  int find_departed(uint32_t phase, int only) const;
  void break_off(const char* why, Reason reason);
  std::string describe_stopped(int p) const;
  bool hold(int p);
  void drop_all();
  bool export_data(void* data, Handle* handle, void** base);

  // Note [Group domains]: the rows in the lines are of the domain of the group's block, in which a rank that has a domain
  // of its own is a guest. Its operands are in its own domain, where the others are guests in turn. The blocks that the
  // caller holds keep these memberships, and so the pointers valid.
  Domain* members_ = nullptr;
  std::vector<Domain*> others_;
  char* base_ = nullptr;
  int rank_ = -1, world_ = 0;
  uint64_t number_ = 0;
  std::atomic<uint64_t> messages_{0};  // several threads send and receive
  uint32_t phase_ = 0;
  std::atomic<bool> busy_{false};
  bool spins_ = true;
  uint64_t bytes_inline_ = 0, bytes_direct_ = 0;
  // The current collective:
  const char* where_ = "";
  bool is_direct_ = false, has_handle_ = false;
  Handle handle_{};
  std::vector<char*> data_;
  std::vector<void*> holds_;
};

// reduce_ranks.cc: out[k][i] = in[0][i] + in[1][i] + ... in this order, for i in [begin, end); outputs may be inputs.
bool supports_op(int dtype, ReduceOp op);
void reduce_range(ReduceOp op, int dtype, char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out);

// One rank's C-contiguous operand.
struct Operand {
  char* data;
  int dtype, ndim;
  size_t item, nbytes;
  int64_t shape[kMaxDims];
};

// collectives.cc: the data work of each row of the table in tests/distributed/contracts.py. False: exception set.
bool barrier(Group&, double timeout);
bool broadcast(Group&, const Operand& x, int root, double timeout);
bool all_reduce(Group&, const Operand& x, ReduceOp, double timeout);
bool reduce(Group&, const Operand& x, ReduceOp, int root, double timeout);
bool all_gather(Group&, const Operand& x, char* const* out, double timeout);
bool gather(Group&, const Operand& x, char* const* out, int root, double timeout);  // out: on root
bool reduce_scatter(Group&, const Operand& x, char* out, ReduceOp, double timeout);  // x: world chunks
bool scatter(Group&, const Operand& out, char* const* in, int root, double timeout);  // in: on root
bool all_to_all(Group&, const Operand& x, char* out, double timeout);  // world chunks each
// Copies nbytes[p] bytes at offsets[p] of rank p's data, which may differ in size. The ranks have agreed on the sizes.
bool exchange(Group&, const Operand& x, char* const* out, const size_t* nbytes, const size_t* offsets, bool is_direct,
              double timeout);

}  // namespace shmtensor::group
