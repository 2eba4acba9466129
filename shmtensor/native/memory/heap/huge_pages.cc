// The kernel's policy of huge pages, and advice.
//
// Note [Huge pages]: volume 0 is in the tmpfs at /dev/shm, whose mount option `huge=` is its policy; volume 1 is a memfd,
// whose policy is in shmem_enabled ("deny" and "force" there apply to both). Advice is harmless under other policies, so
// both volumes get it if one has the policy "advise". posix_fallocate commits pages in steps of 8 MiB, so they can become
// huge at once. But it works on files, while advice belongs to mappings: with advice the pages are first populated
// through the mapping (populate_huge), before fallocate. Punching a hole inside a huge page splits it.
#include "memory/heap/huge_pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shmtensor {

static constexpr size_t kHugePage = 2 << 20;

bool HugePolicy::wants_advice() const { return strcmp(text, "advise") == 0; }
static bool is(const HugePolicy& policy, const char* text) { return !strcmp(policy.text, text); }

static void set(HugePolicy* policy, const char* from, size_t n) {
  if (!n || n >= sizeof policy->text) return;
  memset(policy->text, 0, sizeof policy->text);
  memcpy(policy->text, from, n);
}

// "always within_size advise [never] deny force"
static HugePolicy of_memfds(const char* root) {
  HugePolicy policy = {"unknown"};
  char path[600], line[200];
  snprintf(path, sizeof path, "%s/sys/kernel/mm/transparent_hugepage/shmem_enabled", root);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return policy;
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n <= 0) return policy;
  line[n] = 0;
  char* from = strchr(line, '[');
  char* to = from ? strchr(from, ']') : nullptr;
  if (to) set(&policy, from + 1, size_t(to - from - 1));
  return policy;
}

// "78 71 0:25 / /dev/shm rw,relatime shared:3 - tmpfs tmpfs rw,size=65536k,huge=advise"; of several
// mounts the last one counts.
static HugePolicy of_dev_shm(const char* root) {
  HugePolicy policy = {"unknown"};
  char path[600], line[1600];
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
  FILE* mounts = fopen(path, "re");
  if (!mounts) return policy;
  while (fgets(line, sizeof line, mounts)) {
    char point[500];
    if (sscanf(line, "%*s %*s %*s %*s %499s", point) != 1 || strcmp(point, "/dev/shm") != 0) continue;
    policy = {"never"};
    const char* option = strstr(line, ",huge=");
    if (option) set(&policy, option + 6, strcspn(option + 6, ", \n"));
  }
  fclose(mounts);
  return policy;
}

HugePolicy huge_policy(const char* root) {
  HugePolicy memfds = of_memfds(root);
  if (is(memfds, "unknown") || is(memfds, "deny") || is(memfds, "force")) return memfds;
  HugePolicy shm = of_dev_shm(root);
  return is(shm, "unknown") || is(shm, "never") ? memfds : shm;
}

bool advise_huge(void* base, size_t n) { return huge_policy("").wants_advice() && madvise(base, n, MADV_HUGEPAGE) == 0; }

void populate_huge(void* base, size_t n) {
#ifdef MADV_POPULATE_WRITE
  if (n >= kHugePage) madvise(base, n, MADV_POPULATE_WRITE);
#endif
}

}  // namespace shmtensor
