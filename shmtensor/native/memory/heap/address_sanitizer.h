// Blocks as AddressSanitizer sees them. The heap hands out more than was asked for (a block of the next size class), so
// that a kernel which reads or writes past an array's end would stay unseen, where malloc's arrays have red zones. In
// sanitizer builds what lies behind the bytes asked for is poisoned, 4 KiB at most; elsewhere both are nothing.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace shmtensor {

// All of a block may be touched: before the heap itself does.
inline void* unfence([[maybe_unused]] void* p, [[maybe_unused]] size_t nbytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, nbytes);
#endif
  return p;
}

// The first `asked` bytes of a block of `nbytes` may be touched.
inline void* fence_off(void* p, [[maybe_unused]] size_t asked, [[maybe_unused]] size_t nbytes) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kFence = 4096;
  unfence(p, nbytes);
  __asan_poison_memory_region(static_cast<char*>(p) + asked, nbytes - asked < kFence ? nbytes - asked : kFence);
#endif
  return p;
}

}  // namespace shmtensor
