// One instruction-set level of broadcast_loops.h. Included by broadcast_loops.simd.cc, broadcast_loops.simd.cc,
// broadcast_loops.simd.cc, each of which defines SHMTENSOR_LEVEL first. No inline code of the standard library
// (cpu_capability.h).
#include <stdint.h>

#include "ufunc/broadcast_loops.h"

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

// Each reads its operands before it writes the element, so that a result may be written over one.
template <class F, class T, class R>
void by_rows(RowOperand x, RowOperand y, char* to, int64_t out_row, int64_t rows, int64_t n) {
  for (; rows > 0; --rows, x.at += x.row, y.at += y.row, to += out_row) {
    const T* a = reinterpret_cast<const T*>(x.at);
    const T* b = reinterpret_cast<const T*>(y.at);
    R* out = reinterpret_cast<R*>(to);
    if (x.wide && y.wide) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], b[i]);
    } else if (x.wide) {
      const T number = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], number);
    } else if (y.wide) {
      const T number = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(number, b[i]);
    } else {
      const R number = F::of(*a, *b);
      for (int64_t i = 0; i < n; ++i) out[i] = number;
    }
  }
}

struct SumOf {
  template <class T>
  static T of(T x, T y) {
    return x + y;
  }
};
struct DifferenceOf {
  template <class T>
  static T of(T x, T y) {
    return x - y;
  }
};
struct ProductOf {
  template <class T>
  static T of(T x, T y) {
    return x * y;
  }
};
struct QuotientOf {
  template <class T>
  static T of(T x, T y) {
    return x / y;
  }
};
struct Equal {
  template <class T>
  static bool of(T x, T y) {
    return x == y;
  }
};
struct Unequal {
  template <class T>
  static bool of(T x, T y) {
    return x != y;
  }
};
struct Less {
  template <class T>
  static bool of(T x, T y) {
    return x < y;
  }
};
struct LessEqual {
  template <class T>
  static bool of(T x, T y) {
    return x <= y;
  }
};
struct Greater {
  template <class T>
  static bool of(T x, T y) {
    return x > y;
  }
};
struct GreaterEqual {
  template <class T>
  static bool of(T x, T y) {
    return x >= y;
  }
};

template <class T>
constexpr RowKernel floating_rows[kRowwise] = {
    by_rows<SumOf, T, T>,       by_rows<DifferenceOf, T, T>,   by_rows<ProductOf, T, T>,
    by_rows<QuotientOf, T, T>,  by_rows<Equal, T, uint8_t>,    by_rows<Unequal, T, uint8_t>,
    by_rows<Less, T, uint8_t>,  by_rows<LessEqual, T, uint8_t>, by_rows<Greater, T, uint8_t>,
    by_rows<GreaterEqual, T, uint8_t>,
};
template <class T>
constexpr RowKernel whole_rows[kRowwise] = {by_rows<SumOf, T, T>, by_rows<DifferenceOf, T, T>,
                                            by_rows<ProductOf, T, T>};

const RowKernel* rows_of(float) { return floating_rows<float>; }
const RowKernel* rows_of(double) { return floating_rows<double>; }
const RowKernel* rows_of(uint32_t) { return whole_rows<uint32_t>; }
const RowKernel* rows_of(uint64_t) { return whole_rows<uint64_t>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
