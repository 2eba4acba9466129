// The channel's protocol: put, get and recovery (channel.h has the picture, segment.cc the chain of segments).
//
// Note [Who may release pins]
// Whoever finds a cell in WRITING or DONE whose process is dead (not only doomed) does what that process would have
// done; releasing a pin is idempotent (its sequence number moved on), so any number may help, and the word changes
// last. A message's own block is released after the pins that it lists, so who cannot get it any more knows that
// everything in it was released.
//
// Note [First in, first out]
// Cells are claimed in order, so a cell after an EMPTY one is EMPTY. A reader passes over cells that others are still
// writing; before it takes a later message it looks whether the earlier ones are still being written. So two puts of
// which one ended before the other began are got in this order, by one reader. A message given back comes late.
//
// Note [The end]
// shut_down() stores `shut` and then wakes everybody. A writer that has claimed a cell looks at `shut` once more, and
// gives the cell up if it is set; a reader loads `shut` before it scans. Both pairs are seq_cst (the CAS and the load of
// the writer, the load and the fence of the reader): either the writer sees `shut`, or the reader that saw it sees the
// cell. So a reader for which it is set and which finds neither a message nor a cell that a living process is writing or
// may still give back knows that nothing will come.
#include "ipc/channel/channel.h"

#include <climits>
#include <cstring>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "ipc/codec/block.h"
#include "ipc/channel/cell.h"
#include "ipc/liveness.h"

namespace shmtensor {

// As much of a cell as the message of a tensor takes: fetched while the cell is being claimed.
constexpr size_t kExpected = 192;

void Channel::release_pins(Cell* cell) {
  if (cell->spilled.load(std::memory_order_acquire) != 1) {
    release_pins(&cell->message);
    return;
  }
  Spill spill(*cell->spill());
  if (!spill.base) {  // released by another helper: see Note [Who may release pins]
    PyErr_Clear();
    return;
  }
  release_pins(static_cast<Message*>(spill.base));
  acknowledge(*cell->spill());
}

void Channel::release_pins(Message* message) {
  uint32_t n = message->exported.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; i++) acknowledge(message->table()[i]);
}

// Does for a dead process what it can do no more. True: the word changed, look again.
bool Channel::tend(Segment* segment, int i, uint64_t word) {
  if (!is_busy(state_of(word)) || !is_dead(peer_of(word))) return false;
  switch (state_of(word)) {
    case WRITING:
      release_pins(&segment->cells[i]);
      fault("channel.tend.writing");
      if (segment->words[i].compare_exchange_strong(word, TOMB, std::memory_order_acq_rel)) {
        fault("channel.tend.tomb");
        announce(&root_->room, &root_->writers, 1);
      }
      break;
    case CLAIMED:
      fault("channel.tend.claimed");
      if (segment->words[i].compare_exchange_strong(word, READY, std::memory_order_acq_rel)) {
        fault("channel.tend.ready");
        announce(&root_->items, &root_->readers, 1);
      }
      break;
    default:
      release_pins(&segment->cells[i]);
      fault("channel.tend.done");
      if (segment->words[i].compare_exchange_strong(word, FINISHED, std::memory_order_acq_rel)) {
        fault("channel.tend.finished");
        announce(&root_->room, &root_->writers, 1);
      }
  }
  return true;
}

void Arrival::clear() {
  for (PyObject* block : held) Py_DECREF(block);
  held.clear();
  Py_CLEAR(spill);
}

PyObject* Arrival::data() const {
  if (!spill) return PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(nbytes));
  return slice(spill, static_cast<size_t>(bytes - static_cast<char*>(block_base(spill))), nbytes);
}

PyObject* Arrival::blocks() const {
  PyObject* out = PyList_New(static_cast<Py_ssize_t>(held.size()));
  for (uint32_t i = 0; out && i < held.size(); i++) PyList_SET_ITEM(out, i, Py_NewRef(held.data()[i]));
  return out;
}

// Takes the message of a cell that this process has claimed; afterwards the cell is FINISHED.
Channel::Try Channel::take(Segment* segment, int i, Arrival* out) {
  Cell* cell = &segment->cells[i];
  std::atomic<uint64_t>* word = &segment->words[i];
  const bool spilled = cell->spilled.load(std::memory_order_relaxed) == 1;
  Message* message = &cell->message;
  bool good = true;  // not good: a handle of it was refused, nobody else could receive it either
  out->clear();
  if (spilled) {
    out->spill = receive_block(*cell->spill());
    good = out->spill != nullptr;
    if (good) message = static_cast<Message*>(block_base(out->spill));
  }
  uint32_t n = good ? message->handles : 0;
  for (uint32_t k = 0; k < n; k++) expect_block(message->table()[k]);
  out->bytes = spilled ? message->bytes() : out->few_;
  out->nbytes = message->nbytes;
  if (!spilled) memcpy(out->few_, message->bytes(), message->nbytes);
  for (uint32_t k = 0; good && k < n; k++) {
    PyObject* block = receive_block(message->table()[k]);
    good = block != nullptr;
    if (good) out->held.push_back(block);
  }
  fault("channel.get.held");
  owe(1);  // before DONE: a message is given back as long as nobody owes it
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  if (!good) PyErr_Fetch(&type, &value, &trace);
  word->store(word_of(DONE, here()), std::memory_order_seq_cst);
  fault("channel.get.done");
  release_pins(cell);
  fault("channel.get.released");
  word->store(FINISHED, std::memory_order_release);
  fault("channel.get.finished");
  announce(&root_->room, &root_->writers, 1);
  if (root_->shut.load(std::memory_order_acquire)) {  // see Note [The end]: this was perhaps the last one
    fault("channel.get.told");
    announce(&root_->items, &root_->readers, INT_MAX);
  }
  if (good) return Try::Ok;
  PyErr_Restore(type, value, trace);
  return Try::Failed;
}

Channel::Try Channel::get(Arrival* out, bool draining) {
  struct Passed {
    Segment* segment;
    int i;
    uint64_t word;
  };
  std::vector<Passed> busy;
  uint32_t shut = root_->shut.load(std::memory_order_seq_cst);
  if (shut) std::atomic_thread_fence(std::memory_order_seq_cst);  // see Note [The end]
  if (shut == AT_ONCE && !draining) return Try::Over;
again:
  busy.clear();
  if (!to_head()) return Try::Failed;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    for (uint32_t i = segment->first.load(std::memory_order_relaxed); i < kCells; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == FINISHED || state == TOMB) {
        if (segment->first.load(std::memory_order_relaxed) == i) segment->first.store(i + 1, std::memory_order_relaxed);
        continue;
      }
      if (state == EMPTY) goto none;
      if (state != READY) {
        busy.push_back({segment, static_cast<int>(i), word});
        continue;
      }
      for (Passed& earlier : busy)  // see Note [First in, first out]
        if (state_of(earlier.word) == WRITING &&
            state_of(earlier.segment->words[earlier.i].load(std::memory_order_acquire)) == READY)
          goto again;
      for (size_t at = 0; at < kExpected; at += 64) __builtin_prefetch(reinterpret_cast<char*>(&segment->cells[i]) + at);
      if (!segment->words[i].compare_exchange_strong(word, word_of(CLAIMED, here()), std::memory_order_acq_rel)) goto again;
      fault("channel.get.claimed");
      return take(segment, static_cast<int>(i), out);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (k == 0 && segment->first.load(std::memory_order_relaxed) == kCells) {
      if (!retire()) return Try::Failed;
      goto again;
    }
    if (!follow(k)) {
      if (PyErr_Occurred()) return Try::Failed;
      goto again;
    }
  }
none:
  bool changed = false;
  for (Passed& passed : busy) changed |= tend(passed.segment, passed.i, passed.word);
  if (changed) goto again;
  for (Passed& passed : busy) shut = shut && state_of(passed.word) == DONE ? shut : 0;
  return shut ? Try::Over : Try::NotNow;
}

// How many positions, counted from the first message ever, are known to be over; stops looking at `enough`. Only grows.
// UINT64_MAX: exception.
uint64_t Channel::finished_from_head(uint64_t enough) {
again:
  if (finished_ >= enough) return finished_;
  if (!to_head()) return UINT64_MAX;
  bool changed = false;
  uint64_t n = (chain_[0]->number - 1) * kCells;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    uint32_t over = segment->first.load(std::memory_order_relaxed);
    n += over;
    for (uint32_t i = over; i < kCells && n < enough; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == EMPTY) goto end;
      if (state == FINISHED || state == TOMB)
        n++;
      else
        changed |= state != READY && tend(segment, static_cast<int>(i), word);
    }
    if (n >= enough || !segment->next.load(std::memory_order_acquire)) break;
    if (!follow(k)) {
      if (PyErr_Occurred()) return UINT64_MAX;
      goto again;
    }
  }
end:
  if (n > finished_) finished_ = n;
  if (changed) goto again;
  return finished_;
}

Channel::Try Channel::put(const char* bytes, size_t nbytes, const Found* blocks, uint32_t n, void** spill) {
  if (Message::size(n, nbytes) > sizeof(Cell::data) + sizeof(Message) && !*spill) {
    Message* message = static_cast<Message*>(allocate_shared(Message::size(n, nbytes)));
    if (!message) {
      PyErr_NoMemory();
      raise_allocation_failure("Channel.put");
      return Try::Failed;
    }
    *spill = message;
    message->handles = n;
    message->nbytes = nbytes;
    memcpy(message->bytes(), bytes, nbytes);
  }
  if (root_->shut.load(std::memory_order_acquire)) return Try::Over;
  const size_t fetched = *spill ? sizeof(Handle) : sizeof(Cell) - sizeof(Cell::data) + n * sizeof(Handle) + nbytes;
  uint32_t i;
  for (;;) {
    if (!tail_ && !to_tail()) return Try::Failed;
    Segment* segment = tail_;
    i = segment->last.load(std::memory_order_relaxed);
    while (i < kCells && state_of(segment->words[i].load(std::memory_order_acquire)) != EMPTY) i++;
    segment->last.store(i, std::memory_order_relaxed);
    uint64_t position = (segment->number - 1) * kCells + i;
    if (root_->maxsize && position + 1 > root_->maxsize) {
      // Exact: finished positions only grow, so at most maxsize positions up to this one are unfinished.
      uint64_t enough = position + 1 - root_->maxsize, finished = finished_from_head(enough);
      if (finished == UINT64_MAX) return Try::Failed;
      if (finished < enough) return Try::NotNow;
    }
    if (i == kCells) {
      uint64_t next = segment->next.load(std::memory_order_acquire);
      if (!next) {
        Segment* made = make_segment(segment);
        if (!made) return Try::Failed;
        if (segment->next.compare_exchange_strong(next, made->link, std::memory_order_seq_cst))
          next = made->link;
        else
          acknowledge(made->self);  // somebody was faster; `next` is theirs
        heap_free(made);            // the pin keeps it while it is linked
      }
      fault("channel.segment.linked");
      uint64_t old = segment->link;
      root_->tail.compare_exchange_strong(old, next, std::memory_order_seq_cst);
      fault("channel.segment.tail");
      if (!to_tail()) return Try::Failed;
      continue;
    }
    for (size_t at = 0; at < fetched; at += 64) fetch_to_write(reinterpret_cast<char*>(&segment->cells[i]) + at);
    uint64_t empty = EMPTY;
    if (segment->words[i].compare_exchange_strong(empty, word_of(WRITING, here()), std::memory_order_seq_cst)) break;
  }
  fault("channel.put.writing");
  Segment* segment = tail_;
  if (root_->shut.load(std::memory_order_seq_cst)) {  // see Note [The end]
    segment->words[i].store(TOMB, std::memory_order_release);
    fault("channel.put.refused");
    announce(&root_->room, &root_->writers, 1);
    fault("channel.put.told");
    announce(&root_->items, &root_->readers, INT_MAX);
    return Try::Over;
  }
  Cell* cell = &segment->cells[i];
  Message* message = &cell->message;
  bool good = true;
  if (*spill) {
    message = static_cast<Message*>(*spill);
    good = pin(block_around(message), cell->spill());
    fault("channel.put.spilled");
    if (good) cell->spilled.store(1, std::memory_order_release);
  } else {
    message->handles = n;
    message->nbytes = nbytes;
    memcpy(message->bytes(), bytes, nbytes);
  }
  for (uint32_t k = 0; good && k < n; k++) {
    good = pin(blocks[k], &message->table()[k]);
    fault("channel.put.pinned");
    if (good) message->exported.store(k + 1, std::memory_order_release);
  }
  fault("channel.put.written");
  if (!good) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    release_pins(cell);
    segment->words[i].store(TOMB, std::memory_order_release);
    fault("channel.put.tomb");
    announce(&root_->room, &root_->writers, 1);
    PyErr_Restore(type, value, trace);
    return Try::Failed;
  }
  segment->words[i].store(READY, std::memory_order_seq_cst);
  fault("channel.put.ready");
  announce(&root_->items, &root_->readers, 1);
  discard(spill);
  if (n) expect_export();
  return Try::Ok;
}

}  // namespace shmtensor
