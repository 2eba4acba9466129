// The flight recorder: what each rank has called, and how far it came in it (Step in group.h has the layout).
//
// A rank writes its own trail, two or three stores a collective, and reads that of others when it has to say what went
// wrong. The trail lies in the group's block: it outlives its rank.
#include <cstring>

#include "memory/inspect/fault_points.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

namespace {

uint64_t word_of(uint64_t number, Progress progress) { return number * 4 + static_cast<uint64_t>(progress); }

}  // namespace

Step& Group::step(int p, uint64_t number, bool is_message) const {
  size_t n = static_cast<size_t>(world_);
  char* trails = base_ + 128 + n * sizeof(Line) + n * n * sizeof(Mailbox) + 2 * n * kInline;
  auto* steps = reinterpret_cast<Step*>(trails);
  if (is_message) return steps[n * kTrail + p * kMessages + number % kMessages];
  return steps[p * kTrail + static_cast<int>(number % kTrail)];
}

void Group::note(const Record& call) {
  Step& s = step(rank_, call.number);
  s.word.store(0, std::memory_order_relaxed);
  fault("trail.emptied");
  std::atomic_thread_fence(std::memory_order_release);
  s.call = call, s.began = monotonic(), s.ended = 0;
  s.word.store(word_of(call.number, Progress::Called), std::memory_order_release);
  fault("trail.called");
}

void Group::note(Progress progress) {
  Step& s = step(rank_, number_);
  if (progress == Progress::Done) s.ended = monotonic();
  s.word.store(word_of(number_, progress), std::memory_order_release);
  fault("trail.noted");
}

// Several threads may be in messages: each has a step of its own, until kMessages later ones have begun.
uint64_t Group::note_message(const Record& call, int with, Collective what) {
  uint64_t number = messages_.fetch_add(1, std::memory_order_relaxed) + 1;
  Step& s = step(rank_, number, true);
  s.word.store(0, std::memory_order_relaxed);
  fault("trail.message.emptied");
  std::atomic_thread_fence(std::memory_order_release);
  s.call = call, s.call.what = what, s.call.root = with;
  s.began = monotonic(), s.ended = 0;
  s.word.store(word_of(number, Progress::Called), std::memory_order_release);
  fault("trail.message.called");
  return number;
}

void Group::note_arrival(uint64_t message) {
  Step& s = step(rank_, message, true);
  if (s.word.load(std::memory_order_relaxed) / 4 != message) return;  // a later one has the place
  s.ended = monotonic();
  s.word.store(word_of(message, Progress::Done), std::memory_order_release);
  fault("trail.message.noted");
}

bool Group::read_step(int p, uint64_t number, Step* out, Progress* progress, bool is_message) const {
  Step& s = step(p, number, is_message);
  uint64_t word = s.word.load(std::memory_order_acquire);
  if (word / 4 != number || !number) return false;
  memcpy(&out->call, &s.call, sizeof out->call);
  out->began = s.began, out->ended = s.ended;
  std::atomic_thread_fence(std::memory_order_acquire);
  *progress = static_cast<Progress>(word % 4);
  return s.word.load(std::memory_order_relaxed) / 4 == number;
}

uint64_t Group::last_number(int p, bool is_message) const {
  uint64_t last = 0;
  uint64_t kept = is_message ? kMessages : kTrail;
  for (uint64_t i = 0; i < kept; i++) {
    uint64_t number = step(p, i, is_message).word.load(std::memory_order_relaxed) / 4;
    if (number > last) last = number;
  }
  return last;
}

std::string Group::whereabouts(int p) const {
  std::string who = "rank " + std::to_string(p), waits;
  uint64_t last = last_number(p), message = last_number(p, true);
  Step latest, former;
  Progress progress, before;
  if (message && read_step(p, message, &latest, &progress, true) && progress == Progress::Called)
    waits = " and was in " + latest.call.text();
  if (!last || !read_step(p, last, &latest, &progress)) return who + " had called nothing" + waits;
  std::string now = "#" + std::to_string(last) + " " + latest.call.text();
  if (progress == Progress::Done) return who + " had completed " + now + waits;
  if (!read_step(p, last - 1, &former, &before) || before != Progress::Done) return who + " was in " + now + waits;
  return who + " had completed #" + std::to_string(last - 1) + " " + former.call.text() + " and was in " + now + waits;
}

void Group::tell_whereabouts(int p) const {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (!type) return;
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject* text = error ? PyObject_Str(error) : nullptr;
  PyObject* whole = text ? PyUnicode_FromFormat("%U; %s", text, whereabouts(p).c_str()) : nullptr;
  PyObject* args = whole ? PyTuple_Pack(1, whole) : nullptr;
  if (!args || PyObject_SetAttrString(error, "args", args) < 0) PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(whole);
  Py_XDECREF(args);
  PyErr_Restore(type, error, trace);
}

}  // namespace shmtensor::group
