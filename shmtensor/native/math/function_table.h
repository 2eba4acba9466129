// Functions of one or two numbers, compiled once per instruction-set level; function_table.cc chooses the level, and
// ufunc/loops.cc wraps them as ufunc loops.
#pragma once

#include <stdint.h>

namespace shmtensor {

// A line per function: X(NumPy's name, the loop on T). The tables of loops, in function_table.simd.h, and those of names,
// in ufunc/loops.cc, are made from these lists. A loop is nullptr where kernel_table.h has the function of float32, or
// NumPy's is as fast.
#define UNARY_FUNCTIONS(X)                                 \
  X(erf, erf_loop)                                         \
  X(erfc, erfc_loop)                                       \
  X(erfinv, erfinv_loop)                                   \
  X(lgamma, unary<LogGamma, T>)                            \
  X(digamma, unary<Digamma, T>)                            \
  X(i0, unary<Bessel<0>, T>)                               \
  X(i1, unary<Bessel<1>, T>)                               \
  X(i0e, unary<BesselScaled<0>, T>)                        \
  X(i1e, unary<BesselScaled<1>, T>)                        \
  X(sinc, unary<Sinc, T>)                                  \
  X(sin, kIsDouble<T> ? unary<Sin, T> : nullptr)           \
  X(cos, kIsDouble<T> ? unary<Cos, T> : nullptr)           \
  X(frac, fraction<T>)                                     \
  X(signs, sign<T>)                                        \
  X(relu, positive_part<T>)                                \
  X(j0, unary<BesselFirst<0>, T>)                          \
  X(j1, unary<BesselFirst<1>, T>)                          \
  X(y0, unary<BesselSecond<0>, T>)                         \
  X(y1, unary<BesselSecond<1>, T>)                         \
  X(k0, unary<BesselDecaying<0, false>, T>)                \
  X(k1, unary<BesselDecaying<1, false>, T>)                \
  X(k0e, unary<BesselDecaying<0, true>, T>)                \
  X(k1e, unary<BesselDecaying<1, true>, T>)                \
  X(spherical_j0, unary<SphericalBessel, T>)               \
  X(erfcx, unary<ErfcScaled, T>)                           \
  X(ndtr, unary<NormalDistribution, T>)                    \
  X(log_ndtr, unary<LogNormalDistribution, T>)             \
  X(ndtri, unary<NormalQuantile, T>)                       \
  X(trigamma, unary<Trigamma, T>)                          \
  X(exp, kIsDouble<T> ? kUnlessAvx512<Exp, T> : nullptr)   \
  X(exp2, unless_avx512<T>(exp2_loop))                     \
  X(expm1, kUnlessAvx512<Expm1, T>)                        \
  X(log, kIsDouble<T> ? kUnlessAvx512<Log, T> : nullptr)   \
  X(log2, unless_avx512<T>(log2_loop))                     \
  X(log10, unless_avx512<T>(log10_loop))                   \
  X(log1p, unless_avx512<T>(log1p_loop))                   \
  X(tan, kUnlessAvx512<Tan, T>)                            \
  X(arcsin, kUnlessAvx512<Asin, T>)                        \
  X(arccos, kUnlessAvx512<Acos, T>)                        \
  X(arctan, kUnlessAvx512<Atan, T>)                        \
  X(sinh, kUnlessAvx512<Sinh, T>)                          \
  X(cosh, kUnlessAvx512<Cosh, T>)                          \
  X(tanh, kIsDouble<T> ? kUnlessAvx512<Tanh, T> : nullptr) \
  X(arcsinh, kUnlessAvx512<Asinh, T>)                      \
  X(arccosh, kUnlessAvx512<Acosh, T>)                      \
  X(arctanh, kUnlessAvx512<Atanh, T>)

#define BINARY_FUNCTIONS(X)                                                   \
  X(fmod, kFuses || !kIsDouble<T> ? binary<Fmod, T> : nullptr)                \
  X(remainder, kFuses || !kIsDouble<T> ? binary<Remainder, T> : nullptr)      \
  X(floor_divide, kFuses || !kIsDouble<T> ? binary<FloorDivide, T> : nullptr) \
  X(hypot, kFuses || !kIsDouble<T> ? binary<Hypot, T> : nullptr)              \
  X(logaddexp, log_add<T, false>)                                             \
  X(logaddexp2, log_add<T, true>)                                             \
  X(nextafter, next_after<T>)                                                 \
  X(prelu, prelu<T>)                                                          \
  X(trunc_divide, trunc_divide<T>)                                            \
  X(gammainc, binary<IncompleteGamma<false>, T>)                              \
  X(gammaincc, binary<IncompleteGamma<true>, T>)                              \
  X(copysign, copy_sign<T>)                                                   \
  X(arctan2, kBinaryUnlessAvx512<Atan2, T>)                                   \
  X(power, kIsDouble<T> ? nullptr : kBinaryUnlessAvx512<Power, T>)

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
constexpr int kUnaries = 0 UNARY_FUNCTIONS(COUNT_FUNCTION);
constexpr int kBinaries = 0 BINARY_FUNCTIONS(COUNT_FUNCTION);
constexpr int kIntegers = 0 INTEGER_FUNCTIONS(COUNT_FUNCTION);
constexpr int kLogicals = 0 LOGICAL_FUNCTIONS(COUNT_FUNCTION);
#undef COUNT_FUNCTION

template <class T>
struct Functions {
  void (*unary[kUnaries])(const T* x, T* out, int64_t n);
  void (*binary[kBinaries])(const T* x, const T* y, T* out, int64_t n);
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
using MatrixProduct = void (*)(const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c,
                              int64_t ldc, int64_t m, int64_t n, int64_t depth, bool add);

template <class T>
const Functions<T>& functions();
template <class T>
MatrixProduct<T> matrix_products();  // float, double, uint8, uint16, uint32, uint64
template <class T>
const IntegerFunctions<T>& integer_functions();

}  // namespace shmtensor
