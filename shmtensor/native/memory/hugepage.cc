// Reading the kernel's policy, and asking.
//
// Note [Huge pages]: the policy in shmem_enabled is that of memfds (volume 1) and of every tmpfs
// mounted without `huge=`; volume 0 lies in /dev/shm, whose mount option decides. Advice is
// harmless where it is not wanted, so both volumes get it. Pages are committed by posix_fallocate
// in steps of 8 MiB, so what is committed at once can become huge at once; a hole that is punched
// inside a huge page splits it.
#include "hugepage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shmtensor {

bool HugePolicy::wants_advice() const { return strcmp(text, "advise") == 0; }

HugePolicy huge_policy(const char* root) {
  HugePolicy policy = {"unknown"};
  char path[600], line[200];
  snprintf(path, sizeof path, "%s/sys/kernel/mm/transparent_hugepage/shmem_enabled", root);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return policy;
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n <= 0) return policy;
  line[n] = 0;
  // "always within_size advise [never] deny force"
  char* from = strchr(line, '[');
  char* to = from ? strchr(from, ']') : nullptr;
  if (to && size_t(to - from - 1) < sizeof policy.text) {
    memset(policy.text, 0, sizeof policy.text);
    memcpy(policy.text, from + 1, size_t(to - from - 1));
  }
  return policy;
}

bool advise_huge(void* base, size_t n) {
  return huge_policy("").wants_advice() && madvise(base, n, MADV_HUGEPAGE) == 0;
}

}  // namespace shmtensor
