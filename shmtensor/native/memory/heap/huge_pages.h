// Huge pages for the volumes, where the kernel offers them for shared memory.
#pragma once

#include <stddef.h>

namespace shmtensor {

// What the kernel says of the first volume that it offers them to: "always", "within_size", "advise",
// "never", "deny", "force"; "unknown": it has none. root: prefix of /sys and /proc ("" outside tests).
struct HugePolicy {
  char text[16];
  bool wants_advice() const;
};
HugePolicy huge_policy(const char* root);

// Asks for huge pages over [base, base + n), once per mapping, if advice is what the kernel waits
// for. False: it was not asked, or refused.
bool advise_huge(void* base, size_t n);

// Makes the pages of advised memory that are not there, huge ones where that is possible. As many
// as there is room for: what is missing is left to posix_fallocate, which says why.
void populate_huge(void* base, size_t n);

}  // namespace shmtensor
