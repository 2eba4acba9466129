// A float16 type for compilers without one: g++ 11, and g++ 12 for aarch64.
#pragma once

#include <stdint.h>

#include <cstring>

namespace shmtensor {

// Arithmetic in float, rounded when stored.
struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(float value) : bits(round_bits(value)) {}

  operator float() const {
    uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu, out;
    if (magnitude >= 0x7c00u) {
      out = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    } else if (magnitude >= 0x400u) {
      out = sign | ((magnitude << 13) + 0x38000000u);
    } else {
      float value = static_cast<float>(magnitude) * 0x1p-24f;
      return sign ? -value : value;
    }
    float value;
    memcpy(&value, &out, 4);
    return value;
  }

 private:
  static uint16_t round_bits(float value) {
    uint32_t x;
    memcpy(&x, &value, 4);
    uint16_t sign = x >> 16 & 0x8000u;
    x &= 0x7fffffffu;
    if (x > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (x >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (x < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the bottom
      float shifted;
      memcpy(&shifted, &x, 4);
      shifted += 0.5f;
      memcpy(&x, &shifted, 4);
      return static_cast<uint16_t>(sign | (x - 0x3f000000u));
    }
    x += 0xc8000fffu + (x >> 13 & 1);  // exponent, and round half to even
    return static_cast<uint16_t>(sign | x >> 13);
  }
};

}  // namespace shmtensor
