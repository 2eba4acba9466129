// NCCL: communicators of ranks in one or several processes, whose calls are work on the device's streams.
//
// A unique id names a memfd of the process that made it, /proc/<pid>/fd/<n>, which each rank opens. It is sparse:
//
//   Board   counters and calls of all ranks
//   area    one per rank, for its part of a collective; one per ordered pair of ranks, for its messages
//
// A collective is two pieces of work, in the order of the stream, and neither blocks the queue:
//
//   arrive  when all ranks have left the one before: copies this rank's part into its area, arrived += 1
//   finish  when all ranks have arrived: reads the areas, writes the result, left += 1
//
// The messages of a group (a call outside a group is one) are three, as a send is done when it is received:
//
//   start   copies what is sent into the pairs' areas, sent += 1
//   receive when what is received has been sent: copies it, received += 1
//   end     when what was sent has been received
//
// A rank that dies leaves the others waiting, as on a GPU, until they abort: then their work does nothing. Calls of the
// ranks that differ, which on a GPU hang or mix bytes, are an error here.
#include "nccl.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "device.h"
#include "reduce.h"

using namespace standin;

namespace {

constexpr int kMaxRanks = 16, kRing = 64;  // messages of a group from one rank to another
constexpr uint64_t kMagic = 0x31434e4444545353;
constexpr size_t kBoard = 1 << 20;

struct Call {
  int kind, datatype, op, root;
  uint64_t count;
  bool operator==(const Call& o) const {
    return kind == o.kind && datatype == o.datatype && op == o.op && root == o.root && count == o.count;
  }
};

struct Pair {
  std::atomic<uint32_t> sent, received;
  struct Message {
    uint64_t offset, bytes;
  } messages[kRing];
};

struct Board {
  std::atomic<uint32_t> world, joined, ranks, arrived, left;  // ranks: a bit for each that has joined
  int devices[kMaxRanks];
  uint64_t area;
  Call calls[kMaxRanks];
  Pair pairs[kMaxRanks][kMaxRanks];  // [from][to]
};
static_assert(sizeof(Board) <= kBoard);

struct Id {  // the first bytes of an ncclUniqueId
  uint64_t magic, number;
  int32_t pid, fd;
};

// Part of a communicator's memory.
class Window {
 public:
  Window(int fd, uint64_t offset, size_t n) : skip_(offset % 4096), size_(n + skip_) {
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset - skip_));
    if (base_ == MAP_FAILED) abort();
  }
  ~Window() { munmap(base_, size_); }
  Window(const Window&) = delete;
  char* data() const { return static_cast<char*>(base_) + skip_; }

 private:
  size_t skip_, size_;
  void* base_;
};

}  // namespace

struct ncclComm {
  int fd = -1, device = 0, rank = 0, world = 0;
  Board* board = nullptr;
  std::atomic<bool> aborted{false};
  std::atomic<int> error{ncclSuccess};
  uint32_t collectives = 0, sent[kMaxRanks] = {}, received[kMaxRanks] = {};
  CompletionRef tail;

  ~ncclComm() {
    if (board) munmap(static_cast<void*>(board), kBoard);
    if (fd >= 0) close(fd);
  }
  uint64_t area(int rank) const { return kBoard + static_cast<uint64_t>(rank) * board->area; }
  uint64_t area(int from, int to) const { return area(kMaxRanks * (1 + from) + to); }
};

namespace {

using Comm = std::shared_ptr<ncclComm>;

struct Message {
  bool sends;
  char* at;
  size_t bytes;
  int peer;
};

struct Queued {  // a call within a group
  Comm comm;
  cudaStream_t stream;
  std::function<ncclResult_t()> collective;  // else a message
  Message message;
};

std::map<ncclComm*, Comm> comms;  // under the machine's lock
std::map<uint64_t, int> ids;      // the descriptor of each unique id that is not in use yet
thread_local int depth = 0;
thread_local std::vector<Queued> group;
thread_local std::vector<std::pair<Comm, ncclComm_t*>> joining;

ncclResult_t refuse(ncclResult_t result, const char* what) {
  misuse(cudaErrorInvalidValue, "NCCL: %s", what);
  return result;
}

// A completion when the counter has reached the target, or the communicator is aborted.
CompletionRef until(const Comm& comm, std::atomic<uint32_t>& counter, uint32_t target) {
  auto completion = std::make_shared<Completion>();
  completion->shared = &counter;
  completion->target = target;
  completion->cancelled = std::shared_ptr<std::atomic<bool>>(comm, &comm->aborted);
  return completion;
}

void submit_after(Machine& m, Stream* stream, const Comm& comm, std::vector<CompletionRef> after,
                  std::function<void()> run) {
  for (auto& completion : after) stream->after.push_back(completion);
  if (comm->tail) stream->after.push_back(comm->tail);
  comm->tail = submit(m, stream, [comm, run = std::move(run)] {
    if (!comm->aborted) run();
  });
}

Comm find(Machine& m, ncclComm_t comm) {
  std::lock_guard<std::mutex> hold(m.lock);
  auto i = comms.find(comm);
  return i == comms.end() ? nullptr : i->second;
}

// The stream of a call, or null: it must be of the communicator's device, which must be the current one.
Stream* stream_of(Machine& m, const Comm& comm, cudaStream_t s) {
  Stream* stream = find_stream(m, s);
  return stream && stream->device == comm->device && current_device() == comm->device ? stream : nullptr;
}

int memfd_of(const Id& id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", id.pid, id.fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

Board* map_board(int fd) {
  void* p = mmap(nullptr, kBoard, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? nullptr : static_cast<Board*>(p);
}

// This rank's end of a communicator that others join as well; `joining` waits for them.
ncclResult_t join(ncclComm_t* out, int world, const Id& id, int rank, int device) {
  if (world < 1 || world > kMaxRanks || rank < 0 || rank >= world) return ncclInvalidArgument;
  auto comm = std::make_shared<ncclComm>();
  comm->fd = memfd_of(id);
  if (comm->fd < 0 || !(comm->board = map_board(comm->fd))) return ncclSystemError;
  Board* board = comm->board;
  comm->device = device, comm->rank = rank, comm->world = world;
  uint32_t none = 0;
  if (!board->world.compare_exchange_strong(none, static_cast<uint32_t>(world)) && none != static_cast<uint32_t>(world))
    return refuse(ncclInvalidArgument, "the ranks name different numbers of ranks");
  if (board->ranks.fetch_or(1u << rank) & (1u << rank)) return refuse(ncclInvalidArgument, "two ranks of one number");
  board->devices[rank] = machine().physical[device];
  board->joined++;
  joining.push_back({comm, out});
  *out = comm.get();
  return ncclSuccess;
}

ncclResult_t wait_for_ranks() {
  ncclResult_t result = ncclSuccess;
  for (auto& [comm, out] : std::exchange(joining, {})) {
    while (comm->board->joined < static_cast<uint32_t>(comm->world)) usleep(200);
    bool alone = true;
    for (int rank = 0; rank < comm->world; rank++)
      alone = alone && (rank == comm->rank || comm->board->devices[rank] != comm->board->devices[comm->rank]);
    if (alone) {
      Machine& m = machine();
      std::lock_guard<std::mutex> hold(m.lock);
      comms[comm.get()] = comm;
    } else {
      *out = nullptr;
      result = refuse(ncclInvalidUsage, "two ranks use one device; STANDIN_DEVICES says how many there are");
    }
  }
  return result;
}

void forget(uint64_t number) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  auto i = ids.find(number);
  if (i == ids.end()) return;
  close(i->second);
  ids.erase(i);
}

// ---------------------------------------------------------------- collectives

enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter };
const char* const kNames[] = {"allReduce", "reduce", "broadcast", "allGather", "reduceScatter"};

struct Buffers {
  char *from, *to;
  size_t in, out;  // bytes of each rank's part, and of the result; `to` is null where there is none
};

// What all ranks' parts give this rank, at `to`.
void combine(const ncclComm& comm, const Call& call, const Buffers& b, char* to) {
  std::vector<std::unique_ptr<Window>> parts;
  for (int rank = 0; rank < comm.world; rank++) parts.push_back(std::make_unique<Window>(comm.fd, comm.area(rank), b.in));
  if (call.kind == kBroadcast) {
    memcpy(to, parts[static_cast<size_t>(call.root)]->data(), b.out);
  } else if (call.kind == kAllGather) {
    for (size_t rank = 0; rank < parts.size(); rank++) memcpy(to + rank * b.in, parts[rank]->data(), b.in);
  } else {
    size_t skip = call.kind == kReduceScatter ? static_cast<size_t>(comm.rank) * b.out : 0;
    std::vector<const char*> operands;
    for (auto& part : parts) operands.push_back(part->data() + skip);
    reduce(to, operands, b.out, call.datatype, call.op);
  }
}

ncclResult_t issue(const Comm& comm, const Call& call, const Buffers& b, cudaStream_t s) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  Stream* stream = stream_of(m, comm, s);
  if (!stream) return refuse(ncclInvalidArgument, "the stream or the current device is not the communicator's");
  if ((b.in && b.from && !alias_of(m, b.from, b.in)) || (b.out && b.to && !alias_of(m, b.to, b.out)))
    return refuse(ncclInvalidArgument, "a buffer is not within one device allocation");
  Board* board = comm->board;
  uint32_t before = comm->collectives++ * static_cast<uint32_t>(comm->world);
  ncclComm* c = comm.get();
  submit_after(m, stream, comm, {until(comm, board->left, before)}, [&m, c, board, call, b] {
    board->calls[c->rank] = call;
    if (b.from && b.in) {
      Window area(c->fd, c->area(c->rank), b.in);
      if (char* from = alias_of(m, b.from, b.in)) memcpy(area.data(), from, b.in);
      else misuse(cudaErrorIllegalAddress, "NCCL: a queued collective finds its memory freed");
    }
    board->arrived++;
  });
  uint32_t all = before + static_cast<uint32_t>(comm->world);
  submit_after(m, stream, comm, {until(comm, board->arrived, all)}, [&m, c, board, call, b] {
    bool same = true;
    for (int rank = 0; rank < c->world; rank++) same = same && board->calls[rank] == call;
    if (!same) {
      misuse(cudaErrorInvalidValue, "NCCL: the ranks' calls differ: %s of %zu elements on rank %d", kNames[call.kind],
             static_cast<size_t>(call.count), c->rank);
      c->error = ncclInvalidUsage;
    } else if (b.to && b.out) {
      if (char* to = alias_of(m, b.to, b.out)) combine(*c, call, b, to);
      else misuse(cudaErrorIllegalAddress, "NCCL: a queued collective finds its memory freed");
    }
    board->left++;
  });
  return ncclSuccess;
}

ncclResult_t collective(ncclComm_t handle, Kind kind, const void* from, void* to, size_t count, int datatype, int op,
                        int root, cudaStream_t s) {
  if (context(kNames[kind])) return ncclUnhandledCudaError;
  Comm comm = find(machine(), handle);
  size_t item = item_size(datatype);
  if (!comm) return refuse(ncclInvalidArgument, "not a communicator");
  if (!item || op < 0 || op > ncclAvg || root < 0 || root >= comm->world) return ncclInvalidArgument;
  size_t n = count * item, all = n * static_cast<size_t>(comm->world);
  bool rooted = kind == kReduce || kind == kBroadcast, is_root = comm->rank == root;
  Buffers b{static_cast<char*>(const_cast<void*>(from)), static_cast<char*>(to), kind == kReduceScatter ? all : n,
            kind == kAllGather ? all : n};
  if (kind == kBroadcast && !is_root) b.from = nullptr;
  if (kind == kReduce && !is_root) b.to = nullptr;
  Call call{kind, datatype, op, rooted ? root : 0, count};
  if (!depth) return issue(comm, call, b, s);
  group.push_back({comm, s, [comm, call, b, s] { return issue(comm, call, b, s); }, {}});
  return ncclSuccess;
}

// ---------------------------------------------------------------- messages

ncclResult_t exchange(const Comm& comm, cudaStream_t s, const std::vector<Message>& messages) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  Stream* stream = stream_of(m, comm, s);
  if (!stream) return refuse(ncclInvalidArgument, "the stream or the current device is not the communicator's");
  ncclComm* c = comm.get();
  Board* board = comm->board;
  struct Part {
    Message message;
    Pair* pair;
    uint32_t number;
    uint64_t area, offset;
  };
  std::vector<Part> sends, receives;
  std::vector<CompletionRef> sent, received;
  uint64_t used[kMaxRanks] = {};
  for (const Message& x : messages) {
    if (x.bytes && !alias_of(m, x.at, x.bytes))
      return refuse(ncclInvalidArgument, "a message's buffer is not within one device allocation");
    int from = x.sends ? c->rank : x.peer, to = x.sends ? x.peer : c->rank;
    Pair* pair = &board->pairs[from][to];
    uint32_t number = x.sends ? ++c->sent[x.peer] : ++c->received[x.peer];
    Part part{x, pair, number, c->area(from, to), used[x.peer]};
    if (x.sends) used[x.peer] += x.bytes;
    (x.sends ? sends : receives).push_back(part);
    (x.sends ? received : sent).push_back(until(comm, x.sends ? pair->received : pair->sent, number));
  }
  submit_after(m, stream, comm, {}, [&m, c, sends] {
    for (const Part& part : sends) {
      const Message& x = part.message;
      if (x.bytes) {
        Window area(c->fd, part.area + part.offset, x.bytes);
        if (char* at = alias_of(m, x.at, x.bytes)) memcpy(area.data(), at, x.bytes);
        else misuse(cudaErrorIllegalAddress, "NCCL: a queued message finds its memory freed");
      }
      part.pair->messages[part.number % kRing] = {part.offset, x.bytes};
      part.pair->sent++;
    }
  });
  submit_after(m, stream, comm, sent, [&m, c, receives] {
    for (const Part& part : receives) {
      const Message& x = part.message;
      auto [offset, bytes] = part.pair->messages[part.number % kRing];
      char* at = x.bytes ? alias_of(m, x.at, x.bytes) : nullptr;
      if (bytes != x.bytes) {
        misuse(cudaErrorInvalidValue, "NCCL: %zu bytes sent by rank %d, %zu expected by rank %d", static_cast<size_t>(bytes),
               x.peer, x.bytes, c->rank);
        c->error = ncclInvalidUsage;
      } else if (at) {
        memcpy(at, Window(c->fd, part.area + offset, x.bytes).data(), x.bytes);
      } else if (x.bytes) {
        misuse(cudaErrorIllegalAddress, "NCCL: a queued message finds its memory freed");
      }
      part.pair->received++;
    }
  });
  submit_after(m, stream, comm, received, [] {});
  return ncclSuccess;
}

ncclResult_t message(ncclComm_t handle, bool sends, const void* at, size_t count, int datatype, int peer, cudaStream_t s) {
  if (context(sends ? "ncclSend" : "ncclRecv")) return ncclUnhandledCudaError;
  Comm comm = find(machine(), handle);
  size_t item = item_size(datatype);
  if (!comm) return refuse(ncclInvalidArgument, "not a communicator");
  if (!item || peer < 0 || peer >= comm->world) return ncclInvalidArgument;
  Message x{sends, static_cast<char*>(const_cast<void*>(at)), count * item, peer};
  if (!depth) return exchange(comm, s, {x});
  group.push_back({comm, s, nullptr, x});
  return ncclSuccess;
}

// Issues a group's calls: the collectives in their order, then the messages of each communicator and stream at once.
ncclResult_t issue_group(std::vector<Queued> calls) {
  int device = current_device();
  ncclResult_t result = ncclSuccess;
  auto keep = [&result](ncclResult_t one) { result = result ? result : one; };
  std::map<std::pair<Comm, cudaStream_t>, std::vector<Message>> messages;
  for (auto& call : calls) {
    current_device() = call.comm->device;  // a group may call for several devices
    if (call.collective) keep(call.collective());
    else messages[{call.comm, call.stream}].push_back(call.message);
  }
  for (auto& [where, list] : messages) {
    current_device() = where.first->device;
    keep(exchange(where.first, where.second, list));
  }
  current_device() = device;
  return result;
}

// Ends a communicator; its work that is still queued keeps what it needs.
void end(ncclComm_t handle, bool aborts) {
  if (context(aborts ? "ncclCommAbort" : "ncclCommDestroy")) return;
  Machine& m = machine();
  Comm comm = find(m, handle);
  if (!comm) {
    refuse(ncclInvalidArgument, "not a communicator");
    return;
  }
  std::lock_guard<std::mutex> hold(m.lock);
  if (!aborts && !m.stopped) wait(m, CompletionRef(comm->tail));
  comm->aborted = true;
  m.changed.notify_all();
  comm->tail = nullptr;
  comms.erase(handle);
}

}  // namespace

// ---------------------------------------------------------------- the library

STANDIN_API ncclResult_t ncclGetVersion(int* version) {
  *version = 22707;
  return ncclSuccess;
}
STANDIN_API const char* ncclGetErrorString(ncclResult_t result) {
  const char* const texts[] = {"no error",
                               "unhandled cuda error",
                               "unhandled system error",
                               "internal error",
                               "invalid argument",
                               "invalid usage",
                               "remote process exited or there was a network error"};
  return result >= 0 && result <= ncclRemoteError ? texts[result] : "unknown result code";
}

STANDIN_API ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  Machine& m = machine();
  int fd = memfd_create("standin-nccl", MFD_CLOEXEC);
  if (fd < 0) return ncclSystemError;
  uint64_t area = (m.total + 4095) & ~uint64_t{4095};
  Board* board = nullptr;
  if (ftruncate(fd, static_cast<off_t>(kBoard + area * kMaxRanks * (kMaxRanks + 1))) || !(board = map_board(fd))) {
    close(fd);
    return ncclSystemError;
  }
  board->area = area;
  munmap(static_cast<void*>(board), kBoard);
  std::lock_guard<std::mutex> hold(m.lock);
  Id id{kMagic, (static_cast<uint64_t>(getpid()) << 32) | m.next_id++, getpid(), fd};
  ids[id.number] = fd;
  memset(uniqueId, 0, sizeof *uniqueId);
  memcpy(uniqueId, &id, sizeof id);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, void*) {
  if (context(__func__)) return ncclUnhandledCudaError;
  Id id;
  memcpy(&id, &commId, sizeof id);
  if (id.magic != kMagic) return ncclInvalidArgument;
  ncclResult_t result = join(comm, nranks, id, rank, current_device());
  if (!result && !depth) {
    result = wait_for_ranks();
    forget(id.number);
  }
  return result;
}
STANDIN_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ndev, ncclUniqueId commId, int rank) {
  return ncclCommInitRankConfig(comm, ndev, commId, rank, nullptr);
}
STANDIN_API ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  if (context(__func__)) return ncclUnhandledCudaError;
  ncclUniqueId unique;
  if (ncclResult_t result = ncclGetUniqueId(&unique)) return result;
  Id id;
  memcpy(&id, &unique, sizeof id);
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < ndev && !result; rank++) {
    int device = devlist ? devlist[rank] : rank;
    result = device < 0 || device >= machine().devices ? ncclInvalidArgument : join(&comm[rank], ndev, id, rank, device);
  }
  if (result) joining.clear();
  else result = wait_for_ranks();
  forget(id.number);
  return result;
}
STANDIN_API ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, void*) {
  return refuse(ncclInvalidUsage, "the stand-in has no ncclCommSplit");
}
STANDIN_API void ncclCommDestroy(ncclComm_t comm) { end(comm, false); }
STANDIN_API void ncclCommAbort(ncclComm_t comm) { end(comm, true); }
STANDIN_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  Comm c = find(machine(), comm);
  if (!c) return refuse(ncclInvalidArgument, "not a communicator");
  *asyncError = static_cast<ncclResult_t>(c->error.load());
  return ncclSuccess;
}
STANDIN_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  Comm c = find(machine(), comm);
  if (!c) return refuse(ncclInvalidArgument, "not a communicator");
  *device = c->device;
  return ncclSuccess;
}
STANDIN_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  Comm c = find(machine(), comm);
  if (!c) return refuse(ncclInvalidArgument, "not a communicator");
  *rank = c->rank;
  return ncclSuccess;
}
STANDIN_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  Comm c = find(machine(), comm);
  if (!c) return refuse(ncclInvalidArgument, "not a communicator");
  *count = c->world;
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclGroupStart() {
  depth++;
  return ncclSuccess;
}
STANDIN_API ncclResult_t ncclGroupEnd() {
  if (depth <= 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth) return ncclSuccess;
  ncclResult_t result = joining.empty() ? ncclSuccess : wait_for_ranks();
  ncclResult_t issued = issue_group(std::exchange(group, {}));
  return result ? result : issued;
}

STANDIN_API ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, stream);
}
STANDIN_API ncclResult_t ncclReduce(const void* sendbuff, void* recvbuf, size_t count, ncclDataType_t datatype,
                                    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, kReduce, sendbuff, recvbuf, count, datatype, op, root, stream);
}
STANDIN_API ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                       ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, kBroadcast, sendbuff, recvbuff, count, datatype, 0, root, stream);
}
STANDIN_API ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                   cudaStream_t stream) {
  return collective(comm, kBroadcast, buff, buff, count, datatype, 0, root, stream);
}
STANDIN_API ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, stream);
}
STANDIN_API ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                       ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, kAllGather, sendbuff, recvbuff, count, datatype, 0, 0, stream);
}
STANDIN_API ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  return message(comm, true, sendbuff, count, datatype, peer, stream);
}
STANDIN_API ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  return message(comm, false, recvbuff, count, datatype, peer, stream);
}
