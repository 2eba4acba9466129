// Timelines: how a stream of one process waits for the work of another (docs/design/cuda-memory.md, "Waits for a sender").
//
// A process numbers what it sends of a stream, and the GPU writes the number after the work. Who waits for a number looks at
// the word, or lets its stream wait until the GPU finds the number, or a later one, in it. The sweep of a dead process writes
// the last number in the GPU's place, so that no stream waits for ever, and notes which numbers were lost.
#include "memory/device/timelines.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "memory/inspect/fault_points.h"
#include "memory/ledger/ledger.h"
#include "methods.h"

namespace shmtensor {

namespace {

bool is_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

Timeline* timelines_of(Domain& d, uint32_t row) { return d.timelines + size_t(row) * kTimelines; }

bool is_idle(const Timeline& t) { return t.done.load(acquire) == t.issued.load(relaxed); }

// The dead process's GPU may have written a smaller number after the sweep, where no exit could be seen.
void write_lost(Timeline& t, uint32_t to) {
  uint32_t done = t.done.load(acquire);
  while (is_before(done, to) && !t.done.compare_exchange_weak(done, to, release, acquire)) {
  }
}

}  // namespace

void end_timelines(Domain& d, uint32_t row) {
  Timeline* const first = timelines_of(d, row);
  for (Timeline* t = first; t < first + kTimelines; ++t) {
    if (is_idle(*t)) continue;
    const uint32_t to = t->issued.load(relaxed);
    t->lost_from.store(t->done.load(acquire), relaxed);
    t->lost_to.store(to, release);
    fault("sweep.lost.work");
    t->done.store(to, release);
    fault("sweep.waits");
  }
}

namespace {

bool read_number(PyObject* o, uint32_t limit, const char* what, uint32_t* out) {
  *out = 0;
  const unsigned long n = PyLong_AsUnsignedLong(o);
  if (PyErr_Occurred()) return false;
  if (n > limit) return raise("ValueError", "timeline: no such %s: %lu", what, n);
  *out = static_cast<uint32_t>(n);
  return true;
}

// A second mapping: what CUDA does with the pages that it registers does not touch the one that forked children use.
PyObject* timeline_area(PyObject*, PyObject*) {
  static void* mapping = nullptr;
  if (!domain_ensure()) return nullptr;
  const Areas areas(domain.slots);
  const size_t nbytes = areas.size - areas.timelines;
  if (!mapping) {
    void* p = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, domain.control, off_t(areas.timelines));
    if (p == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
    mapping = p;
  }
  return Py_BuildValue("Nn", PyLong_FromVoidPtr(mapping), static_cast<Py_ssize_t>(nbytes));
}

size_t offset_of(const Timeline& t) {
  return static_cast<size_t>(reinterpret_cast<const char*>(&t.done) - reinterpret_cast<const char*>(domain.timelines));
}

// An own timeline, with its next number issued. nullptr: an exception is set.
Timeline* issue(uint32_t place) {
  if (domain.rowless) return raise("DomainError", "export: this process was forked when no row was free and shares nothing");
  use_device(domain);
  Timeline& t = timelines_of(domain, uint32_t(domain.row))[place];
  t.issued.store(t.issued.load(relaxed) + 1, release);
  fault("timeline.issued");
  return &t;
}

PyObject* timeline_issue(PyObject*, PyObject* o) {
  uint32_t place;
  if (!read_number(o, kTimelines - 1, "place", &place) || !domain_ensure()) return nullptr;
  const Timeline* t = issue(place);
  return t ? Py_BuildValue("In", t->issued.load(relaxed), static_cast<Py_ssize_t>(offset_of(*t))) : nullptr;
}

PyObject* timeline_idle(PyObject*, PyObject* const* a, Py_ssize_t n) {
  uint32_t place = 0;
  if (!takes("timeline_idle", n, 0, 1)) return nullptr;
  if ((n && !read_number(a[0], kTimelines - 1, "place", &place)) || !domain_ensure()) return nullptr;
  if (domain.rowless) Py_RETURN_TRUE;
  const Timeline* own = timelines_of(domain, uint32_t(domain.row));
  bool idle = true;
  for (uint32_t k = n ? place : 0; k < (n ? place + 1 : kTimelines); ++k) idle &= is_idle(own[k]);
  return PyBool_FromLong(idle);
}

PyObject* timeline_state(PyObject*, PyObject* const* a, Py_ssize_t n) {
  uint32_t row, place, number;
  if (!takes("timeline_state", n, 3)) return nullptr;
  if (!read_number(a[0], kRows - 1, "row", &row) || !read_number(a[1], kTimelines - 1, "place", &place) ||
      !read_number(a[2], UINT32_MAX, "number", &number) || !domain_ensure())
    return nullptr;
  Timeline& t = timelines_of(domain, row)[place];
  const bool is_done = !is_before(t.done.load(acquire), number);
  const uint32_t lost_to = t.lost_to.load(acquire);
  const bool is_lost = is_before(t.lost_from.load(relaxed), number) && !is_before(lost_to, number);
  if (is_lost) write_lost(t, lost_to);
  const bool is_forged = is_before(t.issued.load(relaxed), number);
  return PyUnicode_InternFromString(is_lost || is_forged ? "lost" : is_done ? "done" : "pending");
}

// ---- the thread that sweeps
//
// Note [The watch]: a stream that waits for a dead process goes on when somebody sweeps. Until then each call of CUDA that
// waits for the stream's device blocks, with the allocator's lock or with the GIL, which CuPy keeps in some of them. So a
// thread that needs neither sweeps, while a wait takes long. It ends a second after the last one.
struct Wait {
  uint32_t row, place, number;
  bool is_old;  // was there at the last look
};
struct Watch {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Wait> waits;
  bool runs = false;
};
Watch& watch = *new Watch;  // never destroyed: its thread may outlive main
constexpr useconds_t kLookUs = 50'000;
constexpr int kIdleLooks = 20;

void* run_watch(void*) {
  for (int idle = 0;;) {
    usleep(kLookUs);
    bool is_long = false;
    pthread_mutex_lock(&watch.mutex);
    auto is_over = [](const Wait& w) {
      return !is_before(timelines_of(domain, w.row)[w.place].done.load(acquire), w.number);
    };
    watch.waits.erase(std::remove_if(watch.waits.begin(), watch.waits.end(), is_over), watch.waits.end());
    for (Wait& w : watch.waits) is_long |= w.is_old, w.is_old = true;
    idle = watch.waits.empty() ? idle + 1 : 0;
    watch.runs = idle < kIdleLooks;
    const bool ends = !watch.runs;
    pthread_mutex_unlock(&watch.mutex);
    if (ends) return nullptr;
    if (!is_long) continue;
    Locked lock;
    sweep_all(true);
  }
}

// False: an exception is set.
bool watch_for(const Wait& wait) {
  int error = 0;
  pthread_mutex_lock(&watch.mutex);
  try {
    watch.waits.push_back(wait);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (!error && !watch.runs) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are other threads'
    pthread_t thread;
    error = pthread_create(&thread, &attributes, run_watch, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    watch.runs = !error;
    if (error) watch.waits.pop_back();
  }
  pthread_mutex_unlock(&watch.mutex);
  if (!error) return true;
  errno = error;
  PyErr_SetFromErrno(PyExc_OSError);
  return false;
}

void forget_wait(uint32_t row, uint32_t place, uint32_t number) {
  pthread_mutex_lock(&watch.mutex);
  auto is_it = [&](const Wait& w) { return w.row == row && w.place == place && w.number == number; };
  auto found = std::find_if(watch.waits.begin(), watch.waits.end(), is_it);
  if (found != watch.waits.end()) watch.waits.erase(found);
  pthread_mutex_unlock(&watch.mutex);
}

// ---- the driver's functions, which CuPy does not bind

using StreamValue = int (*)(void* stream, unsigned long long address, uint32_t value, unsigned flags);
using DevicePointer = int (*)(unsigned long long* device, void* host, unsigned flags);
struct Driver {
  StreamValue write = nullptr, wait = nullptr;
  unsigned long long base = 0;  // the address of the timelines for GPUs
};
Driver driver;

PyObject* timeline_registered(PyObject*, PyObject* o) {
  void* host = PyLong_AsVoidPtr(o);
  if (PyErr_Occurred()) return nullptr;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto find = [library](const char* name) { return library ? dlsym(library, name) : nullptr; };
  const auto pointer_of = reinterpret_cast<DevicePointer>(find("cuMemHostGetDevicePointer_v2"));
  driver.write = reinterpret_cast<StreamValue>(find("cuStreamWriteValue32_v2"));
  driver.wait = reinterpret_cast<StreamValue>(find("cuStreamWaitValue32_v2"));
  unsigned long long base = 0;
  const bool good = pointer_of && driver.write && driver.wait && pointer_of(&base, host, 0) == 0;
  driver.base = good ? base : 0;
  return PyBool_FromLong(good);
}

bool read_stream(PyObject* o, const char* name, void** stream) {
  *stream = PyLong_AsVoidPtr(o);
  if (PyErr_Occurred()) return false;
  return driver.base || raise("RuntimeError", "%s: the timelines are not registered", name);
}

// Whether the driver took it; else an exception is set.
bool queue_value(const char* name, StreamValue function, void* stream, size_t offset, uint32_t number) {
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = function(stream, driver.base + offset, number, 0);  // waits for number or later, cyclically
  Py_END_ALLOW_THREADS;
  return !status || raise("RuntimeError", "%s: CUDA's error %d", name, status);
}

// The next number, and the GPU writes it: in one call, so that no interrupt comes between.
PyObject* timeline_write(PyObject*, PyObject* const* a, Py_ssize_t n) {
  uint32_t place;
  void* stream;
  if (!takes("timeline_write", n, 2)) return nullptr;
  if (!read_stream(a[0], "cuStreamWriteValue32", &stream) || !read_number(a[1], kTimelines - 1, "place", &place) ||
      !domain_ensure())
    return nullptr;
  Timeline* t = issue(place);
  if (!t) return nullptr;
  const uint32_t number = t->issued.load(relaxed);
  if (queue_value("cuStreamWriteValue32", driver.write, stream, offset_of(*t), number))
    return PyLong_FromUnsignedLong(number);
  t->issued.store(number - 1, release);  // nobody has seen it
  return nullptr;
}

PyObject* timeline_wait(PyObject*, PyObject* const* a, Py_ssize_t n) {
  uint32_t row, place, number;
  void* stream;
  if (!takes("timeline_wait", n, 4)) return nullptr;
  if (!read_stream(a[0], "cuStreamWaitValue32", &stream) || !read_number(a[1], kRows - 1, "row", &row) ||
      !read_number(a[2], kTimelines - 1, "place", &place) || !read_number(a[3], UINT32_MAX, "number", &number) ||
      !domain_ensure() || !watch_for({row, place, number, false}))
    return nullptr;
  const size_t offset = offset_of(timelines_of(domain, row)[place]);
  if (queue_value("cuStreamWaitValue32", driver.wait, stream, offset, number)) Py_RETURN_NONE;
  forget_wait(row, place, number);
  return nullptr;
}

}  // namespace

PyMethodDef timeline_functions[] = {
    {"timeline_area", timeline_area, METH_NOARGS,
     "timeline_area() -> (address, bytes): a mapping of all timelines, to be registered with CUDA. Raises: OSError."},
    {"timeline_registered", timeline_registered, METH_O,
     "timeline_registered(address): it is registered; whether the driver can write to it and wait for it."},
    {"timeline_issue", timeline_issue, METH_O,
     "timeline_issue(place) -> (number, offset in the area): the next number of an own timeline, for tests without a GPU."},
    method("timeline_write", timeline_write,
           "timeline_write(stream, place) -> the next number of an own timeline: written after the stream's work.\n"
           "Raises: RuntimeError."),
    method("timeline_wait", timeline_wait,
           "timeline_wait(stream, row, place, number): later work of the stream waits; dead processes are swept meanwhile.\n"
           "Raises: RuntimeError, OSError."),
    method(
        "timeline_state", timeline_state,
        "timeline_state(row, place, number) -> 'done', 'pending', or 'lost': its process died before, or never issued it."),
    method("timeline_idle", timeline_idle,
           "timeline_idle(place=all): whether the last number of an own timeline is written."),
    {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
