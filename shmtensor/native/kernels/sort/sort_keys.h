// Elements as unsigned keys in the same order: a NaN is the largest, both zeros are equal.
#pragma once

#include <cstdint>
#include <cstring>

namespace shmtensor {

// From the bits, without a branch: -0 becomes 0, and NaN (bits above infinity) becomes the maximum.
template <class U>
inline U key_of_bits(U u, U infinity) {
  constexpr int kSign = 8 * sizeof(U) - 1;
  constexpr U sign_bit = U(1) << kSign;
  const U sign_mask = U(0) - (u >> kSign);  // all ones for negative numbers
  const U key = static_cast<U>((u ^ (sign_mask | sign_bit)) + (u == sign_bit));
  return key | (U(0) - static_cast<U>((u & ~sign_bit) > infinity));
}

inline uint32_t key_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return key_of_bits<uint32_t>(u, 0x7f800000u);
}

inline uint64_t key_of(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return key_of_bits<uint64_t>(u, uint64_t(0x7ff) << 52);
}

inline uint32_t key_of(int8_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint32_t key_of(int16_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint32_t key_of(uint8_t x) { return x; }
inline uint32_t key_of(uint16_t x) { return x; }
inline uint32_t key_of(uint32_t x) { return x; }
inline uint64_t key_of(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t(1) << 63); }
inline uint64_t key_of(uint64_t x) { return x; }

template <class T>
using KeyOf = decltype(key_of(T()));

// A key and the index of its element.
template <class K>
struct Pair {
  K key;
  uint32_t index;
};

template <class K>
bool operator<(const Pair<K>& a, const Pair<K>& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}

}  // namespace shmtensor
