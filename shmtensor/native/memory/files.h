// How the files of a domain are opened: shared by its creation (domain.cc) and its joining
// (join.cc).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shmtensor {

// Ledger mutex held by all callers. A text is why it failed; nullptr is success.
extern char why[400];
extern const char kMagic[8];
const char* because(const char* what);  // with errno's text
const char* map_domain(int control, const int volume[2], uint32_t S);
void unmap_domain();
const char* enter();  // lock, row, spare description
void leave_files();
const char* create(int volume0);
const char* open_domain(int volume0);  // joins what is named, else creates

}  // namespace shmtensor
