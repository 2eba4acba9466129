// One instruction-set level of broadcast_loops.h. broadcast_loops.simd.cc includes it; setup.py compiles that once per
// level, with SHMTENSOR_LEVEL defined. It uses no inline code of the standard library (cpu_capability.h).
#include <stdint.h>

#include "numpy_loops/broadcast_loops.h"

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

// An element's operands are read before it is written, so that the result may be one of the operands.
template <class F, class T, class R>
void apply_rows(RowOperand x, RowOperand y, char* to, int64_t out_row, int64_t rows, int64_t n) {
  for (; rows > 0; --rows, x.data += x.row, y.data += y.row, to += out_row) {
    const T* a = reinterpret_cast<const T*>(x.data);
    const T* b = reinterpret_cast<const T*>(y.data);
    R* out = reinterpret_cast<R*>(to);
    if (x.is_vector && y.is_vector) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], b[i]);
    } else if (x.is_vector) {
      const T scalar = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], scalar);
    } else if (y.is_vector) {
      const T scalar = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(scalar, b[i]);
    } else {
      const R scalar = F::of(*a, *b);
      for (int64_t i = 0; i < n; ++i) out[i] = scalar;
    }
  }
}

struct Add {
  template <class T>
  static T of(T x, T y) {
    return x + y;
  }
};
struct Subtract {
  template <class T>
  static T of(T x, T y) {
    return x - y;
  }
};
struct Multiply {
  template <class T>
  static T of(T x, T y) {
    return x * y;
  }
};
struct Divide {
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

#define ROWS(name, operation, result) apply_rows<operation, T, result>,
template <class T>
constexpr RowKernel floating_rows[kRowOperations] = {ROW_OPERATIONS(ROWS) FLOATING_ROW_OPERATIONS(ROWS)};
template <class T>
constexpr RowKernel integer_rows[kRowOperations] = {ROW_OPERATIONS(ROWS)};  // they wrap; the others are nullptr
#undef ROWS

const RowKernel* row_kernels_of(float) { return floating_rows<float>; }
const RowKernel* row_kernels_of(double) { return floating_rows<double>; }
const RowKernel* row_kernels_of(uint32_t) { return integer_rows<uint32_t>; }
const RowKernel* row_kernels_of(uint64_t) { return integer_rows<uint64_t>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
