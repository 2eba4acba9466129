// Functions of one or two numbers, compiled once per instruction-set level; function_table.cc chooses the level, and
// numpy_loops/loops.cc wraps them as ufunc loops.
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

// A line per function: X(NumPy's name, the loop on T). The tables of loops, in function_table.simd.h, and those of
// names, in numpy_loops/loops.cc, are made from these lists.
//
// Of integers: int8, uint8, int16, int32, int64.
#define INTEGER_FUNCTIONS(X)                          \
  X(fmod, divide_integers<kTruncRemainder, T>)        \
  X(remainder, divide_integers<kFloorRemainder, T>)   \
  X(floor_divide, divide_integers<kFloorQuotient, T>) \
  X(trunc_divide, divide_integers<kTruncQuotient, T>)

// Nonzero is true. For float and double, whose NumPy loops are not vectorised.
#define LOGICAL_FUNCTIONS(X)      \
  X(logical_and, logical<And, T>) \
  X(logical_or, logical<Or, T>)   \
  X(logical_xor, logical<Xor, T>)

#define COUNT_FUNCTION(...) +1
constexpr int kIntegers = 0 INTEGER_FUNCTIONS(COUNT_FUNCTION);
constexpr int kLogicals = 0 LOGICAL_FUNCTIONS(COUNT_FUNCTION);
#undef COUNT_FUNCTION

template <class T>
struct Functions {
  NamedFunctions<FunctionOfOne<T>> unary;
  NamedFunctions<FunctionOfTwo<T>> binary;
};
template <class T>
struct IntegerFunctions {
  void (*binary[kIntegers])(const T* x, const T* y, T* out, int64_t n);
};
template <class T>
struct LogicalFunctions {
  void (*binary[kLogicals])(const T* x, const T* y, uint8_t* out, int64_t n);
  void (*negation)(const T* x, uint8_t* out, int64_t n);
};
template <class T>
const LogicalFunctions<T>& logical_functions();

// c (+)= a b of small matrices: element (i, k) of a at i * row + k * step, b and c in rows.
template <class T>
using MatrixProduct = void (*)(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t m,
                               int64_t n, int64_t depth, bool add);

template <class T>
const Functions<T>& functions();
template <class T>
MatrixProduct<T> matrix_products();  // float, double, uint8, uint16, uint32, uint64
template <class T>
const IntegerFunctions<T>& integer_functions();

}  // namespace shmtensor
