// Functions of one or two numbers, compiled once per instruction-set level; function_table.cc chooses the level, and
// ufunc/loops.cc wraps them as ufunc loops.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shmtensor {

template <class T>
using FunctionOfOne = void (*)(const T* x, T* out, int64_t n);
template <class T>
using FunctionOfTwo = void (*)(const T* x, const T* y, T* out, int64_t n);

template <class F>
struct NamedFunction {
  const char* name;
  F function;  // nullptr: NumPy's loop is as fast
};
template <class F>
struct NamedFunctions {
  const NamedFunction<F>* first;
  size_t n;
};

template <class T>
struct Functions {
  NamedFunctions<FunctionOfOne<T>> unary;
  NamedFunctions<FunctionOfTwo<T>> binary;
};

enum IntegerBinary { kIntegerFmod, kIntegerRemainder, kIntegerFloorDivide, kIntegerTruncDivide, kIntegerBinaries };

// For integers: int8, uint8, int16, int32, int64.
template <class T>
struct IntegerFunctions {
  void (*binary[kIntegerBinaries])(const T* x, const T* y, T* out, int64_t n);
};

// Nonzero is true. For float and double, whose NumPy loops are not vectorised.
enum Logical { kAnd, kOr, kXor, kLogicals };
template <class T>
struct LogicalFunctions {
  void (*binary[kLogicals])(const T* x, const T* y, uint8_t* out, int64_t n);
  void (*negation)(const T* x, uint8_t* out, int64_t n);
};
template <class T>
const LogicalFunctions<T>& logical_functions();

// c (+)= a b of small matrices: element (i, k) of a at i * row + k * step, b and c in rows.
template <class T>
using MatrixProduct = void (*)(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c,
                              int64_t ldc, int64_t m, int64_t n, int64_t depth, bool add);

template <class T>
const Functions<T>& functions();
template <class T>
MatrixProduct<T> matrix_products();  // float, double, uint8, uint16, uint32, uint64
template <class T>
const IntegerFunctions<T>& integer_functions();

}  // namespace shmtensor
