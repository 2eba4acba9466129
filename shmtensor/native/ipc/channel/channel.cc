// The channel's protocol: put, get and recovery (channel.h has the picture, segment.cc the chain of segments).
//
// Note [Recovering cells]
// A process that finds a cell in WRITING or DONE whose process is dead (not only doomed) completes that process's work:
// it acknowledges the handles, then changes the word. Acknowledging is idempotent (the sequence number differs
// afterwards), so several processes may do it. A message's own block is acknowledged after the handles in it, so if it
// cannot be received any more, all of them have been acknowledged.
//
// Note [First in, first out]
// Cells are claimed in order, so a cell after an EMPTY one is EMPTY. A reader skips cells that others are writing; before
// it takes a later message it checks whether the earlier ones are still being written. So if one put ended before
// another began, one reader gets their messages in this order. A message that returns after its reader's death is late.
//
// Note [The end]
// shut_down() stores `shut` and then wakes all waiters. A writer that has claimed a cell loads `shut` again, and makes
// the cell a TOMB if it is set; a reader loads `shut` before it scans. Both pairs are seq_cst (the CAS and the load of the
// writer, the load and the fence of the reader): either the writer sees `shut`, or the reader that saw it sees the cell.
// So if `shut` is set and a reader finds neither a message nor a cell that a living process writes or may return,
// no message will come.
#include "ipc/channel/channel.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "ipc/codec/block.h"
#include "ipc/channel/cell.h"
#include "ipc/liveness.h"

namespace shmtensor {

// The size of a tensor's message in a cell: prefetched while the cell is claimed.
constexpr size_t kExpected = 192;

void Channel::acknowledge_handles(Cell* cell) {
  if (cell->spilled.load(std::memory_order_acquire) != 1) {
    acknowledge_handles(&cell->message, kMessageBytes);
    return;
  }
  const Handle handle = copy_once(*cell->spill());
  Spill spill(handle);
  if (!spill.base) {  // another process has acknowledged it: Note [Recovering cells]
    PyErr_Clear();
    return;
  }
  acknowledge_handles(static_cast<Message*>(spill.base), spill.nbytes);
  acknowledge(handle);
}

void Channel::acknowledge_handles(Message* message, size_t capacity) {
  if (capacity < sizeof(Message)) return;
  const size_t n = message->exported.load(std::memory_order_acquire), most = (capacity - sizeof(Message)) / sizeof(Handle);
  for (size_t i = 0; i < n && i < most; i++) acknowledge(copy_once(message->table()[i]));
}

// Completes the work of a dead process on a cell. True: the word has changed, read it again.
bool Channel::recover_cell(Segment* segment, int i, uint64_t word) {
  if (!is_busy(state_of(word)) || !is_dead(peer_of(word))) return false;
  switch (state_of(word)) {
    case WRITING:
      acknowledge_handles(&segment->cells[i]);
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
      acknowledge_handles(&segment->cells[i]);
      fault("channel.tend.done");
      if (segment->words[i].compare_exchange_strong(word, FINISHED, std::memory_order_acq_rel)) {
        fault("channel.tend.finished");
        announce(&root_->room, &root_->writers, 1);
      }
  }
  return true;
}

void ReceivedMessage::clear() {
  for (PyObject* block : blocks_held) drop(block);
  blocks_held.clear();
  drop_if_set(spill);
  spill = nullptr;
}

PyObject* ReceivedMessage::data() const {
  if (!spill) return PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(nbytes));
  return slice(spill, static_cast<size_t>(bytes - static_cast<char*>(block_base(spill))), nbytes);
}

PyObject* ReceivedMessage::blocks() const {
  PyObject* out = PyList_New(static_cast<Py_ssize_t>(blocks_held.size()));
  for (uint32_t i = 0; out && i < blocks_held.size(); i++) PyList_SET_ITEM(out, i, Py_NewRef(blocks_held.data()[i]));
  return out;
}

namespace {

// Reads the counts of a message once. False with an exception: handles and bytes do not fit into its memory.
bool read_counts(const Message& message, size_t capacity, uint32_t* handles, uint64_t* nbytes) {
  *handles = capacity < sizeof(Message) ? 0 : copy_once(message.handles);
  *nbytes = capacity < sizeof(Message) ? 0 : copy_once(message.nbytes);
  const uint64_t before = sizeof(Message) + *handles * sizeof(Handle);
  if (before <= capacity && *nbytes <= capacity - before) return true;
  return raise("RuntimeError", "Channel: a message is corrupt: %u handles and %llu bytes in %zu", *handles,
               static_cast<unsigned long long>(*nbytes), capacity);
}

}  // namespace

// Receives the message of a cell that this process has claimed; afterwards the cell is FINISHED.
Channel::Try Channel::take(Segment* segment, int i, ReceivedMessage* out) {
  Cell* cell = &segment->cells[i];
  std::atomic<uint64_t>* word = &segment->words[i];
  const bool spilled = cell->spilled.load(std::memory_order_relaxed) == 1;
  Message* message = &cell->message;
  bool good = true;  // false: a handle was refused, or the message is corrupt; no other process could receive it either
  out->clear();
  size_t capacity = kMessageBytes;
  if (spilled) {
    out->spill = receive_block(copy_once(*cell->spill()));
    good = out->spill != nullptr;
    if (good) {
      message = static_cast<Message*>(block_base(out->spill));
      capacity = block_nbytes(out->spill);
    }
  }
  uint32_t n = 0;
  uint64_t nbytes = 0;
  good = good && read_counts(*message, capacity, &n, &nbytes);
  if (good) {
    for (uint32_t k = 0; k < n; k++) prefetch_block(message->table()[k]);
    out->bytes = spilled ? message->bytes(n) : out->inline_bytes_;
    out->nbytes = nbytes;
    if (!spilled) memcpy(out->inline_bytes_, message->bytes(n), nbytes);
  }
  for (uint32_t k = 0; good && k < n; k++) {
    PyObject* block = receive_block(copy_once(message->table()[k]));
    good = block != nullptr;
    if (good) out->blocks_held.push_back(block);
  }
  fault("channel.get.held");
  owe(1);  // before DONE: until then the message returns to the queue if this process dies
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  if (!good) PyErr_Fetch(&type, &value, &trace);
  word->store(word_of(DONE, own_peer()), std::memory_order_seq_cst);
  fault("channel.get.done");
  acknowledge_handles(cell);
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

// The cells before it are finished. It is a hint in shared memory, so it may have any value.
static uint32_t first_cell(const Segment* segment) {
  return std::min<uint32_t>(segment->first.load(std::memory_order_relaxed), kCells);
}

Channel::Try Channel::get(ReceivedMessage* out, bool draining) {
  struct BusyCell {
    Segment* segment;
    int i;
    uint64_t word;
  };
  std::vector<BusyCell> busy;
  uint32_t shut = root_->shut.load(std::memory_order_seq_cst);
  if (shut) std::atomic_thread_fence(std::memory_order_seq_cst);  // see Note [The end]
  if (shut == AT_ONCE && !draining) return Try::Over;
again:
  busy.clear();
  if (!to_head()) return Try::Failed;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    for (uint32_t i = first_cell(segment); i < kCells; i++) {
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
      for (BusyCell& earlier : busy)  // see Note [First in, first out]
        if (state_of(earlier.word) == WRITING &&
            state_of(earlier.segment->words[earlier.i].load(std::memory_order_acquire)) == READY)
          goto again;
      for (size_t at = 0; at < kExpected; at += 64) __builtin_prefetch(reinterpret_cast<char*>(&segment->cells[i]) + at);
      if (!segment->words[i].compare_exchange_strong(word, word_of(CLAIMED, own_peer()), std::memory_order_acq_rel))
        goto again;
      fault("channel.get.claimed");
      return take(segment, static_cast<int>(i), out);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (k == 0 && first_cell(segment) == kCells) {
      if (!retire_head()) return Try::Failed;
      goto again;
    }
    if (!follow(k)) {
      if (PyErr_Occurred()) return Try::Failed;
      goto again;
    }
  }
none:
  bool changed = false;
  for (BusyCell& cell : busy) changed |= recover_cell(cell.segment, cell.i, cell.word);
  if (changed) goto again;
  for (BusyCell& cell : busy) shut = shut && state_of(cell.word) == DONE ? shut : 0;
  return shut ? Try::Over : Try::NotNow;
}

// The number of finished positions since the first message; stops counting at `enough`. Only grows. UINT64_MAX: exception.
uint64_t Channel::finished_from_head(uint64_t enough) {
again:
  if (finished_ >= enough) return finished_;
  if (!to_head()) return UINT64_MAX;
  bool changed = false;
  uint64_t n = (chain_[0]->number - 1) * kCells;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    uint32_t first = first_cell(segment);
    n += first;
    for (uint32_t i = first; i < kCells && n < enough; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == EMPTY) goto end;
      if (state == FINISHED || state == TOMB) n++;
      else changed |= state != READY && recover_cell(segment, static_cast<int>(i), word);
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

Channel::Try Channel::put(const char* bytes, size_t nbytes, const BlockRef* blocks, uint32_t n, void** spill) {
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
    memcpy(message->bytes(n), bytes, nbytes);
  }
  if (root_->shut.load(std::memory_order_acquire)) return Try::Over;
  const size_t fetched = *spill ? sizeof(Handle) : sizeof(Cell) - sizeof(Cell::data) + n * sizeof(Handle) + nbytes;
  uint32_t i;
  for (;;) {
    if (!tail_ && !to_tail()) return Try::Failed;
    Segment* segment = tail_;
    i = std::min<uint32_t>(segment->last.load(std::memory_order_relaxed), kCells);
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
        Segment* created = make_segment(segment);
        if (!created) return Try::Failed;
        if (segment->next.compare_exchange_strong(next, created->link, std::memory_order_seq_cst)) next = created->link;
        else acknowledge(created->self);  // another process was faster; `next` is its segment
        heap_free(created);            // the handle in flight keeps it while it is linked
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
    if (segment->words[i].compare_exchange_strong(empty, word_of(WRITING, own_peer()), std::memory_order_seq_cst)) break;
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
    good = export_handle(block_around(message), cell->spill());
    fault("channel.put.spilled");
    if (good) cell->spilled.store(1, std::memory_order_release);
  } else {
    message->handles = n;
    message->nbytes = nbytes;
    memcpy(message->bytes(n), bytes, nbytes);
  }
  for (uint32_t k = 0; good && k < n; k++) {
    good = export_handle(blocks[k], &message->table()[k]);
    fault("channel.put.pinned");
    if (good) message->exported.store(k + 1, std::memory_order_release);
  }
  fault("channel.put.written");
  if (!good) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    acknowledge_handles(cell);
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
  if (n) prefetch_export();
  return Try::Ok;
}

}  // namespace shmtensor
