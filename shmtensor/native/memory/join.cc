// Joining a domain: by descriptors, by SHMTENSOR_DOMAIN, through a parent.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "domain.h"
#include "files.h"

namespace shmtensor {

static const char* check_files(const int fds[3], const uint8_t* id) {
  Header h;
  struct stat st;
  if (fstat(fds[0], &st) != 0) return because("its control file is not open here");
  if (pread(fds[0], &h, sizeof h, 0) != ssize_t(sizeof h) ||
      memcmp(h.magic, kMagic, sizeof kMagic) != 0) {
    snprintf(why, sizeof why, "descriptor %d is no control file of a domain", fds[0]);
    return why;
  }
  if (h.version != kLayoutVersion || h.rows != kRows || h.blocks != kBlocks ||
      h.slots > kMostSlots || size_t(st.st_size) != Areas(h.slots).size) {
    snprintf(why, sizeof why, "it has layout version %u, this process speaks %u", h.version,
             kLayoutVersion);
    return why;
  }
  if (id && memcmp(h.id, id, sizeof h.id) != 0) {
    snprintf(why, sizeof why, "descriptor %d belongs to another domain", fds[0]);
    return why;
  }
  for (int v = 0; v < 2; ++v) {
    if (fstat(fds[1 + v], &st) != 0 || uint64_t(st.st_size) != h.slots / 2 * kSlotBytes) {
      snprintf(why, sizeof why, "descriptor %d is no volume of it", fds[1 + v]);
      return why;
    }
  }
  return nullptr;
}

// Ledger mutex held. The descriptors are duplicated; the caller's stay its own.
static const char* join(const int fds[3], const uint8_t* id) {
  if (const char* bad = check_files(fds, id)) return bad;
  uint32_t S = 0;
  pread(fds[0], &S, sizeof S, offsetof(Header, slots));
  pread(fds[0], domain.id, sizeof domain.id, offsetof(Header, id));
  domain.control = high_descriptor(fcntl(fds[0], F_DUPFD_CLOEXEC, 3));
  domain.volume[0] = high_descriptor(fcntl(fds[1], F_DUPFD_CLOEXEC, 3));
  domain.volume[1] = high_descriptor(fcntl(fds[2], F_DUPFD_CLOEXEC, 3));
  const char* bad = nullptr;
  if (domain.control < 0 || domain.volume[0] < 0 || domain.volume[1] < 0)
    bad = because("cannot duplicate its descriptors");
  if (!bad) bad = map_domain(domain.control, domain.volume, S);
  if (!bad) {
    bad = enter();
    if (bad) unmap_domain();
  }
  if (bad) leave_files();
  return bad;
}

const char* domain_join(const int fds[3], const uint8_t id[16]) {
  Locked lock;
  if (domain_ready()) {
    if (memcmp(domain.id, id, sizeof domain.id) == 0) return nullptr;
    return "this process already belongs to another domain (it made one by allocating or forking "
           "before it could join)";
  }
  return join(fds, id);
}

static bool parse_hex(const char* text, uint8_t id[16]) {
  for (int i = 0; i < 16; ++i) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
    id[i] = uint8_t(byte);
  }
  return true;
}

// Through /proc/<pid>/fd of a member: what plain spawn and strangers have.
static const char* join_member(int pid, const int numbers[3], const uint8_t* id) {
  int fds[3] = {-1, -1, -1};
  const char* bad = nullptr;
  for (int i = 0; i < 3 && !bad; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, numbers[i]);
    fds[i] = open(path, O_RDWR | O_CLOEXEC);
    if (fds[i] < 0) bad = because(path);
  }
  if (!bad) bad = join(fds, id);
  for (int fd : fds)
    if (fd >= 0) close(fd);
  return bad;
}

int domain_environment(char* text, size_t n) {
  char hex[33];
  for (int i = 0; i < 16; ++i) snprintf(hex + 2 * i, 3, "%02x", domain.id[i]);
  return snprintf(text, n, "1:%s:%d:%d,%d,%d", hex, int(getpid()), domain.control, domain.volume[0],
                  domain.volume[1]);
}

// SHMTENSOR_DOMAIN=1:<id>:<pid>:<control>,<volume 0>,<volume 1>: descriptors of that number
// inherited by this process, else opened through /proc/<pid>/fd. "new": a domain of its own,
// whoever started it.
static const char* join_environment(const char* text) {
  uint8_t id[16];
  int pid, fds[3];
  if (strlen(text) < 40 || text[0] != '1' || text[1] != ':' || !parse_hex(text + 2, id) ||
      sscanf(text + 34, ":%d:%d,%d,%d", &pid, &fds[0], &fds[1], &fds[2]) != 4) {
    snprintf(why, sizeof why, "SHMTENSOR_DOMAIN is not what domain_environment() wrote: %.100s",
             text);
    return why;
  }
  if (!check_files(fds, id)) return join(fds, id);
  if (const char* bad = join_member(pid, fds, id)) {
    char reason[200];
    snprintf(reason, sizeof reason, "%s", bad);
    snprintf(why, sizeof why,
             "cannot join the domain named by SHMTENSOR_DOMAIN=%s: %s; unset it to start a new one",
             text, reason);
    return why;
  }
  return nullptr;
}

// Note [Plain spawn]: the standard library's spawned child knows nothing of us, but its command
// line says what it is, and its parent's descriptors lead to the parent's domain. Any other program
// starts a domain of its own.
static bool started_by_spawn() {
  char text[4096];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  for (ssize_t i = 0; i < n; i += ssize_t(strlen(text + i)) + 1) {
    text[n] = 0;
    if (strcmp(text + i, "--multiprocessing-fork") == 0) return true;
  }
  return false;
}

static bool join_parent() {
  int parent = int(getppid()), numbers[3] = {-1, -1, -1};
  char path[64], target[128];
  snprintf(path, sizeof path, "/proc/%d/fd", parent);
  DIR* d = opendir(path);
  if (!d) return false;
  while (dirent* entry = readdir(d)) {
    ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = 0;
    int number = atoi(entry->d_name);
    if (strncmp(target, "/memfd:shmtensor-control", 24) == 0 && numbers[0] < 0)
      numbers[0] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume0", 24) == 0 ||
             strncmp(target, "/dev/shm/shmtensor-", 19) == 0)
      numbers[1] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume1", 24) == 0)
      numbers[2] = number;
  }
  closedir(d);
  return numbers[0] >= 0 && numbers[1] >= 0 && numbers[2] >= 0 &&
         !join_member(parent, numbers, nullptr);
}

const char* open_domain(int volume0) {  // ledger mutex held
  const char* named = getenv("SHMTENSOR_DOMAIN");
  bool fresh = named && strcmp(named, "new") == 0;
  if (named && *named && !fresh) {
    if (volume0 >= 0) close(volume0);
    return join_environment(named);
  }
  if (!fresh && started_by_spawn() && join_parent()) {
    if (volume0 >= 0) close(volume0);
    return nullptr;
  }
  return create(volume0);
}

}  // namespace shmtensor
