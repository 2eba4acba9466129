// Huge pages for the volumes, where the kernel offers them for shared memory.
#pragma once

#include <stddef.h>

namespace shmtensor {

// The kernel's policy for the first volume that may have them: "always", "within_size", "advise", "never", "deny",
// "force"; "unknown": there are none. root: prefix of /sys and /proc ("" outside tests).
struct HugePolicy {
  char text[16];
  bool wants_advice() const;
};
HugePolicy huge_policy(const char* root);

// Advises huge pages over [base, base + n), once per mapping, if the policy is "advise". False: not advised, or refused.
bool advise_huge(void* base, size_t n);

// Populates advised memory, with huge pages if possible, as far as there is room; posix_fallocate then handles the rest
// and reports errors.
void populate_huge(void* base, size_t n);

}  // namespace shmtensor
