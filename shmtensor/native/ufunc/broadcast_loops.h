// Arithmetic and comparison of rows of which one operand's is a single number, or is the same for all:
// what broadcasting makes of (n, m) beside (n, 1) or (m,). Once per instruction-set level.
//
// NumPy's loops take up to 200 ns a call, as long as a thousand numbers need: here one call is many rows.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum Rowwise {
  kSumRows,
  kDifferenceRows,
  kProductRows,
  kQuotientRows,  // of floating numbers only
  kEqualRows,
  kUnequalRows,
  kLessRows,
  kLessEqualRows,
  kGreaterRows,
  kGreaterEqualRows,
  kRowwise
};

// One operand: where it is, bytes from row to row, and whether its elements lie side by side or are one.
struct RowOperand {
  const char* at;
  int64_t row;
  bool wide;
};

// `rows` rows of n results each, that lie side by side.
using RowKernel = void (*)(RowOperand x, RowOperand y, char* out, int64_t out_row, int64_t rows,
                           int64_t n);

// nullptr: there is none. T: float, double, uint32_t, uint64_t (whole numbers wrap; those are not compared).
template <class T>
RowKernel row_kernel(Rowwise which);

// By a ufunc's name and the NumPy type of its inputs.
RowKernel named_row_kernel(const char* name, int type);

}  // namespace shmtensor
