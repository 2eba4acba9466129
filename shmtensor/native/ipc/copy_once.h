// Copies out of memory that other processes may write to at any time.
#pragma once

#include <cstddef>
#include <cstring>

namespace shmtensor {

// memcpy, after which the compiler uses the copy and does not read `from` again: the empty assembly may have changed
// either, as far as it knows. What is checked is then what is used.
inline void copy_once(void* to, const void* from, size_t n) {
  memcpy(to, from, n);
  asm volatile("" : : "r"(to) : "memory");
}

template <class T>
inline T copy_once(const T& from) {
  T out;
  copy_once(static_cast<void*>(&out), static_cast<const void*>(&from), sizeof out);
  return out;
}

}  // namespace shmtensor
