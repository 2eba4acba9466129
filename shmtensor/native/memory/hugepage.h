// Huge pages for the volumes, where the kernel offers them for shared memory.
#pragma once

#include <stddef.h>

namespace shmtensor {

// What the kernel says: "always", "within_size", "advise", "never", "deny", "force"; "unknown": it
// does not say. root: prefix of /sys ("" outside tests).
struct HugePolicy {
  char text[16];
  bool wants_advice() const;
};
HugePolicy huge_policy(const char* root);

// Asks for huge pages over [base, base + n), once per mapping, if advice is what the kernel waits
// for. False: it was not asked, or refused.
bool advise_huge(void* base, size_t n);

}  // namespace shmtensor
