// How scatter combines an element with a value, for all dtypes.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/dtypes.h"

namespace shmtensor {

// Integers wrap.
template <class T>
inline T wrapping_multiply(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else return x * y;
}

template <class T>
inline T wrapping_add(T x, T y) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  else return x + y;
}

// condition ? a : b by arithmetic, since the branch would be unpredictable.
template <class T>
inline T select(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(b ^ ((a ^ b) & static_cast<T>(-static_cast<int64_t>(condition))));
  } else {
    Bits x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    y ^= (x ^ y) & static_cast<Bits>(-static_cast<int64_t>(condition));
    memcpy(&b, &y, sizeof b);
    return b;
  }
}

// A NaN is both the maximum and the minimum.
enum ScatterReduce { kAssign, kAdd, kMultiply, kMax, kMin };

template <ScatterReduce kReduce, class T>
inline void reduce_element(T* to, T v) {
  if constexpr (kReduce == kAssign) {
    *to = v;
  } else if constexpr (kReduce == kAdd) {
    *to = wrapping_add(*to, v);
  } else if constexpr (kReduce == kMultiply) {
    *to = wrapping_multiply(*to, v);
  } else if constexpr (kReduce == kMax) {
    *to = select((v > *to) | (v != v), v, *to);
  } else {
    *to = select((v < *to) | (v != v), v, *to);
  }
}

// A complex number, which is only assigned or added.
template <class T>
struct Complex {
  T re, im;
  Complex operator+(const Complex& other) const { return {re + other.re, im + other.im}; }
};

// Calls f with a value of the type of a sum.
template <class F>
bool with_sum_type(int type, F&& f) {
  if (type == NPY_CFLOAT) {
    f(Complex<float>());
  } else if (type == NPY_CDOUBLE) {
    f(Complex<double>());
  } else {
    return with_type(type, f);
  }
  return true;
}

// The sum of bools is their maximum.
inline ScatterReduce reduction_for(long reduction, PyArrayObject* out) {
  return reduction == kAdd && PyArray_TYPE(out) == NPY_BOOL ? kMax : static_cast<ScatterReduce>(reduction);
}

}  // namespace shmtensor
