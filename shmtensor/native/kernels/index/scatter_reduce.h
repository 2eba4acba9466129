// What becomes of an element and a value that is brought to it: of all dtypes, and how.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/dtypes.h"

namespace shmtensor {

// Whole numbers wrap.
template <class T>
inline T times(T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else
    return x * y;
}

template <class T>
inline T plus(T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  else
    return x + y;
}

// first ? a : b, by arithmetic: nobody can foresee which.
template <class T>
inline T either(bool first, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(b ^ ((a ^ b) & static_cast<T>(-static_cast<int64_t>(first))));
  } else {
    Bits x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    y ^= (x ^ y) & static_cast<Bits>(-static_cast<int64_t>(first));
    memcpy(&b, &y, sizeof b);
    return b;
  }
}

// What becomes of an element and a value that is brought to it; a NaN is both the largest and the
// smallest.
enum How { kPut, kAdd, kMultiply, kLargest, kSmallest };

template <How kHow, class T>
inline void join(T* to, T v) {
  if constexpr (kHow == kPut) {
    *to = v;
  } else if constexpr (kHow == kAdd) {
    *to = plus(*to, v);
  } else if constexpr (kHow == kMultiply) {
    *to = times(*to, v);
  } else if constexpr (kHow == kLargest) {
    *to = either((v > *to) | (v != v), v, *to);
  } else {
    *to = either((v < *to) | (v != v), v, *to);
  }
}

// A complex number, which is only ever put or added.
template <class T>
struct Complex {
  T re, im;
  Complex operator+(const Complex& other) const { return {re + other.re, im + other.im}; }
};

// Calls f with a value of the type that is added.
template <class F>
bool with_sum(int type, F&& f) {
  if (type == NPY_CFLOAT) {
    f(Complex<float>());
  } else if (type == NPY_CDOUBLE) {
    f(Complex<double>());
  } else {
    return with_type(type, f);
  }
  return true;
}

// The sum of bools is their largest.
inline How in_dtype(long how, PyArrayObject* out) {
  return how == kAdd && PyArray_TYPE(out) == NPY_BOOL ? kLargest : static_cast<How>(how);
}

}  // namespace shmtensor
