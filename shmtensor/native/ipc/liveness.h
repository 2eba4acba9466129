// Liveness of processes, from their rows (docs/design/memory.md).
#pragma once

#include "memory/ledger/ledger.h"
#include "ipc/futex.h"

namespace shmtensor {

inline bool is_alive(Peer peer) { return liveness_of(peer.row, peer.inc) == Liveness::Alive; }
// Dead, not only doomed: none of its threads runs, so its data may be changed.
inline bool is_dead(Peer peer) { return liveness_of(peer.row, peer.inc) == Liveness::Dead; }
inline Peer own_peer() {
  Self me = self();
  return {me.row, me.inc};
}

}  // namespace shmtensor
