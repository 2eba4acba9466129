// See events.h: the file of a profile, joining it and writing to it.
#include "profiler/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/domain/domain.h"
#include "memory/domain/files.h"
#include "memory/inspect/fault_points.h"
#include "methods.h"

namespace shmtensor::profiler {

FileHeader* file = nullptr;
__thread uint64_t latest_begin = 0;

namespace {

struct Writer {  // of a thread, or of the names of this process
  uint64_t session;
  ChunkHeader* chunk;
  uint64_t used;
};

int descriptor = -1;
bool is_owner = false;      // this process profiles
uint64_t session = 0;       // changes with the file, and in a forked child
uint32_t process = 0;       // number in the file
PyObject* names = nullptr;  // str -> id
Writer name_writer;
__thread Writer thread_writer;
Self parent = {-1, 0};    // whose profile this process joins
uint64_t refused = 0;     // the parent's word that could not be joined

char* address_of(uint64_t chunk) { return reinterpret_cast<char*>(file) + chunk * kChunkBytes; }

// What the row of a process says of its profile: the id of the file and its descriptor there; 0: it records none.
void publish(uint64_t word) {
  if (domain_ready() && !domain.rowless) domain.rows[domain.row].profile.store(word, release);
}
uint64_t own_word() { return (file->id << 32) | uint32_t(descriptor); }

bool map(int fd) {
  void* base = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return false;
  file = static_cast<FileHeader*>(base);
  return true;
}

void after_fork_in_child();

bool start_session() {
  static const bool has_fork_handler = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
  names = PyDict_New();
  if (!names || !has_fork_handler) return PyErr_NoMemory(), false;
  ++session;
  process = file->processes.fetch_add(1);
  if (file->counts_memory) count_data(true);
  return true;
}

void let_go() {
  if (!file) return;
  if (file->counts_memory) count_data(false);
  publish(0);
  munmap(file, kFileBytes);
  file = nullptr;
  close(descriptor);
  descriptor = -1;
  is_owner = false;
  ++session;
  Py_CLEAR(names);
}

// The child of a fork goes on with the same file, as a process of its own.
void after_fork_in_child() {
  refused = 0;
  parent = {-1, 0};
  if (!file) return;
  is_owner = false;
  ++session;
  process = file->processes.fetch_add(1);
  data_bytes.store(0, relaxed);  // it owns no block yet
  publish(own_word());
}

// The number of a chunk that has no owner; kChunks or more: there is none.
uint64_t free_chunk() {
  uint64_t n = file->reused.load(relaxed);
  while (n != file->freed.load(acquire)) {  // Note [Reused chunks]
    const uint64_t chunk = file->free_chunks[n % kChunks].load(relaxed);
    if (file->reused.compare_exchange_strong(n, n + 1, relaxed)) {
      fault("profile.taken");
      return chunk;
    }
  }
  const uint64_t chunk = file->next_chunk.fetch_add(1, relaxed);
  fault("profile.taken");
  return chunk;
}

// A chunk whose pages are there: null if there is none.
ChunkHeader* take_chunk(ChunkKind kind) {
  const uint64_t chunk = free_chunk();
  if (chunk >= kChunks) return nullptr;
  if (posix_fallocate(descriptor, off_t(chunk * kChunkBytes), off_t(kChunkBytes)) != 0) return nullptr;
  auto* header = reinterpret_cast<ChunkHeader*>(address_of(chunk));
#ifdef MADV_POPULATE_WRITE
  madvise(header, kChunkBytes, MADV_POPULATE_WRITE);  // else 16 page faults, one by one
#endif
  header->process = process, header->pid = uint32_t(getpid()), header->tid = uint32_t(syscall(SYS_gettid));
  if (domain_ready() && !domain.rowless) memcpy(header->role, domain.rows[domain.row].role, sizeof header->role - 1);
  header->kind = kind;
  return header;
}

bool prepare(Writer* writer, ChunkKind kind, uint64_t more, uint64_t capacity) {
  if (__builtin_expect(writer->session == session && writer->used + more <= capacity, 1)) return true;
  ChunkHeader* chunk = take_chunk(kind);
  if (!chunk) return false;
  *writer = {session, chunk, 0};
  return true;
}

// The id of a name; 0: there is no room.
uint32_t id_of(PyObject* name) {
  if (PyObject* id = PyDict_GetItemWithError(names, name)) return uint32_t(PyLong_AsUnsignedLong(id));
  Py_ssize_t n;
  const char* text = PyUnicode_AsUTF8AndSize(name, &n);
  if (!text) return PyErr_Clear(), 0;
  if (n > 4000)
    for (n = 4000; (text[n] & 0xC0) == 0x80;) --n;  // ends with a whole character
  const uint64_t capacity = kChunkBytes - sizeof(ChunkHeader);
  if (!prepare(&name_writer, kNames, uint64_t(n) + 2, capacity)) return 0;
  char* at = reinterpret_cast<char*>(name_writer.chunk + 1) + name_writer.used;
  const uint16_t length = uint16_t(n);
  memcpy(at, &length, 2);
  memcpy(at + 2, text, size_t(n));
  name_writer.used += uint64_t(n) + 2;
  name_writer.chunk->used.store(name_writer.used, release);
  const uint32_t result = uint32_t(at - reinterpret_cast<char*>(file));  // chunk << 16 | offset
  PyObject* id = PyLong_FromUnsignedLong(result);
  if (!id || PyDict_SetItem(names, name, id) < 0) PyErr_Clear();
  Py_XDECREF(id);
  return result;
}

void write(PyObject* name, Kind kind, uint64_t start, int64_t bytes) {
  const uint64_t duration = now_ns() - start;
  const int64_t in_use = data_bytes.load(relaxed);
  const uint32_t id = id_of(name);
  if (!id || !prepare(&thread_writer, kEvents, 1, kEventsInChunk)) {
    file->dropped.fetch_add(1, relaxed);
    return;
  }
  reinterpret_cast<Event*>(thread_writer.chunk + 1)[thread_writer.used] = {start, duration, bytes, in_use, id, kind, 0};
  fault("profile.event");
  thread_writer.chunk->used.store(++thread_writer.used, release);
}

}  // namespace

void end(const Begin& began, PyObject* name, Kind kind) {
  if (!began.start || !file || file->state.load(relaxed) != kRecording) return;
  write(name, kind, began.start, thread_data_bytes - began.allocated);
}

void end(uint64_t start, PyObject* name, Kind kind, int64_t bytes) {
  if (!start || !file || file->state.load(relaxed) != kRecording) return;
  write(name, kind, start, bytes);
}

// ---------------------------------------------------------------- Python

namespace {

// profile_start(counts_memory) -> descriptor of the file, which this module closes
PyObject* profile_start(PyObject*, PyObject* counts_memory) {
  const int counts = PyObject_IsTrue(counts_memory);
  if (counts < 0 || !domain_ensure()) return nullptr;
  if (file && is_owner) return raise("RuntimeError", "profile: another profile is running, they do not nest");
  let_go();
  descriptor = high_descriptor(memfd_create("shmtensor-profile", MFD_CLOEXEC));
  if (descriptor < 0 || ftruncate(descriptor, off_t(kFileBytes)) != 0 || !map(descriptor)) {
    PyErr_SetFromErrno(PyExc_OSError);
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
    return nullptr;
  }
  memcpy(file->magic, kFileMagic, sizeof kFileMagic);
  file->id = (now_ns() ^ uint64_t(getpid()) << 20) & 0xFFFFFFFF;
  file->counts_memory = uint32_t(counts);
  file->next_chunk.store(1, relaxed);
  is_owner = true;
  if (!start_session()) return let_go(), nullptr;
  prepare(&name_writer, kNames, 1, kChunkBytes);  // here, and not within the first event
  prepare(&thread_writer, kEvents, 1, kEventsInChunk);
  publish(own_word());
  return PyLong_FromLong(descriptor);
}

PyObject* profile_record(PyObject*, PyObject* on) {
  const int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  if (file && is_owner) file->state.store(value ? kRecording : kPaused, release);
  fence();  // Note [Torn events]
  Py_RETURN_NONE;
}

// profile_free(chunk): Note [Reused chunks]
PyObject* profile_free(PyObject*, PyObject* number) {
  const uint64_t chunk = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred()) return nullptr;
  if (!file || !is_owner || !chunk || chunk >= kChunks)
    return raise("ValueError", "profile_free: no such chunk: %llu", static_cast<unsigned long long>(chunk));
  auto* header = reinterpret_cast<ChunkHeader*>(address_of(chunk));
  if (header->kind != kEvents || header->used.load(acquire) != kEventsInChunk)
    return raise("ValueError", "profile_free: chunk %llu has a writer", static_cast<unsigned long long>(chunk));
  header->kind = kNone;
  header->used.store(0, relaxed);
  memset(header->role, 0, sizeof header->role);
  const uint64_t n = file->freed.load(relaxed);
  file->free_chunks[n % kChunks].store(uint32_t(chunk), relaxed);
  file->freed.store(n + 1, release);
  Py_RETURN_NONE;
}

PyObject* profile_stop(PyObject*, PyObject*) {
  if (file && is_owner) {
    file->state.store(kEnded, release);
    let_go();
  }
  Py_RETURN_NONE;
}

const char* join(int pid, int fd, uint64_t id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  descriptor = high_descriptor(open(path, O_RDWR | O_CLOEXEC));
  if (descriptor < 0) return with_errno(path);
  FileHeader header;
  const char* error = nullptr;
  if (pread(descriptor, &header, sizeof header, 0) != ssize_t(sizeof header) ||
      memcmp(header.magic, kFileMagic, sizeof kFileMagic) != 0 || header.id != id)
    error = "its file is another one by now";
  else if (!map(descriptor)) error = with_errno("its file cannot be mapped");
  if (error) {
    close(descriptor);
    descriptor = -1;
  }
  return error;
}

// profile_poll() -> whether this process records; joins the parent's profile, or leaves one that has ended.
PyObject* profile_poll(PyObject*, PyObject*) {
  if (file && !is_owner && file->state.load(acquire) == kEnded) let_go();
  if (file) Py_RETURN_TRUE;
  if (parent.row < 0 || !domain_ready()) Py_RETURN_FALSE;
  Row& row = domain.rows[parent.row];
  const uint64_t state = row.state.load(acquire), word = row.profile.load(acquire);
  if (!word || word == refused || inc_of_row(state) != parent.inc || state_of_row(state) != kRowLive) Py_RETURN_FALSE;
  if (const char* error = join(int(row.pid.load(relaxed)), int(uint32_t(word)), word >> 32)) {
    refused = word;
    if (row.profile.load(acquire) != word) Py_RETURN_FALSE;  // the profile has ended meanwhile
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "profile: process %d is not recorded in its parent's profile: %s",
                         int(getpid()), error) < 0)
      return nullptr;
    Py_RETURN_FALSE;
  }
  if (!start_session()) return let_go(), nullptr;
  publish(own_word());
  Py_RETURN_TRUE;
}

// profile_follow(row, inc): the parent, whose profile this process joins
PyObject* profile_follow(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("profile_follow", n, 2)) return nullptr;
  const long row = PyLong_AsLong(args[0]);
  const unsigned long inc = PyLong_AsUnsignedLong(args[1]);
  if (PyErr_Occurred()) return nullptr;
  if (row < -1 || row >= long(kRows)) return raise("ValueError", "profile_follow: no such row: %ld", row);
  parent = {int(row), uint32_t(inc)};
  return profile_poll(nullptr, nullptr);
}

PyObject* profile_begin(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(begin().start); }

PyObject* profile_latest_begin(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(latest_begin); }

PyObject* profile_end(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("profile_end", n, 3, 4)) return nullptr;
  const uint64_t start = PyLong_AsUnsignedLongLong(args[0]);
  const unsigned long kind = PyLong_AsUnsignedLong(args[2]);
  const int64_t bytes = n == 4 ? PyLong_AsLongLong(args[3]) : 0;
  if (PyErr_Occurred()) return nullptr;
  if (!PyUnicode_CheckExact(args[1]))
    return raise("TypeError", "profile_end: takes a str as the name: got %s", Py_TYPE(args[1])->tp_name);
  end(start, args[1], static_cast<Kind>(kind), bytes);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"profile_start", profile_start, METH_O, "profile_start(counts_memory) -> the descriptor of the profile's file."},
    {"profile_record", profile_record, METH_O, "profile_record(on): all processes of the profile record from now on."},
    {"profile_free", profile_free, METH_O, "profile_free(chunk): the events of this full chunk are overwritten."},
    {"profile_stop", profile_stop, METH_NOARGS, "profile_stop(): ends the profile of this process."},
    {"profile_poll", profile_poll, METH_NOARGS,
     "profile_poll() -> whether this process records; joins its parent's profile, or leaves one that has ended."},
    method("profile_follow", profile_follow, "profile_follow(row, inc): poll() joins the profile of this process."),
    {"profile_begin", profile_begin, METH_NOARGS, "profile_begin() -> ns, or 0 if nothing is recorded."},
    {"profile_latest_begin", profile_latest_begin, METH_NOARGS,
     "profile_latest_begin() -> when this thread's latest event began, or 0 if nothing was recorded then."},
    method("profile_end", profile_end, "profile_end(began, name, kind[, bytes]): writes an event, unless began is 0."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

}  // namespace shmtensor::profiler

namespace shmtensor {

int add_profiler(PyObject* module) {
  using namespace profiler;
#define NAME(value, name) name,
  const char* const kinds[] = {PROFILE_KINDS(NAME)};
#undef NAME
  const Py_ssize_t n = sizeof kinds / sizeof *kinds;
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; ++i) {
    PyObject* text = PyUnicode_FromString(kinds[i]);
    if (!text) Py_CLEAR(tuple);
    else PyTuple_SET_ITEM(tuple, i, text);
  }
  if (!tuple || PyModule_AddObjectRef(module, "PROFILE_KINDS", tuple) < 0) {
    Py_XDECREF(tuple);
    return -1;
  }
  Py_DECREF(tuple);
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
