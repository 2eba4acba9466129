// Arithmetic and comparison of rows where one operand is a scalar per row or the same row for all, as in broadcasting
// (n, m) with (n, 1) or (m,). Compiled once per instruction-set level.
//
// A call of NumPy's loop costs up to 200 ns, as much as a thousand elements; here one call computes many rows.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum RowOp {
  kSumRows,
  kDifferenceRows,
  kProductRows,
  kQuotientRows,  // floating-point only
  kEqualRows,
  kUnequalRows,
  kLessRows,
  kLessEqualRows,
  kGreaterRows,
  kGreaterEqualRows,
  kRowOps
};

// One operand: its data, bytes from row to row, and whether a row is contiguous elements or a scalar.
struct RowOperand {
  const char* data;
  int64_t row;
  bool is_vector;
};

// Computes `rows` rows of n contiguous results each.
using RowKernel = void (*)(RowOperand x, RowOperand y, char* out, int64_t out_row, int64_t rows,
                           int64_t n);

// T: float, double, uint32_t, uint64_t (integers wrap, and have no comparisons). nullptr: no kernel.
template <class T>
RowKernel row_kernel(RowOp which);

// By a ufunc's name and the NumPy type of its inputs.
RowKernel named_row_kernel(const char* name, int type);

}  // namespace shmtensor
