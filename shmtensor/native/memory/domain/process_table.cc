// Rows: the processes of the domain, alive or dead, and their exit codes.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

int open_description(Domain& d) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", d.control);
  return high_descriptor(open(path, O_RDWR | O_CLOEXEC));
}

static int lock_byte(int fd, int row, short type, int command, short* answer = nullptr) {
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = row;
  lock.l_len = 1;
  while (fcntl(fd, command, &lock) != 0)
    if (errno != EINTR) return errno;
  if (answer) *answer = lock.l_type;
  return 0;
}
Errno try_lock(int fd, int row) { return lock_byte(fd, row, F_WRLCK, F_OFD_SETLK); }
void unlock_row(int fd, int row) { lock_byte(fd, row, F_UNLCK, F_OFD_SETLK); }

// In gVisor each stat of the file has another inode number.
static uint64_t namespace_of(const char* file) {
  struct stat st, again;
  if (stat(file, &st) != 0 || stat(file, &again) != 0) return 0;
  return st.st_ino == again.st_ino ? uint64_t(st.st_ino) : kUntoldNamespace;
}
uint64_t own_pid_namespace() { return namespace_of("/proc/self/ns/pid"); }

// Note [Time namespace]: the kernel adds the reader's offsets to the start times in /proc, and to CLOCK_MONOTONIC. So a
// start time, or a time of the clock, that was recorded in another time namespace says nothing here: no death is concluded
// from it, and no message expires by it. In mode "process" all members are of one time namespace. The namespace is read
// anew where two start times differ, which is rare: setns() may have moved this process since it identified its row.
uint64_t own_time_namespace() { return namespace_of("/proc/self/ns/time"); }
bool can_compare_starts(uint64_t time_namespace) { return own_time_namespace() == time_namespace; }

char* read_stat(int pid, char (&text)[1024]) {
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return nullptr;
  text[n] = 0;
  char* p = strrchr(text, ')');  // the name may contain any character
  return p && p[1] ? p + 2 : nullptr;
}

bool read_process(int pid, char* state, unsigned long* flags, uint64_t* start, long* threads) {
  char text[1024];
  char* p = read_stat(pid, text);
  if (!p) return false;
  *state = *p;
  for (int field = 3; field < 22; ++field) {
    p = strchr(p, ' ');
    if (!p) return false;
    ++p;
    if (field + 1 == 9) *flags = strtoul(p, nullptr, 10);
    if (field + 1 == 20 && threads) *threads = strtol(p, nullptr, 10);
  }
  *start = strtoull(p, nullptr, 10);
  return true;
}

void identify_row(Domain& d, int row) {
  Row& r = d.rows[row];
  char state;
  unsigned long flags;
  uint64_t start = 0;
  read_process(int(getpid()), &state, &flags, &start);
  r.start.store(start, relaxed);
  r.profile.store(0, relaxed);
  d.pidns = own_pid_namespace();
  d.timens = own_time_namespace();
  r.pidns.store(d.pidns, relaxed);
  r.timens.store(d.timens, relaxed);
  r.pid.store(uint32_t(getpid()), release);
}

int claim_row(Domain& d, int fd, RowState state) {
  for (bool under_pressure : {false, true}) {
    for (int r = 0; r < int(kRows); ++r) {
      if (r == d.row || !obtain_row(d, fd, r, under_pressure)) continue;
      Row& row = d.rows[r];
      if (state_of_row(row.state.load(acquire)) != kRowFree && !d.read_only) {
        sweep_row(d, r);
        settle_row(d, r, under_pressure);
      }
      uint64_t word = row.state.load(acquire);
      if (state_of_row(word) != kRowFree) {
        yield_row(d, fd, r);
        fault("row.yielded");
        continue;
      }
      fault("row.locked");
      row.pid.store(0, relaxed);
      row.start.store(0, relaxed);
      row.in_flight_high.store(0, relaxed);
      memset(row.role, 0, sizeof row.role);
      row.state.store(row_word_of(inc_of_row(word) + 1, state), release);
      fault("row.stated");
      uint32_t high = d.header->row_high.load(relaxed);
      while (high < uint32_t(r) + 1 &&
             !d.header->row_high.compare_exchange_weak(high, uint32_t(r) + 1, std::memory_order_acq_rel)) {
      }
      fault("row.claimed");
      return r;
    }
  }
  return -1;
}

// ---- liveness
Liveness liveness_of(Domain& d, int row, uint32_t inc, bool use_proc) {
  if (row < 0 || row >= int(kRows) || !d.ready.load(acquire)) return Liveness::Dead;
  bool shares_lock = row == d.row;  // the own row, or, in a process without a row, its parent's (Note [Freeze])
  if (shares_lock && !d.rowless) return inc == d.inc ? Liveness::Alive : Liveness::Dead;
  Row& r = d.rows[row];
  uint64_t word = r.state.load(acquire);
  if (inc_of_row(word) != inc || state_of_row(word) == kRowFree || state_of_row(word) == kRowZombie) return Liveness::Dead;
  if (by_process(d)) {
    Liveness liveness = liveness_by_name(d, r, state_of_row(word));
    return r.state.load(acquire) == word ? liveness : liveness_of(d, row, inc, use_proc);
  }
  short answer = F_WRLCK;
  if (!shares_lock && lock_byte(d.lock, row, F_WRLCK, F_OFD_GETLK, &answer) == 0 && answer == F_UNLCK) return Liveness::Dead;
  if (!use_proc) return Liveness::Alive;
  int pid = int(r.pid.load(acquire));
  if (pid == 0) return Liveness::Alive;  // forked, but its fork handler has not run yet
  if (d.pidns == 0 || r.pidns.load(relaxed) != d.pidns) return Liveness::Alive;
  Liveness liveness = liveness_of_process(pid, r.start.load(relaxed), r.timens.load(relaxed));
  if (r.state.load(acquire) != word) return liveness_of(d, row, inc);  // it has changed meanwhile
  return liveness == Liveness::Alive ? Liveness::Alive : Liveness::Doomed;  // its lock is not free yet
}

// ---- exit codes
static constexpr int kCodeBias = 1 << 30;

static bool record_exit(Domain& d, int row, uint32_t inc, int code) {
  if (row < 0 || row >= int(kRows) || !d.ready.load(acquire)) return false;
  Word& exit = d.rows[row].exit;
  uint64_t word = uint64_t(inc) << 32 | 1u << 31 | uint32_t(code + kCodeBias);
  uint64_t old = exit.load(acquire);
  while (!(old >> 31 & 1) || (old >> 32) < inc)
    if (exit.compare_exchange_weak(old, word, std::memory_order_acq_rel)) {
      fault("exit.recorded");
      return true;
    }
  return false;  // recorded already, or the row has another incarnation
}

bool record_exit(int row, uint32_t inc, int code) { return record_exit(domain, row, inc, code); }

bool record_exit_pid(int pid, int code) {
  if (!domain_ready()) return false;
  for (uint32_t r = 0; r < row_high(); ++r) {
    Row& row = domain.rows[r];
    uint64_t word = row.state.load(acquire);
    if (int(r) == domain.row || int(row.pid.load(acquire)) != pid || row.pidns.load(relaxed) != domain.pidns) continue;
    if (liveness_of(int(r), inc_of_row(word)) == Liveness::Alive) continue;
    if (record_exit(int(r), inc_of_row(word), code)) return true;
  }
  return false;
}

static bool read_exit_code(const Domain& d, int row, uint32_t inc, int* code) {
  uint64_t word = d.rows[row].exit.load(acquire);
  if (!(word >> 31 & 1) || uint32_t(word >> 32) != inc) return false;
  *code = int(uint32_t(word) & 0x7FFFFFFF) - kCodeBias;
  return true;
}

// The exit code of a process whose parent has not reaped it, from /proc.
static bool read_zombie_code(int pid, int* code) {
  char text[1024];
  const char* p = read_stat(pid, text);
  if (!p || (*p != 'Z' && *p != 'X')) return false;
  for (int field = 3; field < 52; ++field) {
    p = strchr(p, ' ');
    if (!p) return false;
    ++p;
  }
  int status = atoi(p);  // 0 also if the kernel does not tell: then nothing is known
  if (!status) return false;
  *code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return true;
}

// The exit code of a dead child of this process, without reaping it.
static bool peek_exit_code(int pid, int* code) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (pid <= 0 || waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) return false;
  *code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  return true;
}

static const char* signal_name(int number) {
  static const struct {
    int number;
    const char* name;
  } signals[] = {{SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"},
                 {SIGBUS, "SIGBUS"},   {SIGINT, "SIGINT"},   {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
                 {SIGHUP, "SIGHUP"},   {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGALRM, "SIGALRM"},
                 {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}};
  for (auto& k : signals)
    if (k.number == number) return k.name;
  return "a signal";
}

void set_role(Domain& d, const char* role) {
  if (d.rowless) return;
  char* role_bytes = d.rows[d.row].role;
  size_t n = strnlen(role, sizeof d.rows[0].role - 1);
  memcpy(role_bytes, role, n);
  memset(role_bytes + n, 0, sizeof d.rows[0].role - n);
}

bool describe_peer(Domain& d, int row, uint32_t inc, char* text, size_t n, int* pid, int* exit_code, bool* code_known) {
  *pid = 0;
  *exit_code = 0;
  *code_known = false;
  if (row < 0 || row >= int(kRows) || !d.ready.load(acquire)) {
    snprintf(text, n, "a process outside the domain (row %d)", row);
    return false;
  }
  Row& r = d.rows[row];
  char role[sizeof r.role];
  memcpy(role, r.role, sizeof role);
  role[sizeof role - 1] = 0;
  *pid = int(r.pid.load(acquire));
  bool same_namespace = r.pidns.load(relaxed) == d.pidns;
  Liveness liveness = liveness_of(d, row, inc);
  if (inc_of_row(r.state.load(acquire)) != inc) {
    *pid = 0;
    *code_known = read_exit_code(d, row, inc, exit_code);
    snprintf(text, n, "a process that has left (row %d)", row);
    return true;
  }
  *code_known = read_exit_code(d, row, inc, exit_code);
  if (!*code_known && liveness != Liveness::Alive && same_namespace &&
      (peek_exit_code(*pid, exit_code) || read_zombie_code(*pid, exit_code))) {
    *code_known = true;
    record_exit(d, row, inc, *exit_code);
  }
  char who[160];
  if (role[0]) snprintf(who, sizeof who, "%s (pid %d)", role, *pid);
  else if (*pid) snprintf(who, sizeof who, "process %d", *pid);
  else snprintf(who, sizeof who, "a process that was just forked (row %d)", row);
  if (liveness == Liveness::Alive && !*code_known) snprintf(text, n, "%s is alive", who);
  else if (!*code_known) snprintf(text, n, "%s has died, exit code unknown", who);
  else if (*exit_code < 0) {
    snprintf(text, n, "%s was killed by %s (%d)", who, signal_name(-*exit_code), *exit_code);
  } else snprintf(text, n, "%s has exited with code %d", who, *exit_code);
  return true;
}

static PyObject* raise_peer_lost_error(const Domain& d, const char* where, const char* text, int row, uint32_t inc, int pid,
                                       const int* code) {
  char message[420], name[64] = "";
  if (row >= 0 && row < int(kRows) && inc_of_row(d.rows[row].state.load(acquire)) == inc)
    memcpy(name, d.rows[row].role, sizeof name - 1);
  snprintf(message, sizeof message, "%s: %s", where, text);
  PyObject* errors = PyImport_ImportModule("shmtensor.errors");
  PyObject* type = errors ? PyObject_GetAttrString(errors, "PeerLostError") : nullptr;
  PyObject* error = nullptr;
  if (type) {
    error = code ? PyObject_CallFunction(type, "ssii", message, name, pid, *code)
                 : PyObject_CallFunction(type, "ssiO", message, name, pid, Py_None);
    if (error) PyErr_SetObject(type, error);
  }
  Py_XDECREF(error);
  Py_XDECREF(type);
  Py_XDECREF(errors);
  return nullptr;
}

PyObject* raise_peer_lost(Domain& d, const char* where, int row, uint32_t inc) {
  char text[320];
  int pid = 0, code = 0;
  bool has_code = false;
  // Waits at most 200 ms for the parent to reap it and record the code.
  {
    Unlocked unlocked;
    for (useconds_t waited = 0, step = 250; waited < 200000;) {
      describe_peer(d, row, inc, text, sizeof text, &pid, &code, &has_code);
      if (has_code) break;
      usleep(step);
      waited += step;
      step = step < 4000 ? 2 * step : 5000;
    }
  }
  return raise_peer_lost_error(d, where, text, row, inc, pid, has_code ? &code : nullptr);
}

PyObject* raise_peer_lost(Domain& d, const char* where, int row, uint32_t inc, const char* text) {
  return raise_peer_lost_error(d, where, text, row, inc, int(d.rows[row].pid.load(acquire)), nullptr);
}

bool is_stopped(Domain& d, int row, uint32_t inc) {
  Row& r = d.rows[row];
  if (r.pidns.load(relaxed) != d.pidns || inc_of_row(r.state.load(acquire)) != inc) return false;
  char text[1024];
  const char* state = read_stat(int(r.pid.load(acquire)), text);
  return state && (*state == 'T' || *state == 't');
}

// A library may have closed the descriptor of our lock; then other processes cannot see that we are alive.
const char* check_descriptor(Domain& d, uint64_t now) {
  if (d.share_error || now - d.checked_ms < 100 || by_process(d)) return d.share_error;
  d.checked_ms = now;
  struct stat st;
  if (fstat(d.lock, &st) != 0 || st.st_dev != d.lock_dev || st.st_ino != d.lock_ino)
    d.share_error =
        "a library closed this process's lock on the domain (a descriptor that it did not own); it "
        "can no longer share tensors";
  return d.share_error;
}

}  // namespace shmtensor
