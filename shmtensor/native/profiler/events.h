// The events of a profile: each process of a run writes its own into one file of shared memory (docs/design/profiler.md).
//
//   file (memfd, sparse, mapped by every process that records; gone with the last of them)
//   +--------------+---------+---------+-- - - --+
//   | chunk 0: the | chunk 1 | chunk 2 |         |     4096 chunks of 64 KiB: free ones first, then `next_chunk`
//   | header       |         |         |         |
//   +--------------+---------+---------+-- - - --+
//   chunk of events  ChunkHeader 128 B, then up to 1634 times Event 40 B: of one thread of one process
//   chunk of names   ChunkHeader 128 B, then (length uint16, UTF-8 text) ...: of one process
//
//   A name's id is chunk << 16 | offset, so each process can write names that every reader finds.
//
// Note [Torn events]: one thread writes a chunk. It writes an event, or a name, and then `used` with release. A reader
// loads `used` of all chunks, calls profile_record(False), which has a fence, and reads no further than that. A process
// that is killed in between leaves `used` as it was: its last event is not there. One that is killed between taking a
// chunk and writing the header leaves kind kNone: readers skip the chunk.
//
// Note [Reused chunks]: a chunk of events that is full has no writer any more: its thread takes another one for its next
// event. After the process that profiles has read such a chunk it clears the header, writes the chunk's number into
// `free_chunks` and then `freed` with release. Whoever needs a chunk takes number `reused` by a CAS, if `freed` is ahead.
// Both only grow, and a chunk is in the ring at most once, so no entry is overwritten before it was taken. Chunks that
// are not full, and those of names, stay what they are. A process that is killed after it took a chunk leaves kind kNone:
// that chunk is lost until the profile ends.
//
// Note [Recording state]: `state` in the header says whether events are recorded. The process that profiles writes it,
// and every process reads it at the begin and the end of each event. Once it is kEnded, a process lets go of the file at
// its next poll(). All functions here need the GIL.
#pragma once

#include "python.h"

#include <time.h>

#include "memory/domain/layout.h"
#include "memory/heap/heap.h"

namespace shmtensor::profiler {

constexpr size_t kChunkBytes = 64 << 10, kChunks = 4096, kFileBytes = kChunkBytes * kChunks;
constexpr char kFileMagic[8] = {'s', 'h', 'm', 'p', 'r', 'o', 'f', '1'};

// What an event is: X(value, name). Python has the names in this order: native.PROFILE_KINDS.
#define PROFILE_KINDS(X)     \
  X(kOp, "op")               \
  X(kBackward, "backward")   \
  X(kRange, "range")         \
  X(kStep, "step")           \
  X(kOptimizer, "optimizer") \
  X(kLoaderWait, "loader wait") X(kCollective, "collective") X(kLoad, "load") X(kQueueWait, "queue wait")
#define VALUE(value, name) value,
enum Kind : uint16_t { PROFILE_KINDS(VALUE) };
#undef VALUE

enum State : uint32_t { kPaused, kRecording, kEnded };
enum ChunkKind : uint32_t { kNone, kEvents, kNames };

struct FileHeader {
  char magic[8];
  uint64_t id;
  uint32_t counts_memory;  // whether `in_use` and the `bytes` of ops are measured
  Half state;  // State
  Half processes;  // that have recorded: their numbers
  Half reserved;
  alignas(64) Word next_chunk;
  alignas(64) Word dropped;  // events for which there was no chunk
  alignas(64) Word freed;    // Note [Reused chunks]
  alignas(64) Word reused;
  alignas(64) Half free_chunks[kChunks];
};
static_assert(sizeof(FileHeader) <= kChunkBytes, "it is chunk 0");

struct Event {
  uint64_t start, duration;  // ns of CLOCK_MONOTONIC
  int64_t bytes;  // of an op: allocated less freed; of a collective: moved
  int64_t in_use;  // by arrays in the heap of this process, when the event ended
  uint32_t name;
  uint16_t kind, reserved;
};
static_assert(sizeof(Event) == 40, "shmtensor/profiler/read_events.py reads it");

struct ChunkHeader {
  Word used;  // events, or bytes of names
  uint32_t kind, process, pid, tid;
  char reserved[40];
  char role[64];
};
static_assert(sizeof(ChunkHeader) == 128, "shmtensor/profiler/read_events.py reads it");
constexpr uint64_t kEventsInChunk = (kChunkBytes - sizeof(ChunkHeader)) / sizeof(Event);

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

extern FileHeader* file;  // null: this process does not record
// When the latest event of this thread began; 0: nothing was recorded then. It names the event to whoever notes more.
extern __thread uint64_t latest_begin;

// When an event began; start is 0 if nothing is recorded.
struct Begin {
  uint64_t start;
  int64_t allocated;
};
inline Begin begin() {
  const bool is_recording = file && file->state.load(relaxed) == kRecording;
  latest_begin = is_recording ? now_ns() : 0;
  return {latest_begin, thread_data_bytes};
}
// Writes the event, if it has begun. Leaves an exception that is set as it is.
void end(const Begin& begin, PyObject* name, Kind kind);
void end(uint64_t start, PyObject* name, Kind kind, int64_t bytes);

// An event of a collective, or a message, that moves `nbytes`: calls f() -> bool.
template <class F>
bool recorded(const char* name, size_t nbytes, F f) {
  const Begin began = begin();
  const bool good = f();
  if (!began.start || !good) return good;
  PyObject* text = PyUnicode_InternFromString(name);
  if (text) end(began.start, text, kCollective, int64_t(nbytes));
  else PyErr_Clear();
  Py_XDECREF(text);
  return good;
}

}  // namespace shmtensor::profiler
