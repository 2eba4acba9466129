// The flight recorder: each rank's calls and their progress (Step in group.h has the layout).
//
// A rank writes its own steps, two or three stores per collective, and reads those of other ranks for error messages. The
// steps are in the group's block: they outlive their rank.
#include <cstring>

#include "memory/inspect/fault_points.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

namespace {

uint64_t word_of(uint64_t number, Progress progress) { return number * 4 + static_cast<uint64_t>(progress); }

}  // namespace

Step& Group::step(int p, uint64_t number, bool is_message) const {
  size_t n = static_cast<size_t>(world_);
  char* all_steps = base_ + kLinesAt + n * sizeof(Line) + n * n * sizeof(Mailbox) + 2 * n * kInline;
  auto* steps = reinterpret_cast<Step*>(all_steps);
  if (is_message) return steps[n * kRecorded + p * kMessages + number % kMessages];
  return steps[p * kRecorded + static_cast<int>(number % kRecorded)];
}

void Group::record(const Record& call) {
  Step& s = step(rank_, call.number);
  s.word.store(0, std::memory_order_relaxed);
  fault("trail.emptied");
  std::atomic_thread_fence(std::memory_order_release);
  s.call = call, s.began = monotonic(), s.ended = 0;
  s.word.store(word_of(call.number, Progress::Called), std::memory_order_release);
  fault("trail.called");
}

void Group::record(Progress progress) {
  Step& s = step(rank_, number_);
  if (progress == Progress::Done) s.ended = monotonic();
  s.word.store(word_of(number_, progress), std::memory_order_release);
  fault("trail.noted");
}

// Several threads may send or receive: each message has its own step, until kMessages later ones have begun.
uint64_t Group::record_message(const Record& call, int with, Collective what) {
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

void Group::record_arrival(uint64_t message) {
  Step& s = step(rank_, message, true);
  if (s.word.load(std::memory_order_relaxed) / 4 != message) return;  // a later message has replaced it
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
  uint64_t n = is_message ? kMessages : kRecorded;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t number = step(p, i, is_message).word.load(std::memory_order_relaxed) / 4;
    if (number > last) last = number;
  }
  return last;
}

std::string Group::describe_position(int p) const {
  std::string who = "rank " + std::to_string(p), waits;
  uint64_t last = last_number(p), message = last_number(p, true);
  Step latest, previous;
  Progress progress, previous_progress;
  if (message && read_step(p, message, &latest, &progress, true) && progress == Progress::Called)
    waits = " and was in " + latest.call.text();
  if (!last || !read_step(p, last, &latest, &progress)) return who + " had called nothing" + waits;
  std::string now = "#" + std::to_string(last) + " " + latest.call.text();
  if (progress == Progress::Done) return who + " had completed " + now + waits;
  if (!read_step(p, last - 1, &previous, &previous_progress) || previous_progress != Progress::Done)
    return who + " was in " + now + waits;
  return who + " had completed #" + std::to_string(last - 1) + " " + previous.call.text() + " and was in " + now + waits;
}

void Group::append_position(int p) const {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (!type) return;
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject* text = error ? PyObject_Str(error) : nullptr;
  PyObject* message = text ? PyUnicode_FromFormat("%U; %s", text, describe_position(p).c_str()) : nullptr;
  PyObject* args = message ? PyTuple_Pack(1, message) : nullptr;
  if (!args || PyObject_SetAttrString(error, "args", args) < 0) PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(message);
  Py_XDECREF(args);
  PyErr_Restore(type, error, trace);
}

}  // namespace shmtensor::group
