// The chain of a channel's segments: making, reaching and leaving them.
//
// Note [Reaching a segment]
// A link is an address, and what lies there may have been reclaimed since the link was read. So: read the handle that
// the segment carries in itself (perhaps garbage by now), receive it, which publishes our hold and validates, and then
// look whether the word that led here (root.head, root.tail) still says the same. A segment's pin is released only
// after head and tail have left it, so if the word still says so the hold was there in time; otherwise drop it and
// start again. Segments reached through `next` are protected by head itself: pins go in the order of the chain.
#include "ipc/channel/channel.h"

#include <cstring>

#include "memory/inspect/fault_points.h"
#include "memory/heap/heap.h"
#include "ipc/codec/block.h"
#include "ipc/channel/cell.h"
#include "ipc/liveness.h"

namespace shmtensor {

void Channel::discard(void** spill) {
  if (*spill) heap_free(*spill);
  *spill = nullptr;
}

bool Channel::create(void* block, uint64_t maxsize, bool joinable) {
  Root* root = static_cast<Root*>(block);
  root_ = root;
  road_ = block_around(root);
  root->debtors = joinable ? kDebtors : 0;
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
  if (nbytes < sizeof(Root) || root->magic != kChannelMagic ||
      (root->debtors && (root->debtors != kDebtors || nbytes < sizeof(Root) + kDebtors * sizeof(uint64_t)))) {
    raise("ValueError", "Channel: the block is not a channel: %zu bytes", nbytes);
    return false;
  }
  root_ = root;
  road_ = block_around(root);
  return true;
}

void Channel::close() {
  for (Segment* segment : chain_) drop_block(segment);
  chain_.clear();
  if (tail_) drop_block(tail_);
  tail_ = nullptr;
  debt_ = nullptr;
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
  if (!pin(block_around(segment), &segment->self)) {
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
      fault("channel.retire.released");
      first->previous_released.store(1, std::memory_order_release);
      fault("channel.retire.noted");
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
  fault("channel.retire.counted");
  // Tail must have left the segment before its pin goes; head last.
  uint64_t tail = link;
  root_->tail.compare_exchange_strong(tail, next->link, std::memory_order_seq_cst);
  fault("channel.retire.tail");
  uint64_t head = link;
  root_->head.compare_exchange_strong(head, next->link, std::memory_order_seq_cst);
  fault("channel.retire.head");
  return to_head();
}

}  // namespace shmtensor
