// Flushes denormal numbers to zero in products of float32: their intermediate results in double may be denormal, which
// is slow, and are negligible in float32. Products of float64 keep denormals.
#pragma once

namespace shmtensor {

// Always inlined: the levels include it, too, and the linker would keep one copy for all of them.
template <class T>
struct Flush {};
#if defined(__x86_64__)
constexpr bool kCanFlush = true;
template <>
struct Flush<float> {
  unsigned saved;
  __attribute__((always_inline)) Flush() : saved(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(saved | 0x8000); }
  __attribute__((always_inline)) ~Flush() { __builtin_ia32_ldmxcsr(saved); }
};
#else
constexpr bool kCanFlush = false;
#endif

}  // namespace shmtensor
