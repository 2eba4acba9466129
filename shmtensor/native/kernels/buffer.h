// Temporary memory of a kernel.
#pragma once

#include <cstdint>
#include <new>

#include "python.h"

namespace shmtensor {

// Uninitialised memory for n elements, outside of Python's heap; needs no GIL; for 0 elements none. Throws std::bad_alloc,
// which kernels/bind.cc converts to MemoryError.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t n) : memory_(n ? static_cast<T*>(PyMem_RawMalloc(sizeof(T) * static_cast<size_t>(n))) : nullptr) {
    if (n && !memory_) throw std::bad_alloc();
  }
  ~Buffer() { PyMem_RawFree(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return memory_; }

 private:
  T* memory_;
};

}  // namespace shmtensor
