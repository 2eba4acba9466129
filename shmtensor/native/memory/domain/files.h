// How the files of a domain are opened: shared by its creation (domain.cc) and its joining
// (join.cc).
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

// Ledger mutex held by all callers. A text is why it failed; nullptr is success.
extern thread_local char why[400];
extern const char kMagic[8];
const char* because(const char* what);  // with errno's text
const char* map_domain(Domain& d, uint32_t S);
const char* map_volumes(Domain& d);
void unmap_domain(Domain& d);
const char* enter(Domain& d);  // lock, row, spare description
void leave_files(Domain& d);
const char* create(int volume0);
// The descriptors are duplicated; the caller's stay its own.
const char* join_files(Domain& d, const int fds[3], const uint8_t* id);
const char* open_domain(int volume0);  // joins what is named, else creates

}  // namespace shmtensor
