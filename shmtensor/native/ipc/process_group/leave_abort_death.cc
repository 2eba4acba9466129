// What ends a group, and what the others are told of it: leaving, giving up, death (group.h has the picture).
#include <cstdio>

#include "memory/inspect/fault_points.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

void Group::leave() {
  if (!base_) return;
  line(rank_).state.store(static_cast<uint32_t>(Membership::Left), std::memory_order_release);
  fault("group.left");
  spread_news();
}

void Group::spread_news() {
  header().news.fetch_add(1, std::memory_order_seq_cst);
  fault("group.news");
  for (int p = 0; p < world_; p++) wake(&line(p).phase);
}

bool Group::is_broken() const { return header().broken.load(std::memory_order_acquire) != 0; }

bool Group::has_left() const {
  return line(rank_).state.load(std::memory_order_acquire) == static_cast<uint32_t>(Membership::Left);
}

bool Group::fail_left(const char* where) {
  raise("RuntimeError", "%s: this rank has left the group: rank %d", where, rank_);
  return false;
}

bool Group::fail_broken(const char* where) {
  Header& h = header();
  uint32_t broken = h.broken.load(std::memory_order_acquire), reason = broken >> 16;
  int who = static_cast<int>(broken & 0xffff) - 1;
  Line& l = line(who);
  if (reason == kLost && who != rank_) {
    raise_peer_lost(where, l.row, l.inc);
    tell_whereabouts(who);
  } else if (reason == kStopped && who != rank_) {
    raise_peer_lost(where, l.row, l.inc, stopped(who).c_str());
  } else {
    std::string text = "the group is broken: rank " + std::to_string(who) + " gave up: " +
                       (reason == kStopped ? "it was stopped" : h.text) + ", call destroy_process_group() and begin anew";
    if (reason == kGaveUp && who != rank_) raise_peer_lost(where, l.row, l.inc, text.c_str());
    else raise(reason == kTimedOut ? "CollectiveTimeout" : "RuntimeError", "%s: %s", where, text.c_str());
  }
  return false;
}

std::string Group::stopped(int p) const {
  return "rank " + std::to_string(p) + " (pid " + std::to_string(line(p).pid) + ") is stopped (SIGSTOP) and had not come at the timeout";
}

void Group::break_off(const char* why) {
  for (int p = 0; p < world_; p++) {  // who gives up because another one has died is not the first to go
    Line& l = line(p);
    if (p == rank_ || l.state.load(std::memory_order_acquire) != static_cast<uint32_t>(Membership::Joined)) continue;
    if (life_of(domain, l.row, l.inc, true) != Life::Alive) return mark_broken(broken_by(p, kLost));
  }
  break_off(why, kGaveUp);
}

void Group::break_off(const char* why, uint32_t reason) {
  Header& h = header();
  uint32_t nobody = 0;
  if (h.writer.compare_exchange_strong(nobody, rank_ + 1)) {
    fault("group.writer");
    snprintf(h.text, sizeof h.text, "%s", why);
  }
  mark_broken(broken_by(rank_, reason));
}

void Group::mark_broken(uint32_t by) {
  uint32_t whole = 0;  // the first decides, for all: others may give up or die because of this very error
  header().broken.compare_exchange_strong(whole, by);
  fault("group.broken");
  spread_news();
}

// A rank that has left and is waited for (if any will do: all have left), or -1.
int Group::find_left(uint32_t phase, int only) const {
  int found = -1;
  for (int p = 0; p < world_; p++) {
    if (p == rank_ || (only >= 0 && p != only)) continue;
    bool is_left = line(p).state.load(std::memory_order_acquire) == static_cast<uint32_t>(Membership::Left);
    if (!is_left && only == kAny) return -1;
    if (!is_left || (only == kAll && has_passed(line(p).phase.load(std::memory_order_acquire), phase))) continue;
    found = p;
  }
  return found;
}

// What a waiter looks at between two sleeps; false with an exception when a rank that is waited for cannot come.
bool Group::look_at_peers(const char* where, uint32_t phase, int only) {
  if (is_broken()) return fail_broken(where);
  if (has_left()) return fail_left(where);  // another thread of this process did so
  int p = find_left(phase, only);
  if (p < 0) return true;
  if (only == kAny) {
    raise("RuntimeError", "%s: all other ranks have left the group", where);
    return false;
  }
  std::string text = "rank " + std::to_string(p) + " (pid " + std::to_string(line(p).pid) +
                     ") has left the group: it called destroy_process_group() and is waited for";
  raise_peer_lost(where, line(p).row, line(p).inc, text.c_str());
  return false;
}

}  // namespace shmtensor::group
