// Slabs of GPU memory in the ledger: slots of kind kDevice (docs/design/cuda-memory.md).
//
// The memory is cudaMalloc's; here are only the words that all processes see. No function calls CUDA. A process that has
// a slab open counts 1 in its own nheld of the slot, beside its hold bits, so its death closes the slab like its holds.
//
//   FREE -> CLAIMED -> LIVE -> FREEING -> (cudaFree) -> FREE, inc + 1
//                       |  its owner has died: sweep
//                       v
//                      LOST -> FREEING -> FREE, inc + 1     once every row's nheld is 0
#pragma once

#include <vector>

#include "memory/ledger/ledger.h"

namespace shmtensor {

constexpr uint32_t kDeviceVolume = 2;  // Handle::volume; its offset is within the slab

// A slot that the slab has from now on; -1: none is free. shift: block index = offset >> shift.
int claim_slab(Domain& d, const uint64_t uuid[2], uint64_t size, uint32_t shift, const uint64_t handle[8], uint32_t* inc);
// False: a process holds a block of it or has it open, or a message is in flight. True: it is FREEING, and the caller
// frees the memory, then calls end_slab. No block of the slab is in use or in limbo.
bool retire_slab(Domain& d, uint32_t slot, uint32_t inc);
void end_slab(Domain& d, uint32_t slot);

enum class SlabHold { Home, Held, Stale, Lost, Foreign };
// is_held: this process holds the block already; then no bit is set.
SlabHold hold_in_slab(Domain& d, const Handle& h, bool is_held, const char** reason);
void drop_in_slab(Domain& d, uint32_t slot, uint32_t index);
void count_open(Domain& d, uint32_t slot, int change);  // +1 before the slab is opened, -1 after it is closed
bool is_live(Domain& d, uint32_t slot, uint32_t inc);

struct SlabBlock {
  uint32_t slot, index;
  bool freed;
};
// Own blocks in limbo: frees those that no row and no message in flight holds; each gets its next generation.
void reclaim_in_slabs(Domain& d, std::vector<SlabBlock>& blocks);

}  // namespace shmtensor
