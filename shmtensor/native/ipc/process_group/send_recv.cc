// Point to point: a mailbox for each ordered pair of ranks; the sender waits until the receiver has the data.
#include <cstring>

#include "ipc/copy_once.h"
#include "kernels/shape/memcpy.h"
#include "memory/inspect/fault_points.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

bool Group::send(Record& call, void* data, int to, double timeout) {
  Mailbox& box = mailbox(rank_, to);
  Deadline deadline(timeout);
  if (is_broken()) return fail_broken("send");
  uint64_t message = record_message(call, to, Collective::Message);
  uint32_t value = box.word.load(std::memory_order_acquire);
  if (value & 1 && !wait("send", {&box.word, &box.sleepers, value, true}, to, deadline, timeout)) return false;
  call.is_direct = call.nbytes > 0;
  if (call.is_direct) {
    void* base = nullptr;
    if (!export_data(data, &call.handle, &base)) return false;
    call.offset = static_cast<char*>(data) - static_cast<char*>(base);
  }
  box.record = call;
  box.verdict.store(0, std::memory_order_relaxed);
  uint32_t full = box.word.load(std::memory_order_relaxed) + 1;
  fault("send.written");
  announce(&box.word, &box.sleepers, full);
  fault("send.announced");
  line(to).inbox.fetch_add(1, std::memory_order_seq_cst);  // against `readers`: add, then load
  if (line(to).readers.load(std::memory_order_seq_cst)) wake(&line(to).inbox);
  fault("send.published");
  bool good = wait("send", {&box.word, &box.sleepers, full, true}, to, deadline, timeout);
  if (call.is_direct) acknowledge(call.handle);
  if (good) record_arrival(message);
  if (good && box.verdict.load(std::memory_order_relaxed))
    return raise("CollectiveMismatch", "send: rank %d expected something else than rank %d sent: %s", to, rank_,
                 call.text().c_str());
  return good;
}

int Group::find_sender(double timeout) {
  Deadline deadline(timeout);
  Record call{};
  call.op = ReduceOp::None, call.dtype = -1;
  uint64_t message = record_message(call, kAnyRank, Collective::Receive);
  while (true) {
    if (is_broken()) return fail_broken("recv"), -1;
    uint32_t value = line(rank_).inbox.load(std::memory_order_seq_cst);
    for (int p = 0; p < world_; p++)
      if (p != rank_ && mailbox(p, rank_).word.load(std::memory_order_acquire) & 1) return record_arrival(message), p;
    if (!wait("recv", {&line(rank_).inbox, &line(rank_).readers, value, true}, kAny, deadline, timeout)) return -1;
  }
}

bool Group::receive(Record& call, void* data, int from, double timeout) {
  Mailbox& box = mailbox(from, rank_);
  Deadline deadline(timeout);
  if (is_broken()) return fail_broken("recv");
  uint64_t message = record_message(call, from, Collective::Receive);
  uint32_t value = box.word.load(std::memory_order_acquire);
  if (!(value & 1) && !wait("recv", {&box.word, &box.sleepers, value, true}, from, deadline, timeout)) return false;
  fault("recv.arrived");
  const Record record = copy_once(box.record);
  bool fits = record.same_call(call), good = fits;
  void* base = nullptr;
  size_t nbytes = 0;
  std::string sent_text = fits ? "" : record.text();
  if (fits && call.nbytes) {
    good = hold_block(record.handle, &base, &nbytes);
    if (good && (record.offset > nbytes || call.nbytes > nbytes - record.offset)) {
      drop_block(base);
      good = false;
      raise("RuntimeError", "recv: rank %d's data is not in its block: %llu bytes at %llu of %zu", from,
            static_cast<unsigned long long>(call.nbytes), static_cast<unsigned long long>(record.offset), nbytes);
    }
    if (good) {
      {
        Unlocked unlocked;
        copy_run(data, static_cast<char*>(base) + record.offset, call.nbytes);
      }
      drop_block(base);
      bytes_direct_ += call.nbytes;
    }
  }
  if (!good) box.verdict.store(1, std::memory_order_relaxed);
  fault("recv.copied");
  announce(&box.word, &box.sleepers, box.word.load(std::memory_order_relaxed) + 1);
  fault("recv.done");
  record_arrival(message);
  if (!fits)
    raise("CollectiveMismatch", "recv: rank %d sent something else than rank %d expects: %s, expected %s", from, rank_,
          sent_text.c_str(), call.text().c_str());
  return good;
}

}  // namespace shmtensor::group
