// bfloat16, which NumPy does not have: the upper half of a float32. half/bfloat16_dtype.cc registers it.
#pragma once

#include <stdint.h>

#include <cstring>

namespace shmtensor {

// Arithmetic in float, rounded to nearest even when stored; a NaN stays one.
struct Bfloat16 {
  uint16_t bits;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    uint32_t b;
    memcpy(&b, &value, 4);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>((nan ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1)) >> 16);
  }

  operator float() const {
    const uint32_t b = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &b, 4);
    return value;
  }
};

extern int bfloat16_num;  // NumPy's number of the dtype in this process; users' begin at 256

// Its number in messages, which others read: NumPy's differs between processes. NumPy's own numbers
// end before it (NPY_NTYPES_LEGACY is 24).
constexpr int kBfloat16Wire = 24;
inline int wire_of(int type) { return type == bfloat16_num ? kBfloat16Wire : type; }
inline int type_of(int wire) { return wire == kBfloat16Wire ? bfloat16_num : wire; }

}  // namespace shmtensor
