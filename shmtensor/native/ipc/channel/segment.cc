// The chain of a channel's segments: creating, reaching and retiring them.
//
// Note [Reaching a segment]
// A link is an address, and its block may have been reclaimed since the link was read. So the reader reads the handle
// that the segment contains (perhaps garbage by now), receives it, which publishes a hold and validates it, and then
// checks that the word with the link (root.head, root.tail) is unchanged. A segment's handle is acknowledged only after
// head and tail have left it, so if the word is unchanged, the hold was published in time; otherwise the reader drops
// the hold and starts again. Segments reached through `next` are protected by head: handles are acknowledged in the
// order of the chain.
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
  channel_block_ = block_around(root);
  root->debtors = debtors_ = joinable ? kDebtors : 0;
  root->maxsize = maxsize;
  Segment* first = make_segment(nullptr);
  if (!first) return false;
  root->head.store(first->link, std::memory_order_relaxed);
  root->tail.store(first->link, std::memory_order_relaxed);
  root->magic = kChannelMagic;
  bool good = to_head();
  heap_free(first);  // the handle in flight and our hold keep it
  return good;
}

bool Channel::attach(void* block, size_t nbytes) {
  Root* root = static_cast<Root*>(block);
  const uint32_t debtors = nbytes < sizeof(Root) ? 0 : copy_once(root->debtors);
  if (nbytes < sizeof(Root) || root->magic != kChannelMagic ||
      (debtors && (debtors != kDebtors || nbytes < sizeof(Root) + kDebtors * sizeof(uint64_t))))
    return raise("ValueError", "Channel: the block is not a channel: %zu bytes", nbytes);
  root_ = root;
  debtors_ = debtors;
  channel_block_ = block_around(root);
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

Segment* Channel::make_segment(Segment* previous) {
  Segment* segment = static_cast<Segment*>(allocate_shared(sizeof(Segment)));
  if (!segment) {
    PyErr_NoMemory();
    raise_allocation_failure("Channel");
    return nullptr;
  }
  segment->number = previous ? previous->number + 1 : 1;
  segment->link = link_of(segment, segment->number);
  if (previous) segment->previous = previous->self;
  segment->previous_released.store(previous ? 0 : 1, std::memory_order_relaxed);
  fault("channel.segment.made");
  if (!export_handle(block_around(segment), &segment->self)) {
    heap_free(segment);
    return nullptr;
  }
  fault("channel.segment.pinned");
  return segment;
}

Channel::Reach Channel::raise_no_segment(uint64_t link) {
  raise("RuntimeError", "Channel: a link leads to a block that is not a segment: link %#llx",
        static_cast<unsigned long long>(link));
  return Reach::Failed;
}

// See Note [Reaching a segment].
Channel::Reach Channel::reach(uint64_t link, std::atomic<uint64_t>* anchor, uint64_t expected, Segment** out) {
  void* base = nullptr;
  size_t nbytes = 0;
  Segment* at = segment_at(link);
  if (!at) return raise_no_segment(link);
  const Handle handle = copy_once(at->self);
  bool is_held = hold_block(handle, &base, &nbytes);
  if (anchor->load(std::memory_order_seq_cst) != expected) {
    if (is_held) drop_block(base);
    else PyErr_Clear();
    return Reach::Moved;
  }
  if (!is_held) return Reach::Failed;
  Segment* segment = static_cast<Segment*>(base);
  if (segment != at || nbytes < sizeof(Segment) || segment->link != link) {
    drop_block(base);
    return raise_no_segment(link);
  }
  *out = segment;
  return Reach::Ok;
}

// Makes chain_[0] the head; drops earlier segments of this process's chain.
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
      acknowledge(copy_once(first->previous));
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

// The held segment after chain_[i]; nullptr without exception: head has moved, start again from there.
Segment* Channel::follow(size_t i) {
  if (i + 1 < chain_.size()) return chain_[i + 1];
  uint64_t next = chain_[i]->next.load(std::memory_order_acquire);
  Segment* segment;
  if (reach(next, &root_->head, chain_[0]->link, &segment) != Reach::Ok) return nullptr;
  chain_.push_back(segment);
  return segment;
}

// The head's cells are all finished and it has a next: moves head there. False: a Python exception.
bool Channel::retire_head() {
  Segment* old = chain_[0];
  uint64_t link = old->link;
  Segment* next = follow(0);
  if (!next) return !PyErr_Occurred();
  uint64_t tombs = old->tombs_before.load(std::memory_order_relaxed);
  for (auto& word : old->words) tombs += state_of(word.load(std::memory_order_relaxed)) == TOMB;
  next->tombs_before.store(tombs, std::memory_order_release);  // all processes that retire it write the same
  fault("channel.retire.counted");
  // Tail must leave the segment before its handle is acknowledged; head last.
  uint64_t tail = link;
  root_->tail.compare_exchange_strong(tail, next->link, std::memory_order_seq_cst);
  fault("channel.retire.tail");
  uint64_t head = link;
  root_->head.compare_exchange_strong(head, next->link, std::memory_order_seq_cst);
  fault("channel.retire.head");
  return to_head();
}

}  // namespace shmtensor
