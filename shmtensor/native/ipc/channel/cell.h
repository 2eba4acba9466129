// Packing and unpacking the words and links of a channel.
#pragma once

#include "memory/ledger/ledger.h"
#include "ipc/channel/channel.h"
#include "ipc/copy_once.h"

namespace shmtensor {

constexpr uint64_t kNumberMask = (1ull << 30) - 1;

inline uint64_t state_of(uint64_t word) { return word & 15; }
inline uint64_t word_of(CellState state, Peer peer) {
  return state | static_cast<uint64_t>(peer.row + 1) << 4 | static_cast<uint64_t>(peer.inc) << 32;
}
inline Peer peer_of(uint64_t word) { return {static_cast<int>(word >> 4 & 0xFFF) - 1, static_cast<uint32_t>(word >> 32)}; }
inline bool is_busy(uint64_t state) { return state == WRITING || state == CLAIMED || state == DONE; }

inline uint64_t link_of(const void* segment, uint64_t number) {
  return (number & kNumberMask) << 34 | static_cast<uint64_t>(static_cast<const char*>(segment) - domain.base) / 64;
}
// nullptr: not in the domain.
inline Segment* segment_at(uint64_t link) {
  const uint64_t offset = (link & ((1ull << 34) - 1)) * 64;
  if (offset + sizeof(Segment) > domain.shared) return nullptr;
  return reinterpret_cast<Segment*>(domain.base + offset);
}
// Holds a message's own block in this scope. If it is refused, base is nullptr and an exception is set.
struct Spill {
  void* base = nullptr;
  size_t nbytes = 0;
  explicit Spill(const Handle& handle) {
    if (!hold_block(handle, &base, &nbytes)) base = nullptr;
  }
  ~Spill() {
    if (base) drop_block(base);
  }
  Spill(const Spill&) = delete;
};

// The bytes that a cell has for its message.
constexpr size_t kMessageBytes = sizeof(Message) + sizeof(Cell::data);

inline void announce(std::atomic<uint32_t>* word, std::atomic<uint32_t>* waiters, int n) {
  word->fetch_add(1, std::memory_order_seq_cst);
  if (waiters->load(std::memory_order_seq_cst)) wake(word, n);
}

}  // namespace shmtensor
