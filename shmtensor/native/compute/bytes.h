// Long runs of bytes from one place to another, where the C library's ways may be slow.
//
// Note [Copies just ahead]
// From 2 KB on glibc copies by `rep movsb`. On AMD's Zen 3, where the place copied to lies 1 to 31 bytes
// behind the place copied from, modulo 4096, that takes 15 to 20 times as long (3 GB/s in place of 50):
// the processor seems to believe that the two overlap. Blocks of the heap begin alike, so it is what
// each copy between rows of an odd size comes to. Those go by vectors; all others are
// left to memcpy, which is as fast as they are (and on Intel faster, beyond the cache).
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels.h"

namespace shmtensor {

inline void copy_run(void* to, const void* from, size_t n) {
  const uintptr_t ahead =
      (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) & 4095;
  if (n < 1024 || ahead == 0 || ahead >= 64) {
    memcpy(to, from, n);
  } else {
    moves().copy(static_cast<char*>(to), static_cast<const char*>(from), static_cast<int64_t>(n));
  }
}

}  // namespace shmtensor
