// Guests: memberships in other domains, with a row and holds, but no slots and no heap.
//
// A process becomes a guest when it opens a tensor of another domain, and leaves with its last hold there. Leaving looks
// like dying to the others: the row's lock closes. A forked child has its own row in every domain of its parent.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

constexpr int kGuests = 64;  // ranks that had tensors before they met: distributed.md

// A record without membership; nullptr: no memory. All records except the own domain's are allocated here.
Domain* new_domain();
void leave_domain(Domain* d);  // unmaps, closes, frees; the row looks like that of a dead process

extern Domain* guests[kGuests];       // ledger mutex
extern std::atomic<int> guest_count;
bool guest_shares(const void* p);     // no lock: whether p is in a domain where this process is a guest

// Ledger mutex held: the record of this process's membership by address or id; nullptr: none.
Domain* domain_at(const void* p);
Domain* domain_of(const uint8_t id[16]);

template <class F>
inline void each_guest(F f) {
  if (!guest_count.load(relaxed)) return;
  for (Domain* d : guests)
    if (d) f(*d);
}

// Joins by the descriptors of a domain's files, unless joined already. Returns nullptr (*out is the record) or the text
// of an error. Ledger mutex held. Only for descriptors from a process of this user: the control file is not checked
// against a hostile one (Note [Who gets descriptors] in shmtensor/memory/named_tensor_server.py).
const char* guest_join(const int fds[3], const uint8_t id[16], bool read_only, Domain** out);
void leave_if_idle(Domain* d);   // a guest that holds nothing
void hide_guest(Domain& d);      // forked without a row: the memory no longer counts as shared

}  // namespace shmtensor
