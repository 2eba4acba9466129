// Who is alive, asked in terms of processes: the ledger's answers about rows (docs/design/memory.md).
#pragma once

#include "memory/ledger/ledger.h"
#include "ipc/futex.h"

namespace shmtensor {

inline bool is_alive(Peer peer) { return life_of(peer.row, peer.inc) == Life::Alive; }
// Dead, not only doomed: no thread of it runs any more, so what it left may be changed.
inline bool is_dead(Peer peer) { return life_of(peer.row, peer.inc) == Life::Dead; }
inline Peer here() {
  Self me = self();
  return {me.row, me.inc};
}

}  // namespace shmtensor
