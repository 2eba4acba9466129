// Which processes are alive, and which may sweep: by byte locks of the kernel, or by names of processes in the rows.
//
// Note [Liveness]: the founder of a domain chooses the mode (Header::liveness), all others follow.
//   locks    A row's byte is locked on a description that only its process has (F_OFD_SETLK). A lock that can be
//            obtained proves the death and permits the sweep.
//   process  The kernel has no such locks (gVisor). The row's word `holder` replaces the byte: it is 0, or the name (pid
//            and start time, in one word) of the row's process, or of its sweeper, or, until a forked child runs, of its
//            parent. The row can be obtained if the word is 0 or names a dead process: by CAS from that value to the own
//            name. So the death of a sweeper is noticed like any other, and the protocol is the same in both modes.
//            A name means the same to all who read it: the members are of one pid and one time namespace.
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

inline bool by_process(const Domain& d) { return d.header->liveness == kByProcess; }

// The founder's choice: by the environment, else by what the kernel has. nullptr, or the text of an error.
const char* choose_liveness(Domain& d);
const char* check_liveness_environment();
// Sets the name of this process. nullptr, or why it cannot be a member.
const char* set_process_name(Domain& d);

// Whether no process is alive there; if so, no other one obtains the row until yield_row(). thorough: also detects a
// process that has executed another program.
bool obtain_row(Domain& d, int fd, int row, bool thorough = false);
void yield_row(Domain& d, int fd, int row);
// By /proc, which must be that of the pid's namespace; `timens`: of the start time. Dead: none of its threads can run, so it
// has no address space any more: it does not exist, another process has its pid, or it is a zombie without further threads.
// Doomed: it is exiting. Alive: also where nothing can be read of a process that exists.
Liveness liveness_of_process(int pid, uint64_t start, uint64_t timens);
Liveness liveness_of_name(const Domain& d, uint64_t name);
Liveness liveness_by_name(const Domain& d, const Row& row, RowState state);
// Whether that process has the control file mapped.
enum class Mapped { No, Yes, Unknown };
Mapped maps_control(const Domain& d, int pid);

// ---- fork. Ledger mutex held.
bool prepare_fork(Domain& d);           // false: this child cannot have a row
void finish_fork_in_parent(Domain& d);  // also if the fork failed
void finish_fork_in_child(Domain& d);   // puts the child's name into its row
void close_fork_pipes(Domain& d);       // in a child: those of its parent; in a guest that leaves
void leave_row(Domain& d);              // of a guest, before unmapping

}  // namespace shmtensor
