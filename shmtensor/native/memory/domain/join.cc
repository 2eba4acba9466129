// Joining a domain: by descriptors, by SHMTENSOR_DOMAIN, through a parent.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/domain/domain.h"
#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

static const char* check_files(const int fds[3], const uint8_t* id) {
  Header h;
  struct stat st;
  if (fstat(fds[0], &st) != 0) return with_errno("its control file is not open here");
  if (pread(fds[0], &h, sizeof h, 0) != ssize_t(sizeof h) || memcmp(h.magic, kMagic, sizeof kMagic) != 0) {
    return error_with("descriptor %d is not the control file of a domain", fds[0]);
  }
  if (h.version != kLayoutVersion || h.rows != kRows || h.blocks != kBlocks || h.slots > kMaxSlots ||
      size_t(st.st_size) != Areas(h.slots).size) {
    return error_with("it has layout version %u, this process speaks %u", h.version, kLayoutVersion);
  }
  if (id && memcmp(h.id, id, sizeof h.id) != 0) return error_with("descriptor %d belongs to another domain", fds[0]);
  for (int v = 0; v < 2; ++v) {
    if (fstat(fds[1 + v], &st) != 0 || uint64_t(st.st_size) != h.slots / 2 * kSlotBytes)
      return error_with("descriptor %d is no volume of it", fds[1 + v]);
  }
  return nullptr;
}

const char* join_files(Domain& d, const int fds[3], const uint8_t* id) {
  if (const char* error = check_files(fds, id)) return error;
  uint32_t S = 0;
  pread(fds[0], &S, sizeof S, offsetof(Header, slots));
  pread(fds[0], d.id, sizeof d.id, offsetof(Header, id));
  d.control = high_descriptor(fcntl(fds[0], F_DUPFD_CLOEXEC, 3));
  d.volume[0] = high_descriptor(fcntl(fds[1], F_DUPFD_CLOEXEC, 3));
  d.volume[1] = high_descriptor(fcntl(fds[2], F_DUPFD_CLOEXEC, 3));
  const char* error = nullptr;
  if (d.control < 0 || d.volume[0] < 0 || d.volume[1] < 0) error = with_errno("cannot duplicate its descriptors");
  if (!error) error = map_domain(d, S);
  fault("join.mapped");
  if (!error) {
    error = enter(d);
    if (error) unmap_domain(d);
  }
  if (error) leave_files(d);
  return error;
}

const char* domain_join(const int fds[3], const uint8_t id[16]) {
  Locked lock;
  if (domain_ready()) {
    if (memcmp(domain.id, id, sizeof domain.id) == 0) return nullptr;
    return "this process already belongs to another domain (it created one by allocating or forking "
           "before it could join)";
  }
  return join_files(domain, fds, id);
}

static bool parse_hex(const char* text, uint8_t id[16]) {
  for (int i = 0; i < 16; ++i) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
    id[i] = uint8_t(byte);
  }
  return true;
}

// Joins through /proc/<pid>/fd of a member: for plain spawn and for unrelated processes.
static const char* join_member(int pid, const int numbers[3], const uint8_t* id) {
  int fds[3] = {-1, -1, -1};
  const char* error = nullptr;
  for (int i = 0; i < 3 && !error; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, numbers[i]);
    fds[i] = open(path, O_RDWR | O_CLOEXEC);
    if (fds[i] < 0) error = with_errno(path);
  }
  if (!error) error = join_files(domain, fds, id);
  for (int fd : fds)
    if (fd >= 0) close(fd);
  return error;
}

int domain_environment(char* text, size_t n) {
  char hex[33];
  for (int i = 0; i < 16; ++i) snprintf(hex + 2 * i, 3, "%02x", domain.id[i]);
  return snprintf(text, n, "1:%s:%d:%d,%d,%d", hex, int(getpid()), domain.control, domain.volume[0], domain.volume[1]);
}

// SHMTENSOR_DOMAIN=1:<id>:<pid>:<control>,<volume 0>,<volume 1>: descriptors with these numbers, inherited by this process,
// else opened through /proc/<pid>/fd. "new": always a new domain.
static bool parse_environment(const char* text, uint8_t id[16], int* pid, int fds[3]) {
  return strlen(text) >= 40 && text[0] == '1' && text[1] == ':' && parse_hex(text + 2, id) &&
         sscanf(text + 34, ":%d:%d,%d,%d", pid, &fds[0], &fds[1], &fds[2]) == 4;
}

void close_inherited_on_exec() {
  uint8_t id[16];
  int pid, fds[3];
  const char* setting = getenv("SHMTENSOR_DOMAIN");
  if (setting && parse_environment(setting, id, &pid, fds) && !check_files(fds, id))
    for (int fd : fds) fcntl(fd, F_SETFD, FD_CLOEXEC);
  unsigned long inode;
  struct stat st;
  setting = getenv("SHMTENSOR_ERROR_FD");  // descriptor:inode of the pipe to the launcher
  if (setting && sscanf(setting, "%d:%lu", &fds[0], &inode) == 2 && fstat(fds[0], &st) == 0 && S_ISFIFO(st.st_mode) &&
      st.st_ino == inode)
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
}

static const char* join_environment(const char* text) {
  uint8_t id[16];
  int pid, fds[3];
  if (!parse_environment(text, id, &pid, fds))
    return error_with("SHMTENSOR_DOMAIN is not what domain_environment() wrote: %.100s", text);
  if (!check_files(fds, id)) {
    const char* error = join_files(domain, fds, id);
    if (!error)
      for (int fd : fds) close(fd);  // this process has its own now
    return error;
  }
  if (const char* error = join_member(pid, fds, id)) {
    char reason[200];
    snprintf(reason, sizeof reason, "%s", error);
    return error_with("cannot join the domain named by SHMTENSOR_DOMAIN=%s: %s; unset it to start a new one", text, reason);
  }
  return nullptr;
}

// Note [Plain spawn]: a child spawned by the standard library or by loky has no data of ours, but its command line shows
// how it was started, and its parent's descriptors lead to the parent's domain. The standard library's fork server has
// another command line and need not be a member: its children also try the parent of the server. Any other program
// creates its own domain.
enum class Start { Other, Spawned, Served };

static bool ends_with(const char* text, const char* end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static Start how_started() {
  char text[4096];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Start::Other;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return Start::Other;
  text[n] = 0;
  const char served[] = "from multiprocessing.forkserver import main;";
  for (ssize_t i = 0; i < n; i += ssize_t(strlen(text + i)) + 1) {
    if (strcmp(text + i, "--multiprocessing-fork") == 0) return Start::Spawned;
    if (ends_with(text + i, "loky.backend.popen_loky_posix")) return Start::Spawned;
    if (strncmp(text + i, served, sizeof served - 1) == 0) return Start::Served;
  }
  return Start::Other;
}

static int parent_of(int pid) {
  char text[1024];
  const char* fields = read_stat(pid, text);
  int parent = 0;
  return fields && sscanf(fields, "%*c %d", &parent) == 1 ? parent : 0;
}

static bool join_through(int parent) {
  int numbers[3] = {-1, -1, -1};
  char path[64], target[128];
  snprintf(path, sizeof path, "/proc/%d/fd", parent);
  DIR* d = opendir(path);
  if (!d) return false;
  while (dirent* entry = readdir(d)) {
    ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = 0;
    int number = atoi(entry->d_name);
    if (strncmp(target, "/memfd:shmtensor-control", 24) == 0 && numbers[0] < 0) numbers[0] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume0", 24) == 0 || strncmp(target, "/dev/shm/shmtensor-", 19) == 0)
      numbers[1] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume1", 24) == 0) numbers[2] = number;
  }
  closedir(d);
  return numbers[0] >= 0 && numbers[1] >= 0 && numbers[2] >= 0 && !join_member(parent, numbers, nullptr);
}

const char* open_domain(int volume0) {  // ledger mutex held
  if (const char* error = check_liveness_environment()) {
    if (volume0 >= 0) close(volume0);
    return error;
  }
  const char* setting = getenv("SHMTENSOR_DOMAIN");
  bool fresh = setting && strcmp(setting, "new") == 0;
  if (setting && *setting && !fresh) {
    if (volume0 >= 0) close(volume0);
    return join_environment(setting);
  }
  Start start = fresh ? Start::Other : how_started();
  int parent = int(getppid());
  if (start != Start::Other && (join_through(parent) || (start == Start::Served && join_through(parent_of(parent))))) {
    if (volume0 >= 0) close(volume0);
    return nullptr;
  }
  return create(volume0);
}

}  // namespace shmtensor
