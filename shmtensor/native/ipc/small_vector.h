// Few: a vector for things of which there is mostly one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shmtensor {

// A vector whose first few elements need no allocation: most messages name one block. For plain data.
template <class T>
class Few {
 public:
  Few() = default;
  ~Few() { clear(); }
  Few(const Few&) = delete;
  Few& operator=(const Few&) = delete;
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + n_; }
  uint32_t size() const { return n_; }
  T& operator[](size_t i) { return data_[i]; }
  void push_back(T value) {
    if (n_ == room_) grow();
    data_[n_++] = value;
  }
  void clear() {
    if (data_ != few_) delete[] data_;
    data_ = few_;
    n_ = 0;
    room_ = kFew;
  }

 private:
  static constexpr uint32_t kFew = 4;
  void grow() {
    T* larger = new T[4 * room_];
    for (uint32_t i = 0; i < n_; i++) larger[i] = data_[i];
    if (data_ != few_) delete[] data_;
    data_ = larger;
    room_ *= 4;
  }
  T few_[kFew];
  T* data_ = few_;
  uint32_t n_ = 0, room_ = kFew;
};

}  // namespace shmtensor
