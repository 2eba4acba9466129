// SmallVector: a vector without allocation for few elements.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shmtensor {

// The first elements need no allocation: most messages refer to one block. For plain data.
template <class T>
class SmallVector {
 public:
  SmallVector() = default;
  ~SmallVector() { clear(); }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + n_; }
  uint32_t size() const { return n_; }
  T& operator[](size_t i) { return data_[i]; }
  void push_back(T value) {
    if (n_ == capacity_) grow();
    data_[n_++] = value;
  }
  void clear() {
    if (data_ != inline_) delete[] data_;
    data_ = inline_;
    n_ = 0;
    capacity_ = kInlineSize;
  }

 private:
  static constexpr uint32_t kInlineSize = 4;
  void grow() {
    T* larger = new T[4 * capacity_];
    for (uint32_t i = 0; i < n_; i++) larger[i] = data_[i];
    if (data_ != inline_) delete[] data_;
    data_ = larger;
    capacity_ *= 4;
  }
  T inline_[kInlineSize];
  T* data_ = inline_;
  uint32_t n_ = 0, capacity_ = kInlineSize;
};

}  // namespace shmtensor
