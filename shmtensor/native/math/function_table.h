// Functions of one or two numbers, once per instruction-set level; function_table.cc chooses the level and
// makes the ufunc loops of them.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum Unary {
  kErrorFunction,
  kErrorComplement,
  kErrorInverse,
  kLogGamma,
  kDigamma,
  kI0,
  kI1,
  kI0e,
  kI1e,
  kSinc,
  kSine,
  kCosine,
  kFraction,
  kSignOf,
  kPositivePart,
  kJ0,
  kJ1,
  kY0,
  kY1,
  kK0,
  kK1,
  kK0e,
  kK1e,
  kSphericalJ0,
  kErfcScaled,
  kNormal,
  kLogNormal,
  kNormalQuantile,
  kTrigamma,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kTangent,
  kArcsine,
  kArccosine,
  kArctangent,
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
  kLeak,
  kTruncDivide,
  kGammaLower,
  kGammaUpper,
  kCopySign,
  kArctangent2,
  kPower,
  kBinaries
};

// nullptr: NumPy's loop is as good.
template <class T>
struct Functions {
  void (*unary[kUnaries])(const T* x, T* out, int64_t n);
  void (*binary[kBinaries])(const T* x, const T* y, T* out, int64_t n);
};

enum Whole { kWholeFmod, kWholeRemainder, kWholeFloorDivide, kWholeTruncDivide, kWholes };

// Of whole numbers: int8, uint8, int16, int32, int64.
template <class T>
struct WholeFunctions {
  void (*binary[kWholes])(const T* x, const T* y, T* out, int64_t n);
};

// What is not 0 counts as true. By the dtype of the operands: float and double, of which NumPy's are not
// vectors.
enum Logical { kAnd, kOr, kXor, kLogicals };
template <class T>
struct Truths {
  void (*binary[kLogicals])(const T* x, const T* y, uint8_t* out, int64_t n);
  void (*negation)(const T* x, uint8_t* out, int64_t n);
};
template <class T>
const Truths<T>& truths();

// c (+)= a b of small matrices: element (i, k) of a at i * row + k * step, b and c in rows.
template <class T>
using MatrixProduct = void (*)(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c,
                              int64_t ldc, int64_t m, int64_t n, int64_t depth, bool add);

template <class T>
const Functions<T>& functions();
template <class T>
MatrixProduct<T> matrix_products();  // float, double, uint8, uint16, uint32, uint64
template <class T>
const WholeFunctions<T>& whole_functions();

}  // namespace shmtensor
