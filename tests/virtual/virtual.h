// What the virtual processes of ledger.cc and the channel of channel.cc know of each other.
#pragma once

#include <random>

#include "memory/ledger/ledger.h"

namespace shmtensor {

// ---- ledger.cc: the process whose thread this is
Domain* here_domain();               // nullptr: none, or it is dying and must change nothing any more
void* allocate_here(size_t nbytes);  // of 256 B or 1 KiB; nullptr: no room
void free_here(void* base);
bool somebody_died();      // another thread of this process did
void die_if(bool now);     // at a fault point
extern thread_local bool dying;

// ---- channel.cc: one process's view of the one channel
struct Traffic;
Traffic* new_traffic();
void drop_traffic(Traffic* t);
void open_channel(Traffic* t);                    // the founder makes it, before the others are born
void traffic(Traffic* t, std::mt19937& dice);     // puts or gets a message
size_t close_channel(Traffic* t);                 // the founder reads what is left; how many went through in all

}  // namespace shmtensor
