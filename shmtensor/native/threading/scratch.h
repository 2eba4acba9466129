// Scratch memory that each thread reuses: mapping new pages would cost more than the work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace shmtensor {

class Scratch {
 public:
  ~Scratch() { free(memory_); }
  // Uninitialised memory for at least n elements, aligned to a cache line; valid until the next call.
  template <class T>
  T* get(int64_t n) {
    const size_t nbytes = (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
    if (nbytes > size_) {
      free(memory_);
      memory_ = aligned_alloc(64, nbytes);
      size_ = memory_ ? nbytes : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

inline thread_local Scratch scratch;

}  // namespace shmtensor
