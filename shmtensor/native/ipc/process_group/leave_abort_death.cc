// The end of a group, and its errors on the other ranks: leaving, giving up, death (group.h has the picture).
#include <cstdio>
#include <cstring>

#include "memory/inspect/fault_points.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

void Group::leave() {
  if (!base_) return;
  line(rank_).state.store(static_cast<uint32_t>(Membership::Left), std::memory_order_release);
  fault("group.left");
  announce_event();
}

void Group::announce_event() {
  header().events.fetch_add(1, std::memory_order_seq_cst);
  fault("group.news");
  for (int p = 0; p < world_; p++) wake(&line(p).phase);
}

std::string Group::why() const {
  const char* text = header().text;
  return std::string(text, strnlen(text, sizeof header().text));
}

bool Group::has_left() const {
  return line(rank_).state.load(std::memory_order_acquire) == static_cast<uint32_t>(Membership::Left);
}

bool Group::fail_left(const char* where) {
  return raise("RuntimeError", "%s: this rank has left the group: rank %d", where, rank_);
}

bool Group::fail_broken(const char* where) {
  const uint32_t word = broken();
  const Reason reason = reason_of_broken(word);
  const int who = rank_of_broken(word);
  Line& l = line(who);
  if (reason == kLost && who != rank_) {
    raise_peer_lost(*members_, where, l.row, l.inc);
    append_position(who);
  } else if (reason == kStopped && who != rank_) {
    raise_peer_lost(*members_, where, l.row, l.inc, describe_stopped(who).c_str());
  } else {
    std::string text = "the group is broken: rank " + std::to_string(who) +
                       " gave up: " + (reason == kStopped ? "it was stopped" : why()) +
                       ", call destroy_process_group() and begin anew";
    if (reason == kGaveUp && who != rank_) raise_peer_lost(*members_, where, l.row, l.inc, text.c_str());
    else raise(reason == kTimedOut ? "CollectiveTimeout" : "RuntimeError", "%s: %s", where, text.c_str());
  }
  return false;
}

bool Group::raise_lost(const char* where, int p) {
  raise_peer_lost(*members_, where, line(p).row, line(p).inc);
  return false;
}

std::string Group::describe_stopped(int p) const {
  return "rank " + std::to_string(p) + " (pid " + std::to_string(line(p).pid) +
         ") is stopped (SIGSTOP) and had not come at the timeout";
}

void Group::break_off(const char* why) {
  int dead = find_dead();  // if another rank has died, that is the reason
  if (dead >= 0) return mark_broken(broken_by(dead, kLost));
  break_off(why, kGaveUp);
}

int Group::find_dead() const {
  for (int p = 0; p < world_; p++) {
    Line& l = line(p);
    if (p == rank_ || l.state.load(std::memory_order_acquire) != static_cast<uint32_t>(Membership::Joined)) continue;
    if (liveness_of(*members_, l.row, l.inc, true) != Liveness::Alive) return p;
  }
  return -1;
}

void Group::break_off(const char* why, Reason reason) {
  Header& h = header();
  uint32_t nobody = 0;
  if (h.writer.compare_exchange_strong(nobody, rank_ + 1)) {
    fault("group.writer");
    snprintf(h.text, sizeof h.text, "%s", why);
  }
  mark_broken(broken_by(rank_, reason));
}

void Group::mark_broken(uint32_t by) {
  uint32_t none = 0;  // the first reason counts: later ones may be its consequences
  header().broken.compare_exchange_strong(none, by);
  fault("group.broken");
  announce_event();
}

// A rank that has left and is waited for (with kAny: if all have left), or -1.
int Group::find_departed(uint32_t phase, int only) const {
  int departed = -1;
  for (int p = 0; p < world_; p++) {
    if (p == rank_ || (only >= 0 && p != only)) continue;
    bool has_left = line(p).state.load(std::memory_order_acquire) == static_cast<uint32_t>(Membership::Left);
    if (!has_left && only == kAny) return -1;
    if (!has_left || (only == kAll && has_passed(line(p).phase.load(std::memory_order_acquire), phase))) continue;
    departed = p;
  }
  return departed;
}

// The checks between two sleeps of a wait; false with an exception if a rank that is waited for cannot arrive.
bool Group::check_peers(const char* where, uint32_t phase, int only) {
  if (is_broken()) return fail_broken(where);
  if (has_left()) return fail_left(where);  // another thread of this process did so
  int p = find_departed(phase, only);
  if (p < 0) return true;
  if (only == kAny) return raise("RuntimeError", "%s: all other ranks have left the group", where);
  std::string text = "rank " + std::to_string(p) + " (pid " + std::to_string(line(p).pid) +
                     ") has left the group: it called destroy_process_group() or has ended, and is waited for";
  raise_peer_lost(*members_, where, line(p).row, line(p).inc, text.c_str());
  return false;
}

}  // namespace shmtensor::group
