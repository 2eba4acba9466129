// How the files of a domain are opened: shared by its creation (domain.cc) and its joining
// (join.cc).
#pragma once

#include "memory/domain/domain.h"

namespace shmtensor {

// Ledger mutex held by all callers. They return nullptr, or the text of an error.
extern thread_local char error_text[400];
extern const char kMagic[8];
const char* with_errno(const char* what);  // with errno's text
const char* error_with(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* map_domain(Domain& d, uint32_t S);
const char* map_volumes(Domain& d);
void unmap_domain(Domain& d);
const char* enter(Domain& d);  // lock, row, spare description
void leave_files(Domain& d);
const char* create(int volume0);
// Duplicates the descriptors.
const char* join_files(Domain& d, const int fds[3], const uint8_t* id);
const char* open_domain(int volume0);  // joins the domain that the environment or the parent names, else creates one

}  // namespace shmtensor
