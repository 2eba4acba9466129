// Liveness: who holds a row, in both modes.
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
static uint64_t name_of(int pid, uint64_t start) {
  return start << kPidBits | (uint64_t(pid) & ((1u << kPidBits) - 1));
}
static int pid_of(uint64_t name) { return int(name & ((1u << kPidBits) - 1)); }

// Dead only if no thread of it can run: gone, another process, or a zombie without further threads
// (its address space went before it became one). A process that is exiting is Doomed.
Life life_of_name(uint64_t name) {
  char state;
  unsigned long flags = 0;
  uint64_t start = 0;
  long threads = 0;
  int pid = pid_of(name);
  if (!read_process(pid, &state, &flags, &start, &threads))  // no descriptor free, or hidepid?
    return kill(pid, 0) != 0 && errno == ESRCH ? Life::Dead : Life::Alive;
  if (name_of(pid, start) != name || state == 'X') return Life::Dead;
  if (state == 'Z') return threads <= 1 ? Life::Dead : Life::Doomed;
  return flags & 0x4 ? Life::Doomed : Life::Alive;  // PF_EXITING
}

int maps_control(const Domain& d, int pid) {
  char path[40], text[4096], wanted[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  snprintf(wanted, sizeof wanted, "%02x:%02x %llu ", major(d.lock_dev), minor(d.lock_dev),
           static_cast<unsigned long long>(d.lock_ino));
  size_t kept = 0;
  bool found = false, any = false;
  ssize_t n = 0;
  while (!found && (n = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
    any = true;
    text[kept + size_t(n)] = 0;
    found = strstr(text, wanted) != nullptr;
    kept += size_t(n);
    size_t keep = kept < 100 ? kept : 100;  // the match may straddle two reads
    memmove(text, text + kept - keep, keep);
    kept = keep;
  }
  close(fd);
  return found ? 1 : any && n == 0 ? 0 : -1;
}

// ---- the mode
const char* check_liveness_environment() {
  const char* named = getenv("SHMTENSOR_LIVENESS");
  if (!named || !*named || strcmp(named, "locks") == 0 || strcmp(named, "process") == 0)
    return nullptr;
  snprintf(why, sizeof why, "SHMTENSOR_LIVENESS is neither \"locks\" nor \"process\": %.100s", named);
  return why;
}

const char* choose_liveness(Domain& d) {
  const char* named = getenv("SHMTENSOR_LIVENESS");
  d.lock = open_description(d);
  if (d.lock < 0) return because("cannot reopen the control file through /proc/self/fd");
  bool process = named && *named ? strcmp(named, "process") == 0
                                 : try_lock(d.lock, int(kRows)) == EINVAL;
  d.header->liveness = process ? kByProcess : kByLocks;
  d.header->pidns = own_pid_namespace();
  return nullptr;
}

// Where the kernel does not tell one pid namespace from another: a living member, found by its pid, start time and
// mapping, says that this process sees the namespace of the others.
static bool sees_member(Domain& d) {
  for (uint32_t r = 0; r < d.row_high(); ++r) {
    uint64_t name = d.rows[r].holder.load(acquire);
    if (name && life_of_name(name) == Life::Alive && maps_control(d, pid_of(name)) == 1) return true;
  }
  return false;
}

const char* take_name(Domain& d) {
  if (!by_process(d)) return nullptr;
  char self[32] = "", text[96];
  if (readlink("/proc/self", self, sizeof self - 1) < 0) return because("cannot read /proc/self");
  uint64_t here = own_pid_namespace();
  if (!here || here != d.header->pidns || atoi(self) != int(getpid())) {
    snprintf(text, sizeof text, "it is of pid namespace %llu and this process, pid %d, of %llu",
             static_cast<unsigned long long>(d.header->pidns), int(getpid()),
             static_cast<unsigned long long>(here));
    snprintf(why, sizeof why,
             "%s (/proc/self says pid %s): a domain whose members know each other's life by pid "
             "(statistics().liveness \"process\") has room for one pid namespace, with its own "
             "/proc",
             text, self);
    return why;
  }
  // A forked child (it has the parent's name) has the parent's /proc, too: the number above says enough. The founder
  // is the first to raise row_high.
  if (here == kUntoldNamespace && !d.name && d.row_high() && !sees_member(d)) {
    snprintf(why, sizeof why,
             "none of its members is to be seen in /proc: a domain whose members know each other's life by pid has room "
             "for one pid namespace");
    return why;
  }
  char state;
  unsigned long flags;
  uint64_t start;
  if (!read_process(int(getpid()), &state, &flags, &start))
    return because("cannot read /proc/self/stat");
  d.name = name_of(int(getpid()), start);
  return nullptr;
}

// ---- births
//
// Note [Birth]: a child's row bears its parent's name until the child's handler puts its own there.
// A pipe tells the parent whether that is still to come: both ends are made ahead of the fork; the
// parent keeps the one to read, the child the one to write, and closes it once it is named. End of
// file and still the parent's name: the fork failed, or the child died before it ran; the parent
// then has the row in hand. When the parent has died or left, nobody reads that pipe. Then
// unborn_may_live() looks for a process that has the domain mapped and no row: a child that is
// stopped or slow keeps what it inherited.
static bool still_unborn(Domain& d, int r) {  // tidies up, too
  int& fd = d.books->birth[r];
  if (!fd) return false;
  pollfd p = {fd - 1, POLLIN, 0};
  if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLNVAL))) return true;
  close(fd - 1);
  fd = 0;
  --d.books->births;
  return false;
}

bool open_birth(Domain& d) {
  if (!by_process(d)) {
    d.fork_lock = open_description(d);
    if (d.fork_lock < 0) {
      d.fork_lock = d.spare;
      d.spare = -1;
    }
    return d.fork_lock >= 0;
  }
  for (int r = 0; d.books->births && r < int(kRows); ++r) still_unborn(d, r);
  // Where children are in another pid namespace they cannot be told alive. (One that has no process
  // yet cannot be looked at; some kernels do not have the file.)
  const char* children = "/proc/thread-self/ns/pid_for_children";
  struct stat st;
  if (lstat(children, &st) == 0 && (stat(children, &st) != 0 || uint64_t(st.st_ino) != d.pidns))
    return false;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  d.fork_read = high_descriptor(fds[0]);
  d.fork_lock = high_descriptor(fds[1]);
  return true;
}

void parent_of_birth(Domain& d) {
  if (d.fork_lock >= 0) close(d.fork_lock);
  d.fork_lock = -1;
  if (d.fork_read >= 0 && d.fork_row >= 0) {
    d.books->birth[d.fork_row] = d.fork_read + 1;
    ++d.books->births;
  } else if (d.fork_read >= 0) {
    close(d.fork_read);
  }
  d.fork_read = -1;
}

void forget_births(Domain& d) {
  if (d.fork_read >= 0) close(d.fork_read);
  d.fork_read = -1;
  for (int r = 0; d.books->births && r < int(kRows); ++r)
    if (int& fd = d.books->birth[r]) {
      close(fd - 1);
      fd = 0;
      --d.books->births;
    }
}

[[noreturn]] static void die(const char* text) {
  if (write(2, text, strlen(text)) < 0) _exit(70);
  kill(getpid(), SIGKILL);
  _exit(70);
}

void child_of_birth(Domain& d) {
  forget_births(d);
  if (!by_process(d)) {
    close(d.lock);
    if (d.spare >= 0) close(d.spare);
    d.spare = -1;
    d.lock = d.fork_lock;
    d.fork_lock = -1;
    return;
  }
  uint64_t parent = d.name;
  if (take_name(d) || !swap_word(d.rows[d.fork_row].holder, parent, d.name))
    die("shmtensor: a forked child cannot be named in its row of the domain; what it inherited may "
        "be in use by others, so it ends\n");
  fault("fork.named");
  close(d.fork_lock);
  d.fork_lock = -1;
}

static bool is_named(Domain& d, uint64_t name) {
  for (uint32_t r = 0; r < d.row_high(); ++r)
    if (d.rows[r].holder.load(acquire) == name) return true;
  return false;
}

// May a child of `parent`, which is no member any more, be about to be named? A child started after its parent.
static bool unborn_may_live(Domain& d, uint64_t parent) {
  DIR* proc = opendir("/proc");
  if (!proc) return true;
  bool found = false;
  while (dirent* entry = found ? nullptr : readdir(proc)) {
    int pid = atoi(entry->d_name);
    char state;
    unsigned long flags;
    uint64_t start;
    if (pid <= 0 || !read_process(pid, &state, &flags, &start) || state == 'Z' || state == 'X' ||
        start < parent >> kPidBits)
      continue;
    // Looked at before its name: who is named afterwards is none the less found here.
    found = maps_control(d, pid) != 0 && !is_named(d, name_of(pid, start)) &&
            life_of_name(name_of(pid, start)) != Life::Dead;
  }
  closedir(proc);
  return found;
}

// ---- rows
static int obtain_by_name(Domain& d, int r, bool thorough) {
  Row& row = d.rows[r];
  uint64_t old = row.holder.load(acquire), word = row.state.load(acquire);
  bool watched = d.books->birth[r] != 0, unborn = still_unborn(d, r);
  if (old == d.name) {
    // The own row, or a child's (or from before an exec, or an earlier visit as a guest). A child's
    // name is looked at after the end of file: it was put there before.
    if (r == d.row || unborn || row.holder.load(acquire) != d.name) return EAGAIN;
    bool born = state_of_row(word) == kRowBorn;
    return born && !watched && unborn_may_live(d, old) ? EAGAIN : 0;
  }
  if (old) {
    if (row.frozen.load(relaxed) == inc_of_row(word) && state_of_row(word) != kRowFree)
      return EAGAIN;  // Note [Freeze]
    Life life = life_of_name(old);
    // Lives on as another program, or has left an unborn child here? Every member has a mapping.
    if (thorough && life == Life::Alive && maps_control(d, pid_of(old)) == 0)
      life = life_of_name(old) == Life::Doomed ? Life::Doomed : Life::Dead;
    if (life != Life::Dead) return EAGAIN;
    // Read again: the dead one may have taken the row and forked since the first look, and only what it wrote before it
    // died says so (tests/protocol/holder.pml, STATE_READ_EARLY).
    word = row.state.load(acquire);
    if (state_of_row(word) == kRowBorn && unborn_may_live(d, old)) return EAGAIN;
  }
  if (!swap_word(row.holder, old, d.name)) return EAGAIN;
  fence();
  fault("row.obtained");
  return 0;
}

int obtain_row(Domain& d, int fd, int row, bool thorough) {
  return by_process(d) ? obtain_by_name(d, row, thorough) : try_lock(fd, row);
}

void yield_row(Domain& d, int fd, int row) {
  if (by_process(d))
    d.rows[row].holder.store(0, release);
  else
    unlock_row(fd, row);
}

void leave_row(Domain& d) {
  if (!by_process(d) || d.rowless) return;
  forget_births(d);
  yield_row(d, -1, d.row);
  fault("guest.released");
}

Life life_by_name(const Row& row, RowState state) {
  uint64_t holder = row.holder.load(acquire);
  if (!holder) return Life::Dead;  // has left
  int pid = int(row.pid.load(acquire));
  Life life = life_of_name(holder);
  if (pid == 0) return life == Life::Dead && state != kRowBorn ? Life::Dead : Life::Alive;
  bool swept = holder != name_of(pid, row.start.load(relaxed));
  bool frozen = row.frozen.load(relaxed) == inc_of_row(row.state.load(relaxed));
  return swept || (frozen && life == Life::Dead) ? Life::Doomed : life;
}

}  // namespace shmtensor
