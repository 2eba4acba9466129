// Guests: memberships in the domains of others. A row and holds, no slots and no heap.
//
// A process becomes a guest when it opens a tensor of another domain, and leaves with its last hold
// there (leaving is dying: the row's lock closes). A forked child has a row of its own in every
// domain that its parent is a guest of.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

constexpr int kGuests = 16;

// A record that is a member of nothing yet; nullptr: no memory. Own domain apart, records live here.
Domain* new_domain();
void leave_domain(Domain* d);  // unmaps, closes, frees; the row is left as the dead leave theirs

extern Domain* guests[kGuests];       // ledger mutex
extern std::atomic<int> guest_count;  // 0: nobody need look
bool guest_shares(const void* p);     // no lock: whether p lies in a domain where one is a guest

// Ledger mutex held: the record of this process's membership by address or id; nullptr: none.
Domain* domain_at(const void* p);
Domain* domain_of(const uint8_t id[16]);

template <class F>
inline void each_guest(F f) {
  if (!guest_count.load(relaxed)) return;
  for (Domain* d : guests)
    if (d) f(*d);
}

// Joins by the descriptors of a domain's files, once; `lock`: a description of the control file for
// this process alone, or -1. nullptr: *out is the record, else why not. Ledger mutex held.
const char* guest_join(const int fds[3], int lock, const uint8_t id[16], bool read_only,
                       Domain** out);
void leave_if_idle(Domain* d);   // a guest that holds nothing
void hide_guest(Domain& d);      // forked without a row: its memory no longer counts as shared

}  // namespace shmtensor
