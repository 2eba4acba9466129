// Which process holds a row, in both modes.
#include "memory/domain/liveness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- names: pid (the kernel's limit is 2^22) and start time in clock ticks (1,393 years)
constexpr int kPidBits = 22;
static uint64_t name_of(int pid, uint64_t start) { return start << kPidBits | (uint64_t(pid) & ((1u << kPidBits) - 1)); }
static int pid_of(uint64_t name) { return int(name & ((1u << kPidBits) - 1)); }
static uint64_t start_of(uint64_t name) { return name >> kPidBits; }

// Where the start time of the pid's process is another one, and cannot be compared, that process may be another one, too.
// The answer holds nevertheless: then the process in question does not exist any more.
Liveness liveness_of_process(int pid, uint64_t start, uint64_t timens) {
  char state;
  unsigned long flags = 0;
  uint64_t start_of_pid = 0;
  long threads = 0;
  if (!read_process(pid, &state, &flags, &start_of_pid, &threads))  // no descriptor free, or hidepid?
    return kill(pid, 0) != 0 && errno == ESRCH ? Liveness::Dead : Liveness::Alive;
  if (start_of_pid != start && can_compare_starts(timens)) return Liveness::Dead;
  if (state == 'X') return Liveness::Dead;
  if (state == 'Z') return threads <= 1 ? Liveness::Dead : Liveness::Doomed;
  return flags & 0x4 ? Liveness::Doomed : Liveness::Alive;  // PF_EXITING
}

Liveness liveness_of_name(const Domain& d, uint64_t name) {
  return liveness_of_process(pid_of(name), start_of(name), d.header->timens);
}

Mapped maps_control(const Domain& d, int pid) {
  char path[40], text[4096], pattern[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Mapped::Unknown;
  snprintf(pattern, sizeof pattern, "%02x:%02x %llu ", major(d.lock_dev), minor(d.lock_dev),
           static_cast<unsigned long long>(d.lock_ino));
  size_t length = 0;
  bool found = false, has_data = false;
  ssize_t n = 0;
  while (!found && (n = read(fd, text + length, sizeof text - 1 - length)) > 0) {
    has_data = true;
    text[length + size_t(n)] = 0;
    found = strstr(text, pattern) != nullptr;
    length += size_t(n);
    size_t tail = length < 100 ? length : 100;  // the match may straddle two reads
    memmove(text, text + length - tail, tail);
    length = tail;
  }
  close(fd);
  return found ? Mapped::Yes : has_data && n == 0 ? Mapped::No : Mapped::Unknown;
}

// ---- the mode
const char* check_liveness_environment() {
  const char* setting = getenv("SHMTENSOR_LIVENESS");
  if (!setting || !*setting || strcmp(setting, "locks") == 0 || strcmp(setting, "process") == 0) return nullptr;
  return error_with("SHMTENSOR_LIVENESS is neither \"locks\" nor \"process\": %.100s", setting);
}

const char* choose_liveness(Domain& d) {
  const char* setting = getenv("SHMTENSOR_LIVENESS");
  d.lock = open_description(d);
  if (d.lock < 0) return with_errno("cannot reopen the control file through /proc/self/fd");
  bool process = setting && *setting ? strcmp(setting, "process") == 0 : try_lock(d.lock, int(kRows)) == EINVAL;
  d.header->liveness = process ? kByProcess : kByLocks;
  d.header->pidns = own_pid_namespace();
  d.header->timens = own_time_namespace();
  return nullptr;
}

// For kernels that do not distinguish pid namespaces: if a living member can be found by pid, start time and mapping,
// this process is in its namespace.
static bool sees_member(Domain& d) {
  for (uint32_t r = 0; r < d.row_high(); ++r) {
    uint64_t name = d.rows[r].holder.load(acquire);
    if (name && liveness_of_name(d, name) == Liveness::Alive && maps_control(d, pid_of(name)) == Mapped::Yes) return true;
  }
  return false;
}

const char* set_process_name(Domain& d) {
  if (!by_process(d)) return nullptr;
  char self[32] = "", text[96];
  if (readlink("/proc/self", self, sizeof self - 1) < 0) return with_errno("cannot read /proc/self");
  uint64_t own_namespace = own_pid_namespace();
  if (!own_namespace || own_namespace != d.header->pidns || atoi(self) != int(getpid())) {
    snprintf(text, sizeof text, "it is of pid namespace %llu and this process, pid %d, of %llu",
             static_cast<unsigned long long>(d.header->pidns), int(getpid()),
             static_cast<unsigned long long>(own_namespace));
    return error_with(
        "%s (/proc/self says pid %s): a domain whose members detect deaths by pid "
        "(statistics().liveness \"process\") is limited to one pid namespace, with its own "
        "/proc",
        text, self);
  }
  uint64_t own_time = own_time_namespace();
  if (own_time != d.header->timens)
    return error_with(
        "it is of time namespace %llu and this process, pid %d, of %llu, where the kernel reports other start times: "
        "a domain whose members detect deaths by pid and start time (statistics().liveness \"process\") is limited to "
        "one time namespace",
        static_cast<unsigned long long>(d.header->timens), int(getpid()), static_cast<unsigned long long>(own_time));
  // A forked child (it has the parent's name) also has the parent's /proc: the check above suffices. The founder is the
  // first to raise row_high.
  if (own_namespace == kUntoldNamespace && !d.name && d.row_high() && !sees_member(d))
    return error_with(
        "none of its members is in this /proc: a domain whose members detect deaths by pid is limited to one pid "
        "namespace");
  char state;
  unsigned long flags;
  uint64_t start;
  if (!read_process(int(getpid()), &state, &flags, &start)) return with_errno("cannot read /proc/self/stat");
  d.name = name_of(int(getpid()), start);
  return nullptr;
}

// ---- fork pipes
//
// Note [Fork pipe]: a child's row has its parent's name until the child's fork handler enters its own. A pipe, created
// before the fork, tells the parent whether that is still to come: the parent keeps the read end; the child closes the
// write end once it has entered its name. End of file while the row has the parent's name means that the fork failed or
// the child died before it ran; the row then belongs to the parent. If the parent has died or left, nobody reads the
// pipe. Then unstarted_child_may_exist() searches for a process that has mapped the domain and has no row, so that a
// stopped or slow child keeps its inherited holds.
static bool is_fork_pending(Domain& d, int r) {  // also closes a finished pipe
  int& fd = d.local->fork_pipe[r];
  if (!fd) return false;
  pollfd p = {fd - 1, POLLIN, 0};
  if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLNVAL))) return true;
  close(fd - 1);
  fd = 0;
  --d.local->n_fork_pipes;
  return false;
}

// Children in another pid or time namespace cannot be detected. (A pid namespace without process cannot be examined; some
// kernels lack the file.)
static bool is_namespace_of_children(const char* file, uint64_t own) {
  struct stat st;
  return own == kUntoldNamespace || lstat(file, &st) != 0 || (stat(file, &st) == 0 && uint64_t(st.st_ino) == own);
}

bool prepare_fork(Domain& d) {
  if (!by_process(d)) {
    d.fork_lock = open_description(d);
    if (d.fork_lock < 0) {
      d.fork_lock = d.spare;
      d.spare = -1;
    }
    return d.fork_lock >= 0;
  }
  for (int r = 0; d.local->n_fork_pipes && r < int(kRows); ++r) is_fork_pending(d, r);
  if (!is_namespace_of_children("/proc/thread-self/ns/pid_for_children", d.pidns) ||
      !is_namespace_of_children("/proc/thread-self/ns/time_for_children", d.timens))
    return false;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  d.fork_read = high_descriptor(fds[0]);
  d.fork_lock = high_descriptor(fds[1]);
  return true;
}

void finish_fork_in_parent(Domain& d) {
  if (d.fork_lock >= 0) close(d.fork_lock);
  d.fork_lock = -1;
  if (d.fork_read >= 0 && d.fork_row >= 0) {
    d.local->fork_pipe[d.fork_row] = d.fork_read + 1;
    ++d.local->n_fork_pipes;
  } else if (d.fork_read >= 0) {
    close(d.fork_read);
  }
  d.fork_read = -1;
}

void close_fork_pipes(Domain& d) {
  if (d.fork_read >= 0) close(d.fork_read);
  d.fork_read = -1;
  for (int r = 0; d.local->n_fork_pipes && r < int(kRows); ++r)
    if (int& fd = d.local->fork_pipe[r]) {
      close(fd - 1);
      fd = 0;
      --d.local->n_fork_pipes;
    }
}

[[noreturn]] static void die(const char* text) {
  if (write(2, text, strlen(text)) < 0) _exit(70);
  kill(getpid(), SIGKILL);
  _exit(70);
}

void finish_fork_in_child(Domain& d) {
  close_fork_pipes(d);
  if (!by_process(d)) {
    close(d.lock);
    if (d.spare >= 0) close(d.spare);
    d.spare = -1;
    d.lock = d.fork_lock;
    d.fork_lock = -1;
    return;
  }
  uint64_t parent = d.name;
  if (set_process_name(d) || !swap_word(d.rows[d.fork_row].holder, parent, d.name))
    die("shmtensor: a forked child cannot enter its name in its row of the domain; other processes "
        "may use what it inherited, so it ends\n");
  fault("fork.named");
  close(d.fork_lock);
  d.fork_lock = -1;
}

static bool is_named(Domain& d, uint64_t name) {
  for (uint32_t r = 0; r < d.row_high(); ++r)
    if (d.rows[r].holder.load(acquire) == name) return true;
  return false;
}

// Whether a child of `parent`, which is not a member any more, may be about to enter its name. A child starts after its
// parent.
static bool unstarted_child_may_exist(Domain& d, uint64_t parent) {
  DIR* proc = opendir("/proc");
  if (!proc) return true;
  bool exists = false;
  while (dirent* entry = exists ? nullptr : readdir(proc)) {
    int pid = atoi(entry->d_name);
    char state;
    unsigned long flags;
    uint64_t start;
    if (pid <= 0 || !read_process(pid, &state, &flags, &start) || state == 'Z' || state == 'X' || start < start_of(parent))
      continue;
    // The mapping is read before the names: a process that enters its name in between is still detected.
    exists = maps_control(d, pid) != Mapped::No && !is_named(d, name_of(pid, start)) &&
             liveness_of_name(d, name_of(pid, start)) != Liveness::Dead;
  }
  closedir(proc);
  return exists;
}

// ---- rows
static bool obtain_by_name(Domain& d, int r, bool thorough) {
  Row& row = d.rows[r];
  uint64_t old = row.holder.load(acquire), word = row.state.load(acquire);
  bool has_pipe = d.local->fork_pipe[r] != 0, is_pending = is_fork_pending(d, r);
  if (old == d.name) {
    // The own row, or a child's, or one from before an exec or from an earlier time as a guest. The holder is read again
    // after the end of file, because a child enters its name before it closes the pipe.
    if (r == d.row || is_pending || row.holder.load(acquire) != d.name) return false;
    bool is_born = state_of_row(word) == kRowBorn;
    return !(is_born && !has_pipe && unstarted_child_may_exist(d, old));
  }
  if (old) {
    if (row.frozen.load(relaxed) == inc_of_row(word) && state_of_row(word) != kRowFree) return false;  // Note [Freeze]
    Liveness liveness = liveness_of_name(d, old);
    // Has it executed another program, or left an unstarted child? Every member has the mapping.
    if (thorough && liveness == Liveness::Alive && maps_control(d, pid_of(old)) == Mapped::No)
      liveness = liveness_of_name(d, old) == Liveness::Doomed ? Liveness::Doomed : Liveness::Dead;
    if (liveness != Liveness::Dead) return false;
    // Read again: the dead process may have obtained the row and forked since the first read, which only its last writes
    // show (tests/protocol/holder.pml, STATE_READ_EARLY).
    word = row.state.load(acquire);
    if (state_of_row(word) == kRowBorn && unstarted_child_may_exist(d, old)) return false;
  }
  if (!swap_word(row.holder, old, d.name)) return false;
  fence();
  fault("row.obtained");
  return true;
}

bool obtain_row(Domain& d, int fd, int row, bool thorough) {
  return by_process(d) ? obtain_by_name(d, row, thorough) : try_lock(fd, row) == 0;
}

void yield_row(Domain& d, int fd, int row) {
  if (by_process(d)) d.rows[row].holder.store(0, release);
  else unlock_row(fd, row);
}

void leave_row(Domain& d) {
  if (!by_process(d) || d.rowless) return;
  close_fork_pipes(d);
  yield_row(d, -1, d.row);
  fault("guest.released");
}

Liveness liveness_by_name(const Domain& d, const Row& row, RowState state) {
  uint64_t holder = row.holder.load(acquire);
  if (!holder) return Liveness::Dead;  // has left
  int pid = int(row.pid.load(acquire));
  Liveness liveness = liveness_of_name(d, holder);
  if (pid == 0) return liveness == Liveness::Dead && state != kRowBorn ? Liveness::Dead : Liveness::Alive;
  bool is_swept = holder != name_of(pid, row.start.load(relaxed));
  bool is_frozen = row.frozen.load(relaxed) == inc_of_row(row.state.load(relaxed));
  return is_swept || (is_frozen && liveness == Liveness::Dead) ? Liveness::Doomed : liveness;
}

}  // namespace shmtensor
