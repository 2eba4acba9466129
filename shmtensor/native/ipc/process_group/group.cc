// Joining, meeting and comparing (group.h has the picture). leave_abort_death.cc has the end of a group, collectives.cc
// the data work.
#include "ipc/process_group/group.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "ipc/copy_once.h"
#include "kernels/shape/memcpy.h"
#include "memory/inspect/fault_points.h"

namespace shmtensor::group {

namespace {

constexpr uint64_t kMagic = 0x31706f7567686d73;  // "smhgoup1"
constexpr double kSpin = 50e-6;                  // tunable
constexpr double kYieldAfter = 3e-6;  // then a spin yields the CPU: the peer may be waiting for it

int cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string format_seconds(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

}  // namespace

size_t Group::nbytes_of(int world) {
  size_t n = static_cast<size_t>(world);
  return kLinesAt + n * sizeof(Line) + n * n * sizeof(Mailbox) + 2 * n * kInline +
         n * (kRecorded + kMessages) * sizeof(Step);
}

char* Group::inline_data(int p, uint64_t number) const {
  size_t n = static_cast<size_t>(world_);
  return base_ + kLinesAt + n * sizeof(Line) + n * n * sizeof(Mailbox) + (2 * p + (number & 1)) * kInline;
}

bool Group::join(void* base, size_t nbytes, int rank, int world, const std::vector<void*>& others) {
  if (world < 1 || world > kMaxWorld || rank < 0 || rank >= world)
    return raise("ValueError", "init_process_group: rank and world_size do not fit: rank %d of %d, at most %d", rank, world,
                 kMaxWorld);
  if (nbytes < nbytes_of(world))
    return raise("ValueError", "init_process_group: the group block is too small: %zu bytes, %d ranks need %zu", nbytes,
                 world, nbytes_of(world));
  {
    Locked lock;
    members_ = domain_at(base);
    for (void* p : others) {
      Domain* d = domain_at(p);
      if (d && d != members_) others_.push_back(d);
    }
  }
  if (!members_ || members_->rowless)
    return raise("ValueError", "init_process_group: the group block is not shared memory of this process: address %p", base);
  base_ = static_cast<char*>(base), rank_ = rank, world_ = world;
  uint32_t none = 0;
  uint64_t blank = 0;
  header().magic.compare_exchange_strong(blank, kMagic);
  fault("group.marked");
  if (!header().world.compare_exchange_strong(none, world) && none != static_cast<uint32_t>(world))
    return raise("CollectiveMismatch", "init_process_group: world sizes differ: %d here, %u in the group", world, none);
  fault("group.sized");
  Line& own = line(rank);
  uint32_t empty = static_cast<uint32_t>(Membership::Empty);
  if (!own.state.compare_exchange_strong(empty, static_cast<uint32_t>(Membership::Joining)))
    return raise("RuntimeError", "init_process_group: the rank is taken: rank %d of %d, by process %d", rank, world,
                 own.pid);
  fault("group.joining");
  own.row = members_->row, own.inc = members_->inc, own.pid = getpid();
  own.state.store(static_cast<uint32_t>(Membership::Joined), std::memory_order_release);
  fault("group.joined");
  data_.assign(world, nullptr);
  holds_.assign(world, nullptr);
  spins_ = world <= cpus();
  return true;
}

bool Group::is_own() const {
  // A forked child without a row of its own still has its parent's numbers.
  return base_ && !members_->rowless && line(rank_).row == members_->row && line(rank_).inc == members_->inc;
}

bool Group::reaches(const void* p) const {
  auto is_in = [p](const Domain& d) { return size_t(static_cast<const char*>(p) - d.base) < d.shared; };
  if (is_in(*members_)) return true;
  for (const Domain* d : others_)
    if (is_in(*d)) return true;
  return false;
}

bool Group::enter(const char* where) {
  Line& own = line(rank_);
  if (!is_own())
    return raise("RuntimeError", "%s: this process is not in the group: process %d, rank %d is process %d%s", where,
                 getpid(), rank_, own.pid, ", a forked child must join its own group");
  if (is_broken()) return fail_broken(where);
  if (has_left()) return fail_left(where);
  if (busy_.exchange(true))
    return raise("RuntimeError",
                 "%s: another thread is in a collective of this group: rank %d, make a new_group for each thread", where,
                 rank_);
  where_ = where;
  fault("group.entered");
  return true;
}

bool Group::Condition::is_done() const {
  uint32_t now = word->load(std::memory_order_acquire);
  return differs ? now != value : has_passed(now, value);
}

bool Group::wait(const char* where, const Condition& condition, int only, const Deadline& deadline, double timeout) {
  if (condition.is_done()) return true;
  std::atomic<uint32_t>*word = condition.word, *sleepers = condition.sleepers;
  uint32_t phase = condition.value;
  PyThreadState* unlocked = PyEval_SaveThread();
  if (spins_) {
    double begin = monotonic(), now = begin;
    do {
      for (int i = 0; i < 32; i++) {
        if (condition.is_done()) {
          restore_thread(unlocked);
          return true;
        }
        relax();
      }
      now = monotonic();
      if (now - begin > kYieldAfter) sched_yield();
    } while (now - begin < kSpin);
  }
  sleepers->fetch_add(1, std::memory_order_seq_cst);
  fault("group.waiting");
  Peer peers[kMaxWorld];
  int ranks[kMaxWorld];
  bool good = true, asks_early = slack > 0 && only != kAny;
  while (true) {
    EventWord event{&header().events, header().events.load(std::memory_order_seq_cst)};
    uint32_t value = word->load(std::memory_order_seq_cst);
    if (condition.is_done()) break;
    int n = 0;
    for (int p = 0; p < world_; p++) {
      if (p == rank_ || (only >= 0 && p != only)) continue;
      Line& l = line(p);
      if (l.state.load(std::memory_order_acquire) != static_cast<uint32_t>(Membership::Joined)) continue;
      if (only == kAll && has_passed(l.phase.load(std::memory_order_acquire), phase)) continue;
      peers[n] = Peer{l.row, l.inc}, ranks[n++] = p;
    }
    int dead = -1;
    Wait result = Wait::Interrupted;
    if (!is_broken() && !has_left() && find_departed(phase, only) < 0) {
      double remaining = deadline.remaining();
      if (asks_early && remaining >= 0) remaining = remaining > slack ? remaining - slack : 0.0;
      result = wait_while_equal(word, value, remaining, peers, n, &dead, false, event, members_);
      if (result == Wait::Ok) continue;
    }
    if (condition.is_done()) break;
    restore_thread(unlocked);
    if (!check_peers(where, phase, only)) {
      good = false;
    } else if (result == Wait::PeerLost) {
      int who = ranks[dead];
      // It may have arrived before it died.
      if (only != kAll || !has_passed(line(who).phase.load(std::memory_order_acquire), phase)) {
        mark_broken(broken_by(who, kLost));
        raise_peer_lost(*members_, where, line(who).row, line(who).inc);
        append_position(who);
        good = false;
      }
    } else if (result == Wait::Timeout) {
      int who = only;
      for (int p = world_ - 1; p >= 0 && only == kAll; p--)
        if (p != rank_ && !has_passed(line(p).phase.load(std::memory_order_acquire), phase)) who = p;
      if (only != kAny && is_stopped(*members_, line(who).row, line(who).inc)) {
        mark_broken(broken_by(who, kStopped));
        raise_peer_lost(*members_, where, line(who).row, line(who).inc, describe_stopped(who).c_str());
        append_position(who);
      } else if (asks_early && !deadline.is_over()) {
        asks_early = false;
        unlocked = PyEval_SaveThread();
        continue;
      } else if (only == kAny) {
        raise("CollectiveTimeout", "%s: timed out after %s: no rank has sent anything", where,
              format_seconds(timeout).c_str());
      } else {
        auto& records = line(who).records;
        std::string last = records[records[1].record.number > records[0].record.number].record.text();
        raise("CollectiveTimeout", "%s: timed out after %s: rank %d (pid %d) has not come, its last call was %s", where,
              format_seconds(timeout).c_str(), who, line(who).pid, last.c_str());
        append_position(who);
      }
      break_off((std::string(where) + " timed out after " + format_seconds(timeout)).c_str(), kTimedOut);  // if it is whole
      good = false;
    } else if (PyErr_CheckSignals() < 0) {
      break_off((std::string(where) + " was interrupted").c_str());
      good = false;
    }
    if (!good) {
      sleepers->fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    unlocked = PyEval_SaveThread();
  }
  sleepers->fetch_sub(1, std::memory_order_relaxed);
  restore_thread(unlocked);
  return true;
}

void Group::announce(std::atomic<uint32_t>* word, std::atomic<uint32_t>* sleepers, uint32_t value) {
  word->store(value, std::memory_order_seq_cst);  // against `sleepers` of a waiter that looks at the word: store, then load
  if (sleepers->load(std::memory_order_seq_cst)) wake(word);
}

bool Group::meet(const char* where, double timeout) {
  uint32_t phase = ++phase_;
  fault("group.published");
  announce(&line(rank_).phase, &line(rank_).sleepers, phase);
  fault("group.arrived");
  Deadline deadline(timeout);
  for (int p = 0; p < world_; p++) {
    if (p == rank_) continue;
    Condition peer{&line(p).phase, &line(p).sleepers, phase, false};
    if (!wait(where, peer, kAll, deadline, timeout)) return false;
  }
  fault("group.met");
  return true;
}

uint64_t Group::missing() const {
  uint64_t bits = 0;
  for (int p = 0; p < world_ && p < 64; p++)
    if (p != rank_ && !has_passed(line(p).phase.load(std::memory_order_acquire), phase_)) bits |= uint64_t{1} << p;
  return bits;
}

bool Group::compare(const Record& call) {
  bool same = true;
  for (int p = 0; p < world_ && same; p++) same = line(p).records[number_ & 1].record.same_call(call);
  if (same) return true;
  std::string text;
  std::vector<bool> is_listed(world_, false);
  for (int p = 0; p < world_; p++) {
    if (is_listed[p]) continue;
    const Record& record = line(p).records[number_ & 1].record;
    std::string ranks = std::to_string(p);
    int n = 1;
    for (int q = p + 1; q < world_; q++) {
      if (!line(q).records[number_ & 1].record.same_call(record)) continue;
      is_listed[q] = true, n++;
      ranks += ", " + std::to_string(q);
    }
    text += std::string(text.empty() ? "" : "; ") + (n > 1 ? "ranks " : "rank ") + ranks + ": " + record.text();
  }
  return raise("CollectiveMismatch", "%s: ranks called different collectives: call %llu of the group: %s", where_,
               static_cast<unsigned long long>(number_), text.c_str());
}

bool Group::hold(int p) {
  const Record record = copy_once(line(p).records[number_ & 1].record);
  if (!record.is_direct) return true;
  size_t nbytes = 0;
  void* base = nullptr;
  if (!hold_block(record.handle, &base, &nbytes)) return false;
  holds_[p] = base;
  if (record.offset > nbytes || record.nbytes > nbytes - record.offset)
    return raise("RuntimeError", "%s: rank %d's data is not in its block: %llu bytes at %llu of %zu", where_, p,
                 static_cast<unsigned long long>(record.nbytes), static_cast<unsigned long long>(record.offset), nbytes);
  data_[p] = static_cast<char*>(base) + record.offset;
  return true;
}

// Exports the block around `data`, and returns its start in *base.
bool Group::export_data(void* data, Handle* handle, void** base) {
  const BlockRef block = block_around(data);
  *base = block.base;
  return export_block(block, block_around(base_), handle);
}

void Group::drop_all() {
  for (int p = 0; p < world_; p++) {
    data_[p] = nullptr;
    if (!holds_[p]) continue;
    drop_block(holds_[p]);
    holds_[p] = nullptr;
  }
  if (has_handle_) acknowledge(handle_), has_handle_ = false;
}

bool Group::begin(Record& call, void* data, bool is_direct, bool shares, int reads, double timeout) {
  const char* where = name_of(call.what);
  if (!enter(where)) return false;
  is_direct_ = is_direct;
  call.is_direct = is_direct && shares;
  if (call.is_direct) {
    void* base = nullptr;
    if (!export_data(data, &call.handle, &base)) {
      busy_.store(false);
      return false;
    }
    handle_ = call.handle, has_handle_ = true;
    call.offset = static_cast<char*>(data) - static_cast<char*>(base);
  }
  call.number = ++number_;
  Line& own = line(rank_);
  if (!is_direct && shares && call.nbytes) {
    copy_run(inline_data(rank_, number_), data, call.nbytes);
    bytes_inline_ += call.nbytes;
  }
  own.records[number_ & 1].record = call;
  record(call);
  bool good = meet(where, timeout) && compare(call);
  if (good) record(Progress::Met);
  for (int p = 0; p < world_ && good; p++) {
    if (!is_direct) data_[p] = inline_data(p, number_);
    else if (p == rank_) data_[p] = static_cast<char*>(data);
    else if ((reads == kReadsAll || reads == p) && !hold(p)) {
      // The others continue to the second meeting, which this rank cannot reach.
      break_off("it could not hold the data of a peer");
      good = false;
    }
  }
  fault("group.held");
  if (good) return true;
  drop_all();
  busy_.store(false);
  return false;
}

bool Group::end(double timeout) {
  fault("group.worked");
  bool good = !is_direct_ || meet(where_, timeout);
  if (good) record(Progress::Done);
  give_up();
  return good;
}

void Group::give_up() {
  drop_all();
  busy_.store(false);
}

}  // namespace shmtensor::group
