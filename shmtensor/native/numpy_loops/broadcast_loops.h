// Arithmetic and comparison of rows where one operand is a scalar per row or the same row for all, as in broadcasting
// (n, m) with (n, 1) or (m,). Compiled once per instruction-set level.
//
// A call of NumPy's loop costs up to 200 ns, as much as a thousand elements; here one call computes many rows.
#pragma once

#include <stdint.h>

namespace shmtensor {

// X(NumPy's name, the operation, the type of its results on T). The tables of kernels and of names are made from these.
#define ROW_OPERATIONS(X)  \
  X(add, Add, T)           \
  X(subtract, Subtract, T) \
  X(multiply, Multiply, T)
// Of floating-point numbers only.
#define FLOATING_ROW_OPERATIONS(X)  \
  X(divide, Divide, T)              \
  X(equal, Equal, uint8_t)          \
  X(not_equal, Unequal, uint8_t)    \
  X(less, Less, uint8_t)            \
  X(less_equal, LessEqual, uint8_t) \
  X(greater, Greater, uint8_t)      \
  X(greater_equal, GreaterEqual, uint8_t)
#define COUNT_OPERATION(...) +1
constexpr int kRowOperations = 0 ROW_OPERATIONS(COUNT_OPERATION) FLOATING_ROW_OPERATIONS(COUNT_OPERATION);
#undef COUNT_OPERATION

// One operand: its data, bytes from row to row, and whether a row is contiguous elements or a scalar.
struct RowOperand {
  const char* data;
  int64_t row;
  bool is_vector;
};

// Computes `rows` rows of n contiguous results each.
using RowKernel = void (*)(RowOperand x, RowOperand y, char* out, int64_t out_row, int64_t rows, int64_t n);

// By a ufunc's name and the NumPy type of its inputs.
RowKernel named_row_kernel(const char* name, int type);

}  // namespace shmtensor
