// Who lives, and who may sweep: by byte locks of the kernel, or by processes' names in the rows.
//
// Note [Liveness]: the founder of a domain chooses (Header::liveness), all others follow.
//   locks    a row's byte is locked on a description that only its process has (F_OFD_SETLK). An
//            obtainable lock is proof of death and permission to sweep in one.
//   process  the kernel has no such locks (gVisor). The row's word `holder` takes the byte's place:
//            0, or the name (pid and start time, in one word) of the process whose row it is, or of
//            the one that sweeps it, or, until a forked child runs, of its parent. Obtainable is
//            what is 0 or names a dead process; it is obtained by CAS from just that value, and
//            held by one's own name. So a sweeper's death is noticed like any other and its work
//            taken over, and the protocol above is the same in both modes.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

inline bool by_process(const Domain& d) { return d.header->liveness == kByProcess; }

// The founder's choice: by the environment, else what the kernel has. nullptr, or why not.
const char* choose_liveness(Domain& d);
const char* check_liveness_environment();
// Can this process be a member? nullptr, or why not; sets the name under which it is.
const char* take_name(Domain& d);

// 0: nobody lives there, and until yield_row() nobody else obtains it. thorough: looks for a
// process that lives on as another program, too.
int obtain_row(Domain& d, int fd, int row, bool thorough = false);
void yield_row(Domain& d, int fd, int row);
Life life_of_name(uint64_t name);
Life life_by_name(const Row& row, RowState state);
// Does that process have the control file mapped? 1: yes, 0: no, -1: nobody says.
int maps_control(const Domain& d, int pid);

// ---- fork. Ledger mutex held.
bool open_birth(Domain& d);           // false: this child cannot have a row
void parent_of_birth(Domain& d);      // in the parent, whether or not there is a child
void child_of_birth(Domain& d);       // in the child: the row bears its name now
void forget_births(Domain& d);        // by a child of its parent's; by a guest that leaves
void leave_row(Domain& d);            // of a guest, ahead of its unmapping

}  // namespace shmtensor
