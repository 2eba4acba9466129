// Products of many small float32 pass through double's denormal numbers, which are slow and of no
// account for them: zero does. Of double they count.
#pragma once

namespace shmtensor {

// Inlined always: levels include it, too, and the linker would keep one copy for all of them.
template <class T>
struct Flush {};
#if defined(__x86_64__)
constexpr bool kFlushes = true;
template <>
struct Flush<float> {
  unsigned before;
  __attribute__((always_inline)) Flush() : before(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(before | 0x8000);
  }
  __attribute__((always_inline)) ~Flush() { __builtin_ia32_ldmxcsr(before); }
};
#else
constexpr bool kFlushes = false;
#endif

}  // namespace shmtensor
