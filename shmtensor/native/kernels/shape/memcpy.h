// memcpy, with a faster path where the C library's is slow.
//
// Note [Copies just ahead]
// From 2 KB on, glibc copies by `rep movsb`. On AMD's Zen 3 this takes 15 to 20 times as long (3 GB/s instead of 50) if
// the destination is 1 to 31 bytes behind the source, modulo 4096: the processor seems to assume that they overlap.
// Blocks of the heap start at the same offset in a page, so `roll(x, 1)` and copies between rows of an odd size have
// such addresses. These are copied by vectors; all others by memcpy, which is as fast (and on Intel faster, beyond the
// cache).
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/kernel_table.h"

namespace shmtensor {

inline void copy_run(void* to, const void* from, size_t n) {
  const uintptr_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) & 4095;
  if (n < 1024 || ahead == 0 || ahead >= 64) {
    memcpy(to, from, n);
  } else {
    memory_kernels().copy(static_cast<char*>(to), static_cast<const char*>(from), static_cast<int64_t>(n));
  }
}

// A row of an image: short ones inline, in pieces of 16 bytes of which the last two may overlap.
inline void copy_row(void* to, const void* from, size_t n) {
  if (n < 16 || n > 512) return copy_run(to, from, n);
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  for (size_t i = 0; i + 16 < n; i += 16) memcpy(out + i, in + i, 16);
  memcpy(out + n - 16, in + n - 16, 16);
}

}  // namespace shmtensor
