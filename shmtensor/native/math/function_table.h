// Functions of one or two numbers, compiled once per instruction-set level; function_table.cc chooses the level, and
// ufunc/loops.cc wraps them as ufunc loops.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum Unary {
  kErf,
  kErfc,
  kErfinv,
  kLgamma,
  kDigamma,
  kI0,
  kI1,
  kI0e,
  kI1e,
  kSinc,
  kSin,
  kCos,
  kFrac,
  kSignOf,
  kRelu,
  kJ0,
  kJ1,
  kY0,
  kY1,
  kK0,
  kK1,
  kK0e,
  kK1e,
  kSphericalJ0,
  kErfcx,
  kNdtr,
  kLogNdtr,
  kNdtri,
  kTrigamma,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kTan,
  kArcsin,
  kArccos,
  kArctan,
  kSinh,
  kCosh,
  kTanh,
  kArcsinh,
  kArccosh,
  kArctanh,
  kUnaries
};
enum Binary {
  kFmod,
  kRemainder,
  kFloorDivide,
  kHypot,
  kLogAddExp,
  kLogAddExp2,
  kNextAfter,
  kPrelu,
  kTruncDivide,
  kGammainc,
  kGammaincc,
  kCopySign,
  kArctan2,
  kPower,
  kBinaries
};

// nullptr: NumPy's loop is as fast.
template <class T>
struct Functions {
  void (*unary[kUnaries])(const T* x, T* out, int64_t n);
  void (*binary[kBinaries])(const T* x, const T* y, T* out, int64_t n);
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
