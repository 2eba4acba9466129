// How much memory may be committed before the kernel kills processes (limits of memory cgroups v1 and v2, the machine's
// memory) or refuses memory to all (strict accounting).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shmtensor {

struct Headroom {
  uint64_t available = UINT64_MAX;  // bytes that may be committed
  uint64_t limit = UINT64_MAX;      // the tightest limit
  char name[200] = "";              // its name: "memory cgroup /a/b", "this machine", ...
};

// root: prefix of /proc and of the cgroup mounts ("" outside tests).
Headroom read_headroom(const char* root);

// Subtracts n bytes from the last reading; reads again when it is used up or older than 100 ms. False: not enough.
bool take_headroom(size_t n);
Headroom last_headroom();
Headroom recent_headroom(uint64_t age_ms);  // read anew if the last reading is older
void forget_headroom();  // the next take_headroom reads anew
void headroom_after_fork();

}  // namespace shmtensor
