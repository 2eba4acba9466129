// Counts and invariants of a channel, and its shutdown.
#include <climits>

#include "memory/inspect/fault_points.h"
#include "ipc/codec/block.h"
#include "ipc/channel/cell.h"
#include "ipc/channel/channel.h"
#include "ipc/liveness.h"

namespace shmtensor {

bool Channel::count(MessageCounts* out) {
again:
  *out = MessageCounts();
  if (!to_head()) return false;
  out->given_up = chain_[0]->tombs_before.load(std::memory_order_acquire);
  out->received = (chain_[0]->number - 1) * kCells - out->given_up;
  bool changed = false;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    out->segments++;
    for (int i = 0; i < kCells; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      switch (state_of(word)) {
        case EMPTY: goto end;
        case WRITING: out->writing++; break;
        case READY: out->waiting++; break;
        case CLAIMED: out->reading++; break;
        case TOMB: out->given_up++; break;
        default: out->received++;  // DONE, FINISHED
      }
      changed |= recover_cell(segment, i, word);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (!follow(k)) {
      if (PyErr_Occurred()) return false;
      goto again;
    }
  }
end:
  if (changed) goto again;
  out->sent = out->received + out->reading + out->waiting;
  return true;
}

void Channel::shut_down(Ending how) {
  uint32_t seen = root_->shut.load(std::memory_order_relaxed);
  while (seen < how && !root_->shut.compare_exchange_weak(seen, how, std::memory_order_seq_cst)) continue;
  fault("channel.shutdown.said");
  announce(&root_->items, &root_->readers, INT_MAX);
  fault("channel.shutdown.told");
  announce(&root_->room, &root_->writers, INT_MAX);
}

bool Channel::drain() {
  ReceivedMessage message;
  for (;;) {
    Try result = get(&message, true);
    message.clear();
    if (result == Try::NotNow || result == Try::Over) return true;
    // A message whose blocks cannot be received is finished, too.
    if (result == Try::Failed && !PyErr_ExceptionMatches(PyExc_RuntimeError)) return false;
    PyErr_Clear();
  }
}

bool Channel::check(std::string* violation) {
  auto report = [violation](const char* what, uint64_t a, uint64_t b) {
    *violation = std::string(what) + ": " + std::to_string(a) + ", " + std::to_string(b);
    return true;
  };
again:
  violation->clear();
  if (!to_head()) return false;
  bool later_used = false;  // whether a later cell is used
  for (size_t k = 0; chain_[k]->next.load(std::memory_order_acquire); k++) {
    if (follow(k)) continue;
    if (PyErr_Occurred()) return false;
    goto again;
  }
  uint64_t n_tombs = 0;
  for (size_t k = 0; k < chain_.size(); k++) {
    Segment* segment = chain_[k];
    if (segment->number != chain_[0]->number + k) return report("segment numbers", segment->number, chain_[0]->number + k);
    if (segment->first.load(std::memory_order_relaxed) > kCells) return report("hint", k, segment->first.load());
    n_tombs += segment->tombs_before.load(std::memory_order_relaxed) > (segment->number - 1) * kCells;
  }
  if (n_tombs) return report("more puts given up than positions", n_tombs, chain_[0]->number);
  // Backwards: a cell is claimed only after the previous one, and never becomes EMPTY again.
  for (size_t k = chain_.size(); k-- > 0;) {
    Segment* segment = chain_[k];
    for (int i = kCells; i-- > 0;) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire), state = state_of(word);
      uint64_t position = (segment->number - 1) * kCells + static_cast<uint64_t>(i);
      if (state > TOMB) return report("state of a cell", position, word);
      if (state == EMPTY && later_used) return report("an empty cell before a used one", position, word);
      later_used |= state != EMPTY;
      if (static_cast<uint32_t>(i) < segment->first.load(std::memory_order_acquire)) {
        word = segment->words[i].load(std::memory_order_acquire), state = state_of(word);
        if (state != FINISHED && state != TOMB) return report("a cell below the hint is not finished", position, word);
      }
      Message& message = segment->cells[i].message;
      if (state == READY && !segment->cells[i].spilled.load(std::memory_order_acquire)) {
        if (message.exported.load(std::memory_order_acquire) != message.handles)
          return report("handles not in flight", message.exported.load(), message.handles);
        if (Message::size(message.handles, message.nbytes) > sizeof(Cell::data) + sizeof(Message))
          return report("a message larger than its cell", message.handles, message.nbytes);
      }
    }
  }
  MessageCounts counts;
  if (!count(&counts)) return false;
  if (root_->maxsize && counts.waiting + counts.reading + counts.writing > root_->maxsize)
    return report("more messages than maxsize", counts.waiting + counts.reading + counts.writing, root_->maxsize);
  return true;
}

int64_t Channel::unfinished_tasks() {
again:
  if (!to_head()) return -1;
  uint64_t n = (chain_[0]->number - 1) * kCells - chain_[0]->tombs_before.load(std::memory_order_acquire);
  bool changed = false;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    for (int i = 0; i < kCells; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == EMPTY) goto end;
      n += state != WRITING && state != TOMB;
      changed |= recover_cell(segment, i, word);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (!follow(k)) {
      if (PyErr_Occurred()) return -1;
      goto again;
    }
  }
end:
  if (changed) goto again;
  return static_cast<int64_t>(n - root_->tasks_done.load(std::memory_order_acquire));
}

// Note [Debts]
// A process that takes a message of a joinable queue owes a task_done(); if it dies before, join() would wait for ever.
// So each process has an entry in the table after the root, which it alone writes: the number of messages that it has
// taken and not yet finished. debt = count:20 | row+1:12 | inc:32. The count is raised before the message is DONE and
// lowered after tasks_done was raised. join() reads in the opposite order (messages received, debts, tasks_done), so it
// counts each unfinished message at least once: those that remain after subtracting the debts of living processes were
// lost with a dead debtor. If a process finishes a message that another one has taken, the taker's debt stays; that can
// only make join() wait.
namespace {

constexpr uint64_t kDebtMask = (1ull << 20) - 1;

uint64_t debt_of(Peer peer, uint64_t n) {
  return n | static_cast<uint64_t>(peer.row + 1) << 20 | static_cast<uint64_t>(peer.inc) << 32;
}
Peer debtor_of(uint64_t debt) { return {static_cast<int>(debt >> 20 & 0xFFF) - 1, static_cast<uint32_t>(debt >> 32)}; }

}  // namespace

void Channel::owe(int change) {
  if (!debtors_) return;
  const uint64_t own = debt_of(own_peer(), 0);
  auto is_own = [own](uint64_t debt) { return (debt & ~kDebtMask) == own; };
  if (!debt_ || !is_own(debt_->load(std::memory_order_relaxed))) {
    debt_ = nullptr;
    std::atomic<uint64_t>* debts = root_->debts();
    for (uint32_t i = 0; !debt_ && i < kDebtors; i++)
      if (is_own(debts[i].load(std::memory_order_relaxed))) debt_ = &debts[i];
    for (uint32_t i = 0; !debt_ && i < kDebtors; i++) {
      uint64_t old = debts[i].load(std::memory_order_acquire);
      bool free = old == 0 || (!(old & kDebtMask) && is_dead(debtor_of(old)));
      if (free && debts[i].compare_exchange_strong(old, own, std::memory_order_acq_rel)) debt_ = &debts[i];
      if (debt_) fault("channel.debtor");
    }
    if (!debt_) return;  // 512 processes have died with debts: join() waits, as without a table
  }
  uint64_t n = debt_->load(std::memory_order_relaxed) & kDebtMask;
  if (change < 0 ? n > 0 : n < kDebtMask) debt_->fetch_add(static_cast<uint64_t>(change), std::memory_order_seq_cst);
  fault("channel.owed");
}

bool Channel::find_lost_debtor(Peer* lost, bool* found) {
  *found = false;
  MessageCounts counts;
  if (!debtors_) return true;
  if (!count(&counts)) return false;
  uint64_t owed = 0;
  bool has_dead = false;
  std::atomic<uint64_t>* debts = root_->debts();
  for (uint32_t i = 0; i < kDebtors; i++) {
    uint64_t debt = debts[i].load(std::memory_order_seq_cst);
    if (!debt) break;  // entries are claimed in order and never freed
    if (!(debt & kDebtMask)) continue;
    if (is_alive(debtor_of(debt))) {
      owed += debt & kDebtMask;
    } else if (!has_dead) {
      has_dead = true;
      *lost = debtor_of(debt);
    }
  }
  uint64_t done = root_->tasks_done.load(std::memory_order_seq_cst);
  *found = has_dead && static_cast<int64_t>(counts.received - done - owed) > 0;
  return true;
}

}  // namespace shmtensor
