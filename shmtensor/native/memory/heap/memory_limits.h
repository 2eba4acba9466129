// How much memory may still be committed before the kernel kills instead of refusing: memory
// cgroups (v1 and v2), the machine; or refuses everybody: strict accounting.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shmtensor {

struct Headroom {
  uint64_t available = UINT64_MAX;  // bytes that may be committed
  uint64_t limit = UINT64_MAX;      // of whoever is tightest
  char name[200] = "";              // who that is: "memory cgroup /a/b", "this machine", ...
};

// root: prefix of /proc and of the cgroup mounts ("" outside tests).
Headroom read_headroom(const char* root);

// Takes n bytes from what was last read; reads again when that is used up or older than 100 ms.
// False: not enough.
bool take_headroom(size_t n);
Headroom last_headroom();
Headroom recent_headroom(uint64_t age_ms);  // read anew if the last reading is older
void forget_headroom();  // the next take reads anew
void headroom_after_fork();

}  // namespace shmtensor
