// Reductions of NCCL's data types, rank after rank; 16-bit floats are rounded at each step.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nccl.h"

namespace standin {

struct Bfloat16 {
  uint16_t bits;
  Bfloat16(float x = 0) {
    uint32_t u;
    memcpy(&u, &x, 4);
    bits = std::isnan(x) ? 0x7FC0 : static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
  }
  operator float() const {
    uint32_t u = static_cast<uint32_t>(bits) << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
  }
};

inline size_t item_size(int datatype) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return datatype >= 0 && datatype <= ncclBfloat16 ? kSizes[datatype] : 0;
}

template <class T, class Wide>
T combined(T a, T b, int op) {
  Wide x = a, y = b;
  switch (op) {
    case ncclProd: return static_cast<T>(x * y);
    case ncclMax: return static_cast<T>(y > x || y != y ? y : x);
    case ncclMin: return static_cast<T>(y < x || y != y ? y : x);
    default: return static_cast<T>(x + y);
  }
}

template <class T, class Wide = T>
void reduce_as(char* to, const std::vector<const char*>& operands, size_t bytes, int op) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T result, next;
    memcpy(&result, operands[0] + at, sizeof result);
    for (size_t rank = 1; rank < operands.size(); rank++) {
      memcpy(&next, operands[rank] + at, sizeof next);
      result = combined<T, Wide>(result, next, op);
    }
    if (op == ncclAvg) result = static_cast<T>(static_cast<Wide>(result) / static_cast<Wide>(operands.size()));
    memcpy(to + at, &result, sizeof result);
  }
}

// Writes the reduction of `operands` to `to`, which may be one of them. Integers wrap.
inline void reduce(char* to, const std::vector<const char*>& operands, size_t bytes, int datatype, int op) {
  switch (datatype) {
    case ncclInt8: return reduce_as<int8_t, int>(to, operands, bytes, op);
    case ncclUint8: return reduce_as<uint8_t>(to, operands, bytes, op);
    case ncclInt32: return reduce_as<int32_t, int64_t>(to, operands, bytes, op);
    case ncclUint32: return reduce_as<uint32_t>(to, operands, bytes, op);
    case ncclInt64: return reduce_as<int64_t, __int128>(to, operands, bytes, op);
    case ncclUint64: return reduce_as<uint64_t>(to, operands, bytes, op);
    case ncclFloat16: return reduce_as<_Float16, float>(to, operands, bytes, op);
    case ncclFloat32: return reduce_as<float>(to, operands, bytes, op);
    case ncclFloat64: return reduce_as<double>(to, operands, bytes, op);
    default: return reduce_as<Bfloat16, float>(to, operands, bytes, op);
  }
}

}  // namespace standin
