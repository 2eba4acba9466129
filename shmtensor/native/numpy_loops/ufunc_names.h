// Properties of NumPy's ufuncs by name.
#pragma once

#include <cstring>

namespace shmtensor {

template <size_t n>
bool is_among(const char* const (&names)[n], const char* name) {
  for (const char* candidate : names) {
    if (!strcmp(candidate, name)) return true;
  }
  return false;
}

// Is the ufunc memory-bound?
inline bool is_cheap(const char* name) {
  static constexpr const char* kNames[] = {
      "add",           "subtract",    "multiply",   "divide",      "negative",    "positive",    "absolute",
      "fabs",          "maximum",     "minimum",    "fmax",        "fmin",        "square",      "sqrt",
      "sign",          "reciprocal",  "equal",      "not_equal",   "less",        "less_equal",  "greater",
      "greater_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or",
      "bitwise_xor",   "invert",      "left_shift", "right_shift", "isnan",       "isinf",       "isfinite",
      "signbit",       "conjugate",   "floor",      "ceil",        "trunc",       "rint",        "copysign",
  };
  return is_among(kNames, name);
}

// Does NumPy have loops for any Python int, however large?
inline bool is_comparison(const char* name) {
  static constexpr const char* kNames[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
  return is_among(kNames, name);
}

// Is integer division by zero an error?
inline bool is_division(const char* name) {
  static constexpr const char* kNames[] = {"floor_divide", "remainder", "fmod", "trunc_divide"};
  return is_among(kNames, name);
}

}  // namespace shmtensor
