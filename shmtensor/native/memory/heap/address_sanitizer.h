// Red zones for AddressSanitizer. A block may be larger than requested (the next size class), so a kernel that reads or
// writes past an array's end would not be detected, unlike with malloc's red zones. Sanitizer builds poison the bytes
// after the requested ones, 4 KiB at most; in other builds these functions do nothing.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace shmtensor {

// Makes an entire block accessible, before the heap itself accesses it.
inline void* unfence([[maybe_unused]] void* p, [[maybe_unused]] size_t nbytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, nbytes);
#endif
  return p;
}

// Makes only the first `requested` bytes of a block of `nbytes` accessible.
inline void* fence_off(void* p, [[maybe_unused]] size_t requested, [[maybe_unused]] size_t nbytes) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kFence = 4096;
  unfence(p, nbytes);
  __asan_poison_memory_region(static_cast<char*>(p) + requested, nbytes - requested < kFence ? nbytes - requested : kFence);
#endif
  return p;
}

}  // namespace shmtensor
