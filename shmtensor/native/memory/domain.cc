// The domain: created at the first allocation or fork, or joined; its files, its mappings.
#include "domain.h"

#include "python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "faults.h"
#include "ledger.h"

namespace shmtensor {

Domain domain;
pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER, ledger_mutex = PTHREAD_MUTEX_INITIALIZER;

static constexpr char kMagic[8] = {'s', 'h', 'm', 't', 'n', 's', 'r', '\n'};
static constexpr const char* kControlName = "shmtensor-control";

// The text of the last failure, for domain_ensure(); ledger mutex held.
static char why[400];
static const char* because(const char* what) {
  snprintf(why, sizeof why, "%s: %s", what, strerror(errno));
  return why;
}

// Above what programs count on, but inside the first 64: a larger descriptor table is copied by every fork, and making it
// costs 7 ms in a process with threads (the kernel waits for a grace period).
int high_descriptor(int fd) {
  if (fd < 0) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 48);
  if (high < 0) return fd;
  close(fd);
  return high;
}

// ---- volume 0: POSIX shared memory, unlinked before any page is committed
// What a kill between opening and unlinking left. The creator never opens its name again, so this harms nobody.
static void sweep_names() {
  DIR* d = opendir("/dev/shm");
  if (!d) return;
  while (dirent* entry = readdir(d)) {
    struct stat st;
    if (strncmp(entry->d_name, "shmtensor-", 10) == 0 &&
        fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == geteuid()) {
      unlinkat(dirfd(d), entry->d_name, 0);
    }
  }
  closedir(d);
}

static void random_name(char name[64]) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) memset(bytes, getpid() & 0xFF, sizeof bytes);
  int n = snprintf(name, 64, "/shmtensor-");
  for (unsigned char b : bytes) n += snprintf(name + n, size_t(64 - n), "%02x", b);
}

// Note [posix_ipc]: with the GIL the first volume is made through posix_ipc. fork() may be called from C code that does
// not hold it, and a fork has to find the domain: then the same two system calls are made here.
static int volume_from_posix_ipc() {
  char name[64];
  random_name(name);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  int fd = -1;
  PyObject* module = PyImport_ImportModule("posix_ipc");
  PyObject* flags = module ? PyObject_GetAttrString(module, "O_CREX") : nullptr;
  PyObject* memory = flags ? PyObject_CallMethod(module, "SharedMemory", "sOi", name, flags, 0600) : nullptr;
  if (memory) {
    fault("domain.opened");
    PyObject* done = PyObject_CallMethod(module, "unlink_shared_memory", "s", name);
    if (!done) PyErr_Clear();  // a newcomer's start-up sweep was first
    Py_XDECREF(done);
    PyObject* number = PyObject_GetAttrString(memory, "fd");
    if (number) fd = fcntl(int(PyLong_AsLong(number)), F_DUPFD_CLOEXEC, 0);
    Py_XDECREF(number);
    PyObject* closed = PyObject_CallMethod(memory, "close_fd", nullptr);
    Py_XDECREF(closed);
  }
  Py_XDECREF(memory);
  Py_XDECREF(flags);
  Py_XDECREF(module);
  PyErr_Clear();  // no posix_ipc, no /dev/shm: both volumes are memfds then
  PyErr_Restore(type, value, traceback);
  return fd;
}

static int volume_from_libc() {
  char name[64];
  random_name(name);
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    fault("domain.opened");
    shm_unlink(name);
  }
  return fd;
}

// ---- mapping
static uint32_t slots_for_this_machine() {
  struct sysinfo info;
  uint64_t ram = sysinfo(&info) == 0 ? uint64_t(info.totalram) * info.mem_unit : 0;
  uint32_t n = kLeastSlots;
  while (n < kMostSlots && n * kSlotBytes < 4 * ram) n *= 2;
  return n;
}

static const char* map_domain(int control, const int volume[2], uint32_t S) {
  Areas areas(S);
  void* c = mmap(nullptr, areas.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, control, 0);
  if (c == MAP_FAILED) return because("cannot map the control file (a limit on address space, ulimit -v?)");
  madvise(c, areas.size, MADV_DONTDUMP);
  size_t half = S / 2 * kSlotBytes, whole = 2 * half;
  void* reserve = mmap(nullptr, whole + kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserve == MAP_FAILED) {
    because("cannot reserve address space for the volumes (ulimit -v?)");
    munmap(c, areas.size);
    return why;
  }
  char* start = static_cast<char*>(reserve);
  char* base = reinterpret_cast<char*>((uintptr_t(start) + kSlotBytes - 1) & ~uintptr_t(kSlotBytes - 1));
  if (base != start) munmap(start, size_t(base - start));
  size_t tail = size_t(start + whole + kSlotBytes - (base + whole));
  if (tail) munmap(base + whole, tail);
  for (int v = 0; v < 2; ++v) {
    if (mmap(base + v * half, half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, volume[v], 0) ==
        MAP_FAILED) {
      because("cannot map a volume");
      munmap(base, whole);
      munmap(c, areas.size);
      return why;
    }
  }
  domain.slots = S;
  domain.control_base = static_cast<char*>(c);
  domain.header = reinterpret_cast<Header*>(domain.control_base);
  domain.rows = reinterpret_cast<Row*>(domain.control_base + areas.rows);
  domain.slot = reinterpret_cast<Slot*>(domain.control_base + areas.slots);
  domain.nheld_base = domain.control_base + areas.nheld;
  domain.nheld_stride = (size_t(S) * 4 + 4095) & ~size_t(4095);
  domain.words = reinterpret_cast<Word*>(domain.control_base + areas.words);
  domain.bits_base = domain.control_base + areas.bits;
  domain.pins = reinterpret_cast<Pin*>(domain.control_base + areas.pins);
  domain.base = base;
  domain.mapped = whole;
  return nullptr;
}

static void unmap_domain() {
  munmap(domain.control_base, Areas(domain.slots).size);
  munmap(domain.base, domain.mapped);
  domain.base = nullptr;
  domain.mapped = 0;
}

// The last steps of creating and joining: a lock of our own, a row, a spare description. Files and mappings are in place.
static const char* enter() {
  domain.lock = open_description();
  if (domain.lock < 0) return because("cannot reopen the control file through /proc/self/fd");
  struct stat st;
  if (fstat(domain.lock, &st) != 0) return because("cannot stat the control file");
  domain.lock_dev = st.st_dev;
  domain.lock_ino = st.st_ino;
  int probe = try_lock(domain.lock, int(kRows));
  if (probe == EINVAL) return because("this kernel has no open-file-description locks (F_OFD_SETLK), which tell who is alive");
  if (probe == 0) unlock_row(domain.lock, int(kRows));
  int row = claim_row(domain.lock, kRowLive);
  if (row < 0) {
    snprintf(why, sizeof why, "all %u rows are taken by living processes", kRows);
    return why;
  }
  domain.row = row;
  domain.inc = inc_of_row(domain.rows[row].state.load(relaxed));
  identify_row(row);
  domain.spare = open_description();  // -1 is no harm: the next fork opens its own
  domain.shared = domain.mapped;
  domain.ready.store(true, release);
  fault("domain.entered");
  return nullptr;
}

static void leave_files() {
  for (int* fd : {&domain.control, &domain.volume[0], &domain.volume[1], &domain.lock, &domain.spare}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

// Ledger mutex held. volume0: descriptor to use for volume 0, or -1.
static const char* create(int volume0) {
  if (access("/proc/self/fd", X_OK) != 0) {
    if (volume0 >= 0) close(volume0);
    return because("needs /proc (it tells who is alive and reopens the control file)");
  }
  domain.volume[0] = high_descriptor(volume0 >= 0 ? volume0 : memfd_create("shmtensor-volume0", MFD_CLOEXEC));
  domain.volume[1] = high_descriptor(memfd_create("shmtensor-volume1", MFD_CLOEXEC));
  domain.control = high_descriptor(memfd_create(kControlName, MFD_CLOEXEC));
  const char* bad = nullptr;
  if (domain.volume[0] < 0 || domain.volume[1] < 0 || domain.control < 0) bad = because("cannot make anonymous files");
  uint32_t S = slots_for_this_machine();
  for (; !bad; S /= 2) {
    // Sparse, so a smaller address-space limit only costs slots. Room for one probe byte per row and more.
    if (ftruncate(domain.control, off_t(Areas(S).size)) != 0 ||
        ftruncate(domain.volume[0], off_t(S / 2 * kSlotBytes)) != 0 ||
        ftruncate(domain.volume[1], off_t(S / 2 * kSlotBytes)) != 0) {
      bad = because("cannot size the sparse files (a limit on file size, ulimit -f?)");
      break;
    }
    bad = map_domain(domain.control, domain.volume, S);
    if (!bad) break;
    if (S > kLeastSlots) bad = nullptr;
    else break;
  }
  if (!bad) {
    fchmod(domain.control, 0600);
    fchmod(domain.volume[0], 0600);
    fchmod(domain.volume[1], 0600);
    Header* h = domain.header;
    if (getrandom(h->id, sizeof h->id, 0) != sizeof h->id) bad = because("getrandom");
    memcpy(domain.id, h->id, sizeof domain.id);
    h->version = kLayoutVersion;
    h->rows = kRows;
    h->slots = S;
    h->blocks = kBlocks;
    memcpy(h->magic, kMagic, sizeof kMagic);
    if (!bad) bad = enter();
    if (bad) unmap_domain();
  }
  if (bad) leave_files();
  return bad;
}

// ---- joining
static const char* check_files(const int fds[3], const uint8_t* id) {
  Header h;
  struct stat st;
  if (fstat(fds[0], &st) != 0) return because("its control file is not open here");
  if (pread(fds[0], &h, sizeof h, 0) != ssize_t(sizeof h) || memcmp(h.magic, kMagic, sizeof kMagic) != 0) {
    snprintf(why, sizeof why, "descriptor %d is no control file of a domain", fds[0]);
    return why;
  }
  if (h.version != kLayoutVersion || h.rows != kRows || h.blocks != kBlocks || h.slots > kMostSlots ||
      size_t(st.st_size) != Areas(h.slots).size) {
    snprintf(why, sizeof why, "it has layout version %u, this process speaks %u", h.version, kLayoutVersion);
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
  if (domain.control < 0 || domain.volume[0] < 0 || domain.volume[1] < 0) bad = because("cannot duplicate its descriptors");
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
    return "this process already belongs to another domain (it made one by allocating or forking before it could join)";
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
  return snprintf(text, n, "1:%s:%d:%d,%d,%d", hex, int(getpid()), domain.control, domain.volume[0], domain.volume[1]);
}

// SHMTENSOR_DOMAIN=1:<id>:<pid>:<control>,<volume 0>,<volume 1>: descriptors of that number inherited by this process, else
// opened through /proc/<pid>/fd. "new": a domain of its own, whoever started it.
static const char* join_environment(const char* text) {
  uint8_t id[16];
  int pid, fds[3];
  if (strlen(text) < 40 || text[0] != '1' || text[1] != ':' || !parse_hex(text + 2, id) ||
      sscanf(text + 34, ":%d:%d,%d,%d", &pid, &fds[0], &fds[1], &fds[2]) != 4) {
    snprintf(why, sizeof why, "SHMTENSOR_DOMAIN is not what domain_environment() wrote: %.100s", text);
    return why;
  }
  if (!check_files(fds, id)) return join(fds, id);
  if (const char* bad = join_member(pid, fds, id)) {
    char reason[200];
    snprintf(reason, sizeof reason, "%s", bad);
    snprintf(why, sizeof why, "cannot join the domain named by SHMTENSOR_DOMAIN=%s: %s; unset it to start a new one", text, reason);
    return why;
  }
  return nullptr;
}

// Note [Plain spawn]: the standard library's spawned child knows nothing of us, but its command line says what it is, and
// its parent's descriptors lead to the parent's domain. Any other program starts a domain of its own.
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
    if (strncmp(target, "/memfd:shmtensor-control", 24) == 0 && numbers[0] < 0) numbers[0] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume0", 24) == 0 ||
             strncmp(target, "/dev/shm/shmtensor-", 19) == 0) numbers[1] = number;
    else if (strncmp(target, "/memfd:shmtensor-volume1", 24) == 0) numbers[2] = number;
  }
  closedir(d);
  return numbers[0] >= 0 && numbers[1] >= 0 && numbers[2] >= 0 && !join_member(parent, numbers, nullptr);
}

static const char* open_domain(int volume0) {  // ledger mutex held
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

bool domain_ensure() {
  if (domain_ready()) return true;
  const char* named = getenv("SHMTENSOR_DOMAIN");
  int volume0 = -1;
  if (!named || !*named || strcmp(named, "new") == 0) {
    sweep_names();
    volume0 = volume_from_posix_ipc();
  }
  char text[sizeof why];
  {
    Locked lock;
    if (domain_ready()) {
      if (volume0 >= 0) close(volume0);
      return true;
    }
    const char* bad = open_domain(volume0);
    if (!bad) return true;
    snprintf(text, sizeof text, "%s", bad);
  }
  raise("DomainError", "domain: %s", text);
  return false;
}

bool domain_ensure_quiet() {
  if (domain_ready()) return true;
  if (Py_IsInitialized() && PyGILState_Check()) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool good = domain_ensure();
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return good;
  }
  sweep_names();
  Locked lock;
  return domain_ready() || !open_domain(volume_from_libc());
}

}  // namespace shmtensor
