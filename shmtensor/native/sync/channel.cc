// The channel's protocol (channel.h has the picture), 400 lines because put, get and recovery argue with one another.
//
// Note [Reaching a segment]
// A link is an address, and what lies there may have been reclaimed since the link was read. So: read the handle that
// the segment carries in itself (perhaps garbage by now), receive it, which publishes our hold and validates, and then
// look whether the word that led here (root.head, root.tail) still says the same. A segment's pin is released only
// after head and tail have left it, so if the word still says so the hold was there in time; otherwise drop it and
// start again. Segments reached through `next` are protected by head itself: pins go in the order of the chain.
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
#include "sync/channel.h"

#include <cstring>

#include "memory/faults.h"
#include "memory/heap.h"
#include "sync/block.h"
#include "sync/life.h"

namespace shmtensor {

namespace {

constexpr uint64_t kNumberMask = (1ull << 30) - 1;

uint64_t state_of(uint64_t word) { return word & 15; }
uint64_t word_of(CellState state, Peer peer) {
  return state | static_cast<uint64_t>(peer.row + 1) << 4 | static_cast<uint64_t>(peer.inc) << 32;
}
Peer peer_of(uint64_t word) {
  return {static_cast<int>(word >> 4 & 0xFFF) - 1, static_cast<uint32_t>(word >> 32)};
}
bool is_busy(uint64_t state) { return state == WRITING || state == CLAIMED || state == DONE; }

uint64_t link_of(const void* segment, uint64_t number) {
  return (number & kNumberMask) << 34 | static_cast<uint64_t>(static_cast<const char*>(segment) - domain.base) / 64;
}
Segment* segment_at(uint64_t link) {
  return reinterpret_cast<Segment*>(domain.base + (link & ((1ull << 34) - 1)) * 64);
}
bool pin(const void* p, const Root* channel, Handle* out) {
  return export_block(p, reinterpret_cast<uint64_t>(channel), out);
}

// A hold on a message's own block while this scope lasts; refused: base stays nullptr and an exception is set.
struct Spill {
  void* base = nullptr;
  explicit Spill(const Handle& handle) {
    size_t nbytes;
    if (!hold_block(handle, &base, &nbytes)) base = nullptr;
  }
  ~Spill() {
    if (base) drop_block(base);
  }
  Spill(const Spill&) = delete;
};

void announce(std::atomic<uint32_t>* word, std::atomic<uint32_t>* waiters, int n) {
  word->fetch_add(1, std::memory_order_seq_cst);
  if (waiters->load(std::memory_order_seq_cst)) wake(word, n);
}

}  // namespace

void Channel::discard(void** spill) {
  if (*spill) heap_free(*spill);
  *spill = nullptr;
}

bool Channel::create(void* block, uint64_t maxsize) {
  Root* root = static_cast<Root*>(block);
  root_ = root;
  root->maxsize = maxsize;
  Segment* first = make_segment(nullptr);
  if (!first) return false;
  root->head.store(first->link, std::memory_order_relaxed);
  root->tail.store(first->link, std::memory_order_relaxed);
  root->magic = kChannelMagic;
  bool good = to_head();
  heap_free(first);  // its pin and our hold keep it, as everybody's
  return good;
}

bool Channel::attach(void* block, size_t nbytes) {
  Root* root = static_cast<Root*>(block);
  if (nbytes < sizeof(Root) || root->magic != kChannelMagic) {
    raise("ValueError", "Channel: the block is not a channel: %zu bytes", nbytes);
    return false;
  }
  root_ = root;
  return true;
}

void Channel::close() {
  for (Segment* segment : chain_) drop_block(segment);
  chain_.clear();
  if (tail_) drop_block(tail_);
  tail_ = nullptr;
  root_ = nullptr;
}

Segment* Channel::make_segment(Segment* before) {
  Segment* segment = static_cast<Segment*>(allocate_shared(sizeof(Segment)));
  if (!segment) {
    PyErr_NoMemory();
    raise_allocation_failure("Channel");
    return nullptr;
  }
  segment->number = before ? before->number + 1 : 1;
  segment->link = link_of(segment, segment->number);
  if (before) segment->previous = before->self;
  segment->previous_released.store(before ? 0 : 1, std::memory_order_relaxed);
  fault("channel.segment.made");
  if (!pin(segment, root_, &segment->self)) {
    heap_free(segment);
    return nullptr;
  }
  fault("channel.segment.pinned");
  return segment;
}

// See Note [Reaching a segment].
Channel::Reach Channel::reach(uint64_t link, std::atomic<uint64_t>* anchor, uint64_t expected, Segment** out) {
  Handle handle;
  memcpy(static_cast<void*>(&handle), static_cast<void*>(&segment_at(link)->self), sizeof handle);
  void* base = nullptr;
  size_t nbytes;
  bool held = hold_block(handle, &base, &nbytes);
  if (anchor->load(std::memory_order_seq_cst) != expected) {
    if (held)
      drop_block(base);
    else
      PyErr_Clear();
    return Reach::Moved;
  }
  if (!held) return Reach::Failed;
  Segment* segment = static_cast<Segment*>(base);
  if (segment != segment_at(link) || segment->link != link) {
    drop_block(base);
    raise("RuntimeError", "Channel: a link leads to a block that is no segment: link %#llx",
          static_cast<unsigned long long>(link));
    return Reach::Failed;
  }
  *out = segment;
  return Reach::Ok;
}

// Makes chain_[0] the head; what was before it in this process's chain is dropped.
bool Channel::to_head() {
  for (;;) {
    uint64_t head = root_->head.load(std::memory_order_seq_cst);
    size_t stale = 0;
    while (stale < chain_.size() && chain_[stale]->link != head) drop_block(chain_[stale++]);
    chain_.erase(chain_.begin(), chain_.begin() + static_cast<long>(stale));
    if (chain_.empty()) {
      Segment* segment;
      Reach result = reach(head, &root_->head, head, &segment);
      if (result == Reach::Failed) return false;
      if (result == Reach::Moved) continue;
      chain_.push_back(segment);
    }
    Segment* first = chain_[0];
    if (!first->previous_released.load(std::memory_order_acquire)) {
      acknowledge(first->previous);
      first->previous_released.store(1, std::memory_order_release);
    }
    return true;
  }
}

bool Channel::to_tail() {
  for (;;) {
    uint64_t tail = root_->tail.load(std::memory_order_seq_cst);
    if (tail_ && tail_->link == tail) return true;
    Segment* segment;
    Reach result = reach(tail, &root_->tail, tail, &segment);
    if (result == Reach::Failed) return false;
    if (result == Reach::Moved) continue;
    if (tail_) drop_block(tail_);
    tail_ = segment;
    return true;
  }
}

// The segment after chain_[i], held; nullptr without exception: head moved, look again from there.
Segment* Channel::follow(size_t i) {
  if (i + 1 < chain_.size()) return chain_[i + 1];
  uint64_t next = chain_[i]->next.load(std::memory_order_acquire);
  Segment* segment;
  if (reach(next, &root_->head, chain_[0]->link, &segment) != Reach::Ok) return nullptr;
  chain_.push_back(segment);
  return segment;
}

// The head's cells are all finished and it has a next: moves head there. False: a Python exception.
bool Channel::retire() {
  Segment* old = chain_[0];
  uint64_t link = old->link;
  Segment* next = follow(0);
  if (!next) return !PyErr_Occurred();
  uint64_t tombs = old->tombs_before.load(std::memory_order_relaxed);
  for (auto& word : old->words) tombs += state_of(word.load(std::memory_order_relaxed)) == TOMB;
  next->tombs_before.store(tombs, std::memory_order_release);  // everybody who retires writes the same
  // Tail must have left the segment before its pin goes; head last.
  uint64_t tail = link;
  root_->tail.compare_exchange_strong(tail, next->link, std::memory_order_seq_cst);
  fault("channel.retire.tail");
  uint64_t head = link;
  root_->head.compare_exchange_strong(head, next->link, std::memory_order_seq_cst);
  fault("channel.retire.head");
  return to_head();
}

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
      if (segment->words[i].compare_exchange_strong(word, TOMB, std::memory_order_acq_rel))
        announce(&root_->room, &root_->writers, 1);
      break;
    case CLAIMED:
      if (segment->words[i].compare_exchange_strong(word, READY, std::memory_order_acq_rel))
        announce(&root_->items, &root_->readers, 1);
      break;
    default:
      release_pins(&segment->cells[i]);
      fault("channel.tend.done");
      if (segment->words[i].compare_exchange_strong(word, FINISHED, std::memory_order_acq_rel))
        announce(&root_->room, &root_->writers, 1);
  }
  return true;
}

// The message of a cell that this process has claimed, as Python objects; afterwards the cell is FINISHED.
Channel::Try Channel::take(Segment* segment, int i, PyObject** out) {
  Cell* cell = &segment->cells[i];
  std::atomic<uint64_t>* word = &segment->words[i];
  fault("channel.get.claimed");
  bool spilled = cell->spilled.load(std::memory_order_relaxed) == 1;
  Message* message = &cell->message;
  PyObject *payload = nullptr, *blocks = nullptr;
  bool lost = false;  // a handle of it was refused: nobody else could receive it either
  if (spilled) {
    PyObject* own = receive_block(*cell->spill());
    lost = !own;
    if (own) {
      message = static_cast<Message*>(block_base(own));
      payload = slice(own, message->bytes() - reinterpret_cast<char*>(message), message->nbytes);
      Py_DECREF(own);
    }
  } else {
    payload = PyBytes_FromStringAndSize(message->bytes(), static_cast<Py_ssize_t>(message->nbytes));
  }
  if (payload) blocks = PyList_New(message->handles);
  for (uint32_t k = 0; blocks && k < message->handles; k++) {
    PyObject* block = receive_block(message->table()[k]);
    if (!block) {
      Py_CLEAR(blocks);
      lost = true;
    } else {
      PyList_SET_ITEM(blocks, k, block);
    }
  }
  fault("channel.get.held");
  if (!blocks && !lost) {  // no memory for the Python objects: somebody else may have it
    word->store(READY, std::memory_order_release);
    announce(&root_->items, &root_->readers, 1);
  } else {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    word->store(word_of(DONE, here()), std::memory_order_seq_cst);
    fault("channel.get.done");
    release_pins(cell);
    fault("channel.get.released");
    word->store(FINISHED, std::memory_order_release);
    announce(&root_->room, &root_->writers, 1);
    PyErr_Restore(type, value, trace);
  }
  PyObject* result = blocks ? PyTuple_Pack(2, payload, blocks) : nullptr;
  Py_XDECREF(payload);
  Py_XDECREF(blocks);
  if (!result) return Try::Failed;
  *out = result;
  return Try::Ok;
}

Channel::Try Channel::get(PyObject** out) {
  struct Passed {
    Segment* segment;
    int i;
    uint64_t word;
  };
  std::vector<Passed> busy;
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
      if (!segment->words[i].compare_exchange_strong(word, word_of(CLAIMED, here()), std::memory_order_acq_rel)) goto again;
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
  return Try::NotNow;
}

// How many positions, counted from the first message ever, are known to be over. Only grows. UINT64_MAX: exception.
uint64_t Channel::finished_from_head() {
again:
  if (!to_head()) return UINT64_MAX;
  bool changed = false;
  uint64_t n = (chain_[0]->number - 1) * kCells;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    for (int i = 0; i < kCells; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == EMPTY) goto end;
      if (state == FINISHED || state == TOMB)
        n++;
      else
        changed |= state != READY && tend(segment, i, word);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (!follow(k)) {
      if (PyErr_Occurred()) return UINT64_MAX;
      goto again;
    }
  }
end:
  if (changed) goto again;
  return n;
}

Channel::Try Channel::put(const char* bytes, size_t nbytes, void* const* pointers, uint32_t n, void** spill) {
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
      uint64_t finished = finished_from_head();
      if (finished == UINT64_MAX) return Try::Failed;
      if (position + 1 - finished > root_->maxsize && position + 1 > finished) return Try::NotNow;
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
      if (!to_tail()) return Try::Failed;
      continue;
    }
    uint64_t empty = EMPTY;
    if (segment->words[i].compare_exchange_strong(empty, word_of(WRITING, here()), std::memory_order_acq_rel)) break;
  }
  fault("channel.put.writing");
  Segment* segment = tail_;
  Cell* cell = &segment->cells[i];
  Message* message = &cell->message;
  bool good = true;
  if (*spill) {
    message = static_cast<Message*>(*spill);
    good = pin(message, root_, cell->spill());
    if (good) cell->spilled.store(1, std::memory_order_release);
  } else {
    message->handles = n;
    message->nbytes = nbytes;
    memcpy(message->bytes(), bytes, nbytes);
  }
  for (uint32_t k = 0; good && k < n; k++) {
    good = pin(pointers[k], root_, &message->table()[k]);
    if (good) message->exported.store(k + 1, std::memory_order_release);
  }
  fault("channel.put.written");
  if (!good) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    release_pins(cell);
    segment->words[i].store(TOMB, std::memory_order_release);
    announce(&root_->room, &root_->writers, 1);
    PyErr_Restore(type, value, trace);
    return Try::Failed;
  }
  segment->words[i].store(READY, std::memory_order_seq_cst);
  fault("channel.put.ready");
  announce(&root_->items, &root_->readers, 1);
  discard(spill);
  return Try::Ok;
}

uint64_t Channel::size(bool* full) {
  uint64_t ready = 0, unfinished = 0;
again:
  ready = unfinished = 0;
  if (!to_head()) return UINT64_MAX;
  bool changed = false;
  for (size_t k = 0;; k++) {
    Segment* segment = chain_[k];
    for (int i = 0; i < kCells; i++) {
      uint64_t word = segment->words[i].load(std::memory_order_acquire);
      uint64_t state = state_of(word);
      if (state == EMPTY) goto end;
      ready += state == READY;
      unfinished += state != FINISHED && state != TOMB;
      changed |= tend(segment, i, word);
    }
    if (!segment->next.load(std::memory_order_acquire)) break;
    if (!follow(k)) {
      if (PyErr_Occurred()) return UINT64_MAX;
      goto again;
    }
  }
end:
  if (changed) goto again;
  *full = root_->maxsize && unfinished >= root_->maxsize;
  return ready;
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
      changed |= tend(segment, i, word);
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

}  // namespace shmtensor
