// The data work of the collectives. Contracts in NumPy: tests/distributed/contracts.py.
//
// Small data (kInline): after one meeting all data is in the group block, and each rank does all the work itself.
// Large data: each rank works on its own shard of all ranks' memory, and writes the result directly into the memory of
// all receivers, so that all_reduce reads and writes every byte once per rank pair and needs no copying pass. So does
// broadcast: one CPU does not saturate the memory's bandwidth, and the root would only wait.
#include <cstring>

#include "kernels/shape/memcpy.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

namespace {

Record call_of(Collective what, const Operand& x, ReduceOp op, int root) {
  Record call{};
  call.what = what, call.op = op, call.root = root;
  call.dtype = static_cast<int8_t>(x.dtype), call.ndim = static_cast<int8_t>(x.ndim), call.nbytes = x.nbytes;
  for (int i = 0; i < x.ndim && i < kMaxDims; i++) call.shape[i] = x.shape[i];
  return call;
}

// Shards begin at multiples of a cache line, so that no two ranks write one line.
size_t shard_begin(size_t count, size_t item, int rank, int world) {
  size_t per_line = item < 64 ? 64 / item : 1;
  size_t lines = (count + per_line - 1) / per_line;
  size_t begin = lines * static_cast<size_t>(rank) / static_cast<size_t>(world) * per_line;
  return begin < count ? begin : count;
}

// Copies bytes [begin, end) of the root's data to all ranks: each chunk is read once and stays in the cache meanwhile.
void broadcast_range(const Group& group, int root, size_t begin, size_t end) {
  constexpr size_t kChunk = 1 << 18;  // tunable
  for (size_t i = begin; i < end; i += kChunk) {
    size_t n = end - i < kChunk ? end - i : kChunk;
    for (int p = 0; p < group.world(); p++)
      if (group.at(p) != group.at(root)) copy_run(group.at(p) + i, group.at(root) + i, n);
  }
}

struct Peers {  // the data pointers of all ranks
  char* at[kMaxWorld];
  explicit Peers(Group& group, size_t offset = 0) {
    for (int p = 0; p < group.world(); p++) at[p] = group.at(p) ? group.at(p) + offset : nullptr;
  }
};

bool reduce_ranks(Group& group, const Operand& x, ReduceOp op, Collective what, int root, double timeout) {
  Record call = call_of(what, x, op, root);
  bool is_direct = x.nbytes > kInline, all = root < 0;
  if (!group.begin(call, x.data, is_direct, true, Group::kReadsAll, timeout)) return false;
  int world = group.world();
  size_t count = x.item ? x.nbytes / x.item : 0;
  Peers peers(group);
  {
    Unlocked unlocked;
    if (!is_direct) {
      char* out[] = {x.data};
      if (all || root == group.rank()) reduce_range(op, x.dtype, peers.at, world, 0, count, out, 1);
    } else {
      size_t begin = shard_begin(count, x.item, group.rank(), world);
      size_t end = shard_begin(count, x.item, group.rank() + 1, world);
      reduce_range(op, x.dtype, peers.at, world, begin, end, all ? peers.at : peers.at + root, all ? world : 1);
    }
  }
  return group.end(timeout);
}

}  // namespace

bool barrier(Group& group, double timeout) {
  Record call{};
  call.what = Collective::Barrier, call.op = ReduceOp::None, call.dtype = -1, call.root = -1;
  return group.begin(call, nullptr, false, false, Group::kReadsNone, timeout) && group.end(timeout);
}

bool broadcast(Group& group, const Operand& x, int root, double timeout) {
  Record call = call_of(Collective::Broadcast, x, ReduceOp::None, root);
  bool is_direct = x.nbytes > kInline, is_root = group.rank() == root;
  int reads = is_direct ? Group::kReadsAll : is_root ? Group::kReadsNone : root;
  if (!group.begin(call, x.data, is_direct, is_direct || is_root, reads, timeout)) return false;
  {
    Unlocked unlocked;
    if (is_direct) {
      size_t begin = shard_begin(x.nbytes, 1, group.rank(), group.world());
      size_t end = shard_begin(x.nbytes, 1, group.rank() + 1, group.world());
      broadcast_range(group, root, begin, end);
    } else if (!is_root && x.nbytes) {
      copy_run(x.data, group.at(root), x.nbytes);
    }
  }
  return group.end(timeout);
}

bool all_reduce(Group& group, const Operand& x, ReduceOp op, double timeout) {
  return reduce_ranks(group, x, op, Collective::AllReduce, -1, timeout);
}

bool reduce(Group& group, const Operand& x, ReduceOp op, int root, double timeout) {
  return reduce_ranks(group, x, op, Collective::Reduce, root, timeout);
}

bool all_gather(Group& group, const Operand& x, char* const* out, double timeout) {
  Record call = call_of(Collective::AllGather, x, ReduceOp::None, -1);
  if (!group.begin(call, x.data, x.nbytes > kInline, true, Group::kReadsAll, timeout)) return false;
  {
    Unlocked unlocked;
    for (int p = 0; p < group.world() && x.nbytes; p++)
      if (out[p] != group.at(p)) copy_run(out[p], group.at(p), x.nbytes);
  }
  return group.end(timeout);
}

bool gather(Group& group, const Operand& x, char* const* out, int root, double timeout) {
  Record call = call_of(Collective::Gather, x, ReduceOp::None, root);
  bool is_root = group.rank() == root;
  if (!group.begin(call, x.data, x.nbytes > kInline, true, is_root ? Group::kReadsAll : Group::kReadsNone, timeout))
    return false;
  {
    Unlocked unlocked;
    for (int p = 0; p < group.world() && is_root && x.nbytes; p++)
      if (out[p] != group.at(p)) copy_run(out[p], group.at(p), x.nbytes);
  }
  return group.end(timeout);
}

bool reduce_scatter(Group& group, const Operand& x, char* out, ReduceOp op, double timeout) {
  Record call = call_of(Collective::ReduceScatter, x, op, -1);
  if (!group.begin(call, x.data, x.nbytes > kInline, true, Group::kReadsAll, timeout)) return false;
  size_t chunk = x.nbytes / static_cast<size_t>(group.world());
  Peers peers(group, chunk * static_cast<size_t>(group.rank()));
  {
    Unlocked unlocked;
    if (chunk) reduce_range(op, x.dtype, peers.at, group.world(), 0, chunk / x.item, &out, 1);
  }
  return group.end(timeout);
}

bool scatter(Group& group, const Operand& out, char* const* in, int root, double timeout) {
  Record call = call_of(Collective::Scatter, out, ReduceOp::None, root);
  bool is_root = group.rank() == root;
  // The outputs are shared and the root writes them, whatever the size: its inputs are many, an output is one.
  if (!group.begin(call, out.data, out.nbytes > 0, !is_root, is_root ? Group::kReadsAll : Group::kReadsNone, timeout))
    return false;
  {
    Unlocked unlocked;
    for (int p = 0; p < group.world() && is_root && out.nbytes; p++) memmove(group.at(p), in[p], out.nbytes);
  }
  return group.end(timeout);
}

bool all_to_all(Group& group, const Operand& x, char* out, double timeout) {
  Record call = call_of(Collective::AllToAll, x, ReduceOp::None, -1);
  if (!group.begin(call, x.data, x.nbytes > kInline, true, Group::kReadsAll, timeout)) return false;
  size_t chunk = x.nbytes / static_cast<size_t>(group.world()), own_offset = chunk * static_cast<size_t>(group.rank());
  {
    Unlocked unlocked;
    for (int p = 0; p < group.world() && chunk; p++)
      copy_run(out + chunk * static_cast<size_t>(p), group.at(p) + own_offset, chunk);
  }
  return group.end(timeout);
}

bool exchange(Group& group, const Operand& x, char* const* out, const size_t* nbytes, const size_t* offsets, bool is_direct,
              double timeout) {
  Record call = call_of(Collective::Exchange, x, ReduceOp::None, -1);
  if (!group.begin(call, x.data, is_direct, x.nbytes > 0, Group::kReadsAll, timeout)) return false;
  for (int p = 0; p < group.world(); p++) {
    if (!nbytes[p] || (group.at(p) && offsets[p] <= group.nbytes_at(p) && nbytes[p] <= group.nbytes_at(p) - offsets[p]))
      continue;
    raise("CollectiveMismatch", "exchange: rank %d has less than was agreed: %zu bytes, wanted %zu at %zu", p,
          group.nbytes_at(p), nbytes[p], offsets[p]);
    group.break_off("it missed data that was agreed about");
    group.give_up();
    return false;
  }
  {
    Unlocked unlocked;
    for (int p = 0; p < group.world(); p++)
      if (nbytes[p] && out[p] != group.at(p) + offsets[p]) copy_run(out[p], group.at(p) + offsets[p], nbytes[p]);
  }
  return group.end(timeout);
}

}  // namespace shmtensor::group
