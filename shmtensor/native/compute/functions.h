// Functions of one or two numbers, once per instruction-set level; functions.cc chooses the level and
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

template <class T>
const Functions<T>& functions();
template <class T>
const WholeFunctions<T>& whole_functions();

}  // namespace shmtensor
