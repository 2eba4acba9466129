// The domain: created at the first allocation or fork; its files and mappings.
#include "memory/domain/domain.h"

#include "python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/heap/huge_pages.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

Domain domain;
pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER, ledger_mutex = PTHREAD_MUTEX_INITIALIZER;

const char kMagic[8] = {'s', 'h', 'm', 't', 'n', 's', 'r', '\n'};

// The text of this thread's last error.
thread_local char error_text[400];
const char* with_errno(const char* what) { return error_with("%s: %s", what, strerror(errno)); }

const char* error_with(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_text, sizeof error_text, format, values);
  va_end(values);
  return error_text;
}

// Above the numbers that programs rely on, but below 64: every fork copies a larger descriptor table, and enlarging it
// costs 7 ms in a process with threads (the kernel waits for a grace period).
int high_descriptor(int fd) {
  if (fd < 0) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 48);
  if (high < 0) return fd;
  close(fd);
  return high;
}

// ---- volume 0: POSIX shared memory, unlinked before any page is committed
// Removes names that remain after a kill between opening and unlinking. No creator opens its name again, so that is safe
// at any time.
static void sweep_names() {
  DIR* d = opendir("/dev/shm");
  if (!d) return;
  while (dirent* entry = readdir(d)) {
    struct stat st;
    if (strncmp(entry->d_name, "shmtensor-", 10) == 0 && fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_uid == geteuid()) {
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

// Note [posix_ipc]: with the GIL, the first volume is created through posix_ipc. C code may call fork() without the GIL,
// and a fork needs the domain; then the same two system calls are made here.
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
    PyObject* result = PyObject_CallMethod(module, "unlink_shared_memory", "s", name);
    if (!result) PyErr_Clear();  // another process's sweep_names() was faster
    Py_XDECREF(result);
    PyObject* number = PyObject_GetAttrString(memory, "fd");
    if (number) fd = fcntl(int(PyLong_AsLong(number)), F_DUPFD_CLOEXEC, 0);
    Py_XDECREF(number);
    result = PyObject_CallMethod(memory, "close_fd", nullptr);
    Py_XDECREF(result);
  }
  Py_XDECREF(memory);
  Py_XDECREF(flags);
  Py_XDECREF(module);
  PyErr_Clear();  // without posix_ipc or /dev/shm both volumes are memfds
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
  uint32_t n = kMinSlots;
  while (n < kMaxSlots && n * kSlotBytes < 4 * ram) n *= 2;
  return n;
}

// Maps over the reservation at base, or over a guest's read-only mapping that becomes writable.
const char* map_volumes(Domain& d) {
  size_t half = d.slots / 2 * kSlotBytes;
  int access = d.read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  for (int v = 0; v < 2; ++v)
    if (mmap(d.base + v * half, half, access, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, d.volume[v], 0) == MAP_FAILED)
      return with_errno("cannot map a volume");
  d.advised = advise_huge(d.base, 2 * half);
  return nullptr;
}

const char* map_domain(Domain& d, uint32_t S) {
  Areas areas(S);
  void* c = mmap(nullptr, areas.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, d.control, 0);
  if (c == MAP_FAILED) return with_errno("cannot map the control file (a limit on address space, ulimit -v?)");
  madvise(c, areas.size, MADV_DONTDUMP);
  size_t half = S / 2 * kSlotBytes, total = 2 * half;
  void* reserve = mmap(nullptr, total + kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserve == MAP_FAILED) {
    with_errno("cannot reserve address space for the volumes (ulimit -v?)");
    munmap(c, areas.size);
    return error_text;
  }
  char* start = static_cast<char*>(reserve);
  char* base = reinterpret_cast<char*>((uintptr_t(start) + kSlotBytes - 1) & ~uintptr_t(kSlotBytes - 1));
  if (base != start) munmap(start, size_t(base - start));
  size_t tail = size_t(start + total + kSlotBytes - (base + total));
  if (tail) munmap(base + total, tail);
  d.base = base;
  d.slots = S;
  if (const char* error = map_volumes(d)) {
    munmap(base, total);
    munmap(c, areas.size);
    d.base = nullptr;
    return error;
  }
  d.control_base = static_cast<char*>(c);
  d.header = reinterpret_cast<Header*>(d.control_base);
  d.rows = reinterpret_cast<Row*>(d.control_base + areas.rows);
  d.slot = reinterpret_cast<Slot*>(d.control_base + areas.slots);
  d.nheld_base = d.control_base + areas.nheld;
  d.nheld_stride = (size_t(S) * 4 + 4095) & ~size_t(4095);
  d.words = reinterpret_cast<Word*>(d.control_base + areas.words);
  d.bits_base = d.control_base + areas.bits;
  d.in_flight = reinterpret_cast<InFlight*>(d.control_base + areas.in_flight);
  d.slabs = reinterpret_cast<DeviceSlab*>(d.control_base + areas.slabs);
  d.timelines = reinterpret_cast<Timeline*>(d.control_base + areas.timelines);
  d.mapped = total;
  return nullptr;
}

void unmap_domain(Domain& d) {
  munmap(d.control_base, Areas(d.slots).size);
  munmap(d.base, d.mapped);
  d.base = nullptr;
  d.mapped = 0;
}

// The last steps of creating and joining: own lock, row, spare description. Files and mappings exist.
const char* enter(Domain& d) {
  if (!d.local && !(d.local = new_local_ledger())) return with_errno("no memory");
  d.lock = open_description(d);
  if (d.lock < 0) return with_errno("cannot reopen the control file through /proc/self/fd");
  struct stat st;
  if (fstat(d.lock, &st) != 0) return with_errno("cannot stat the control file");
  d.lock_dev = st.st_dev;
  d.lock_ino = st.st_ino;
  if (const char* error = set_process_name(d)) return error;
  Errno probe = by_process(d) ? EAGAIN : try_lock(d.lock, int(kRows));
  if (probe == EINVAL)
    return with_errno("this kernel has no open-file-description locks (F_OFD_SETLK), which tell which process is alive");
  if (probe == 0) unlock_row(d.lock, int(kRows));
  int row = claim_row(d, d.lock, kRowLive);
  if (row < 0) return error_with("all %u rows are taken by living processes", kRows);
  d.row = row;
  d.inc = inc_of_row(d.rows[row].state.load(relaxed));
  identify_row(d, row);
  fault("domain.identified");
  if (!by_process(d)) d.spare = open_description(d);  // -1 is harmless: the next fork opens one
  d.shared = d.mapped;
  d.pressure_seen = d.header->pressure.load(relaxed);
  d.ready.store(true, release);
  fault("domain.entered");
  return nullptr;
}

void leave_files(Domain& d) {
  for (int* fd : {&d.control, &d.volume[0], &d.volume[1], &d.lock, &d.spare}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

static int sealable_file(const char* name) { return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); }

// No process, not even one that has the descriptor, can make the file shorter under the others' mappings (a SIGBUS for
// all of them). POSIX shared memory has no seals: F_ADD_SEALS fails for a volume 0 that is no memfd.
static void seal_size(int fd) { fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL); }

// Ledger mutex held. volume0: descriptor to use for volume 0, or -1.
const char* create(int volume0) {
  if (access("/proc/self/fd", X_OK) != 0) {
    if (volume0 >= 0) close(volume0);
    return with_errno("needs /proc (to tell which process is alive and to reopen the control file)");
  }
  domain.volume[0] = high_descriptor(volume0 >= 0 ? volume0 : sealable_file("shmtensor-volume0"));
  domain.volume[1] = high_descriptor(sealable_file("shmtensor-volume1"));
  domain.control = high_descriptor(sealable_file("shmtensor-control"));
  const char* error = nullptr;
  if (domain.volume[0] < 0 || domain.volume[1] < 0 || domain.control < 0) error = with_errno("cannot make anonymous files");
  uint32_t S = slots_for_this_machine();
  for (; !error; S /= 2) {
    // Sparse: with a smaller limit on address space there are fewer slots.
    if (ftruncate(domain.control, off_t(Areas(S).size)) != 0 ||
        ftruncate(domain.volume[0], off_t(S / 2 * kSlotBytes)) != 0 ||
        ftruncate(domain.volume[1], off_t(S / 2 * kSlotBytes)) != 0) {
      error = with_errno("cannot size the sparse files (a limit on file size, ulimit -f?)");
      break;
    }
    error = map_domain(domain, S);
    if (!error) break;
    if (S > kMinSlots) error = nullptr;
    else break;
  }
  if (!error) {
    for (int fd : {domain.control, domain.volume[0], domain.volume[1]}) {
      fchmod(fd, 0600);
      seal_size(fd);
    }
    Header* h = domain.header;
    if (getrandom(h->id, sizeof h->id, 0) != sizeof h->id) error = with_errno("getrandom");
    memcpy(domain.id, h->id, sizeof domain.id);
    h->version = kLayoutVersion;
    h->rows = kRows;
    h->slots = S;
    h->blocks = kBlocks;
    if (!error) error = choose_liveness(domain);
    memcpy(h->magic, kMagic, sizeof kMagic);
    fault("domain.made");
    if (!error) error = enter(domain);
    if (error) unmap_domain(domain);
  }
  if (error) leave_files(domain);
  return error;
}

bool domain_ensure() {
  if (domain_ready()) return true;
  const char* setting = getenv("SHMTENSOR_DOMAIN");
  int volume0 = -1;
  if (!setting || !*setting || strcmp(setting, "new") == 0) {
    sweep_names();
    volume0 = volume_from_posix_ipc();
  }
  char text[sizeof error_text];
  {
    Locked lock;
    if (domain_ready()) {
      if (volume0 >= 0) close(volume0);
      return true;
    }
    const char* error = open_domain(volume0);
    if (!error) return true;
    snprintf(text, sizeof text, "%s", error);
  }
  return raise("DomainError", "domain: %s", text);
}

bool domain_ensure_quiet() {
  if (domain_ready()) return true;
  if (Py_IsInitialized() && PyGILState_Check()) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool ok = domain_ensure();
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return ok;
  }
  sweep_names();
  Locked lock;
  return domain_ready() || !open_domain(volume_from_libc());
}

}  // namespace shmtensor
