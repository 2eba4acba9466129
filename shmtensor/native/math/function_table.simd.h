// One instruction-set level of function_table.h. function_table.simd.cc includes it; setup.py compiles that once per
// level, with SHMTENSOR_LEVEL defined. It uses no inline code of the standard library (cpu_capability.h).
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "math/function_table.h"

#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wunused-function"
#define INLINE_LAMBDA __attribute__((always_inline))

namespace shmtensor {
namespace SHMTENSOR_LEVEL {

#include "simd/vector.simd.h"
#include "simd/vector_float64.simd.h"
//
#include "math/log_float32.simd.h"
#include "math/normal_tail.simd.h"
#include "math/sin_cos.simd.h"
//
#include "math/tan_asin_acos_atan.simd.h"
#include "math/exp_log_hyperbolic.simd.h"
#include "math/exp_log_float32.simd.h"
//
#include "math/bessel_i0_i1.simd.h"
#include "math/bessel_k0_k1.simd.h"
#include "math/integer_division.simd.h"
#include "math/erf_float32.simd.h"
#include "math/erf.simd.h"
#include "math/lgamma_digamma.simd.h"
#include "math/bessel_j_y.simd.h"
#include "math/fmod_hypot_logaddexp.simd.h"
#include "kernels/linalg/small_gemm.simd.h"
//
#include "math/ndtr.simd.h"
#include "math/gammainc.simd.h"

INLINE void store_rounded(float* p, V<double> v) {
  *reinterpret_cast<LooseHalfWidthFloats*>(p) = __builtin_convertvector(v, HalfWidthFloats);
}
INLINE void store_rounded(double* p, V<double> v) { store(p, v); }

template <class T>
constexpr bool kIsDouble = sizeof(T) == 8;

// The last elements are padded and take the same path: a second copy of F's code would take as long to compile.
template <class F, class T>
void unary(const T* x, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  T padded[kL];
  const T* from = x;
  T* to = out;
  for (int64_t i = 0; i < n; i += kL, from += kL, to += kL) {
    if (n - i < kL) {
      for (int k = 0; k < kL; ++k) padded[k] = i + k < n ? x[i + k] : T(1);
      from = to = padded;
    }
    store_rounded(to, F::template at<kIsDouble<T>>(load_as_double(from)));
  }
  for (int64_t i = n - n % kL; i < n; ++i) out[i] = padded[i % kL];
}

template <class F, class T>
void binary(const T* x, const T* y, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  T padded[kL], padded_y[kL];
  const T *from = x, *from_y = y;
  T* to = out;
  for (int64_t i = 0; i < n; i += kL, from += kL, from_y += kL, to += kL) {
    if (n - i < kL) {
      for (int k = 0; k < kL; ++k) {
        padded[k] = i + k < n ? x[i + k] : T(1);
        padded_y[k] = i + k < n ? y[i + k] : T(1);
      }
      from = to = padded;
      from_y = padded_y;
    }
    store_rounded(to, F::template at<kIsDouble<T>>(load_as_double(from), load_as_double(from_y)));
  }
  for (int64_t i = n - n % kL; i < n; ++i) out[i] = padded[i % kL];
}

template <class F>
INLINE void map_float32(const float* x, float* out, int64_t n, F f) {
  constexpr int64_t kL = kLanes<float>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<float>(out + i, f(load(x + i)));
  if (i < n) store_part(out + i, f(load_part(x + i, n - i, 0.0f)), n - i);
}

void erf_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, erf_float32); }
void erf_loop(const double* x, double* out, int64_t n) { unary<Erf>(x, out, n); }
#if defined(__FMA__)
void erfc_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, erfc_float32); }
void erfinv_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, erfinv_float32); }
#else  // without FMA the rounding errors are unknown
void erfc_loop(const float* x, float* out, int64_t n) { unary<Erfc>(x, out, n); }
void erfinv_loop(const float* x, float* out, int64_t n) { unary<ErfInv>(x, out, n); }
#endif
void erfc_loop(const double* x, double* out, int64_t n) { unary<Erfc>(x, out, n); }
void erfinv_loop(const double* x, double* out, int64_t n) { unary<ErfInv>(x, out, n); }

void exp2_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, exp2_float32); }
void exp2_loop(const double* x, double* out, int64_t n) { unary<Exp2>(x, out, n); }
void log2_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, log2_float32); }
void log2_loop(const double* x, double* out, int64_t n) { unary<Log2>(x, out, n); }
void log10_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, log10_float32); }
void log10_loop(const double* x, double* out, int64_t n) { unary<Log10>(x, out, n); }
void log1p_loop(const float* x, float* out, int64_t n) { map_float32(x, out, n, log1p_float32); }
void log1p_loop(const double* x, double* out, int64_t n) { unary<Log1p>(x, out, n); }

template <class T, bool kTwo>
void log_add(const T* x, const T* y, T* out, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, log_of_sum<T, kTwo>(load(x + i), load(y + i)));
  if (i < n) store_part(out + i, log_of_sum<T, kTwo>(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

INLINE float trunc_scalar(float x) { return __builtin_truncf(x); }
INLINE double trunc_scalar(double x) { return __builtin_trunc(x); }

template <class T>
void fraction(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - trunc_scalar(x[i]);
}

// The sign of NaN is 0, as in PyTorch.
template <class T>
void sign(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>((x[i] > 0) - (x[i] < 0));
}

// NaN stays.
template <class T>
void positive_part(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] <= 0 ? T(0) : x[i];
}

// The neighbour of x towards y: increments or decrements its bits.
template <class T>
void next_after(const T* x, const T* y, T* out, int64_t n) {
  using Word = typename Vec<T>::bits;
  constexpr int64_t kL = kLanes<T>;
  const V<T> zero = splat(T(0));
  const auto next = [zero](V<T> a, V<T> b) __attribute__((always_inline)) {
    const Word bits = (Word)a & ((a < zero) | (a > zero));  // 0 for zero and NaN
    const Word grows = (a < b) == (a > zero);                // -1 where the magnitude grows
    const Word sign = (Word)b & ~(Word)absolute<T>((V<T>)~Word{}), smallest = sign | 1;
    const V<T> neighbour = a == zero ? (V<T>)smallest : (V<T>)(bits - (grows | 1));
    return a == b ? b : ((a == a) & (b == b)) ? neighbour : a + b;
  };
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, next(load(x + i), load(y + i)));
  if (i < n) store_part(out + i, next(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

// x where it is positive, y * x elsewhere.
template <class T>
void prelu(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : y[i] * x[i];
}

template <class T>
void trunc_divide(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = trunc_scalar(x[i] / y[i]);
}

template <class T>
void copy_sign(const T* x, const T* y, T* out, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, copy_sign_of(load(x + i), load(y + i)));
  if (i < n) store_part(out + i, copy_sign_of(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

// NumPy vectorises these for AVX-512 only, and some float32 functions for AVX2, too.
template <class T>
constexpr FunctionOfOne<T> unless_avx512(FunctionOfOne<T> f) {
  return kWidth < 64 ? f : nullptr;
}
template <class F, class T>
constexpr auto kUnlessAvx512 = kWidth < 64 ? unary<F, T> : nullptr;
template <class F, class T>
constexpr auto kBinaryUnlessAvx512 = kWidth < 64 ? binary<F, T> : nullptr;

// The functions by NumPy's or our name, as `native.elementwise` finds them; nullptr: NumPy's loop is as fast. The float32
// kernels of exp, log, sin and cos are in simd/kernel_table.h.
template <class T>
constexpr NamedFunction<FunctionOfOne<T>> unary_functions[] = {
    {"erf", erf_loop},
    {"erfc", erfc_loop},
    {"erfinv", erfinv_loop},
    {"lgamma", unary<LogGamma, T>},
    {"digamma", unary<Digamma, T>},
    {"i0", unary<Bessel<0>, T>},
    {"i1", unary<Bessel<1>, T>},
    {"i0e", unary<BesselScaled<0>, T>},
    {"i1e", unary<BesselScaled<1>, T>},
    {"sinc", unary<Sinc, T>},
    {"sin", kIsDouble<T> ? unary<Sin, T> : nullptr},
    {"cos", kIsDouble<T> ? unary<Cos, T> : nullptr},
    {"frac", fraction<T>},
    {"signs", sign<T>},
    {"relu", positive_part<T>},
    {"j0", unary<BesselFirst<0>, T>},
    {"j1", unary<BesselFirst<1>, T>},
    {"y0", unary<BesselSecond<0>, T>},
    {"y1", unary<BesselSecond<1>, T>},
    {"k0", unary<BesselDecaying<0, false>, T>},
    {"k1", unary<BesselDecaying<1, false>, T>},
    {"k0e", unary<BesselDecaying<0, true>, T>},
    {"k1e", unary<BesselDecaying<1, true>, T>},
    {"spherical_j0", unary<SphericalBessel, T>},
    {"erfcx", unary<ErfcScaled, T>},
    {"ndtr", unary<NormalDistribution, T>},
    {"log_ndtr", unary<LogNormalDistribution, T>},
    {"ndtri", unary<NormalQuantile, T>},
    {"trigamma", unary<Trigamma, T>},
    {"exp", kIsDouble<T> ? kUnlessAvx512<Exp, T> : nullptr},
    {"exp2", unless_avx512<T>(exp2_loop)},
    {"expm1", kUnlessAvx512<Expm1, T>},
    {"log", kIsDouble<T> ? kUnlessAvx512<Log, T> : nullptr},
    {"log2", unless_avx512<T>(log2_loop)},
    {"log10", unless_avx512<T>(log10_loop)},
    {"log1p", unless_avx512<T>(log1p_loop)},
    {"tan", kUnlessAvx512<Tan, T>},
    {"arcsin", kUnlessAvx512<Asin, T>},
    {"arccos", kUnlessAvx512<Acos, T>},
    {"arctan", kUnlessAvx512<Atan, T>},
    {"sinh", kUnlessAvx512<Sinh, T>},
    {"cosh", kUnlessAvx512<Cosh, T>},
    {"tanh", kIsDouble<T> ? kUnlessAvx512<Tanh, T> : nullptr},
    {"arcsinh", kUnlessAvx512<Asinh, T>},
    {"arccosh", kUnlessAvx512<Acosh, T>},
    {"arctanh", kUnlessAvx512<Atanh, T>},
};
template <class T>
constexpr NamedFunction<FunctionOfTwo<T>> binary_functions[] = {
    {"fmod", kFuses || !kIsDouble<T> ? binary<Fmod, T> : nullptr},
    {"remainder", kFuses || !kIsDouble<T> ? binary<Remainder, T> : nullptr},
    {"floor_divide", kFuses || !kIsDouble<T> ? binary<FloorDivide, T> : nullptr},
    {"hypot", kFuses || !kIsDouble<T> ? binary<Hypot, T> : nullptr},
    {"logaddexp", log_add<T, false>},
    {"logaddexp2", log_add<T, true>},
    {"nextafter", next_after<T>},
    {"prelu", prelu<T>},
    {"trunc_divide", trunc_divide<T>},
    {"gammainc", binary<IncompleteGamma<false>, T>},
    {"gammaincc", binary<IncompleteGamma<true>, T>},
    {"copysign", copy_sign<T>},
    {"arctan2", kBinaryUnlessAvx512<Atan2, T>},
    {"power", kIsDouble<T> ? nullptr : kBinaryUnlessAvx512<Power, T>},
};
template <class T>
constexpr Functions<T> function_table = {
    {unary_functions<T>, sizeof unary_functions<T> / sizeof unary_functions<T>[0]},
    {binary_functions<T>, sizeof binary_functions<T> / sizeof binary_functions<T>[0]},
};

template <class Operation, class T>
void logical(const T* __restrict x, const T* __restrict y, uint8_t* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Operation::of(x[i] != 0, y[i] != 0);
}
struct And {
  static bool of(bool a, bool b) { return a & b; }
};
struct Or {
  static bool of(bool a, bool b) { return a | b; }
};
struct Xor {
  static bool of(bool a, bool b) { return a != b; }
};
template <class T>
void is_zero(const T* __restrict x, uint8_t* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] == 0;
}

#pragma GCC diagnostic error "-Wmissing-field-initializers"
#define FUNCTION(name, ...) __VA_ARGS__,
template <class T>
constexpr IntegerFunctions<T> integer_table = {.binary = {INTEGER_FUNCTIONS(FUNCTION)}};
template <class T>
constexpr LogicalFunctions<T> logical_table = {.binary = {LOGICAL_FUNCTIONS(FUNCTION)}, .negation = is_zero<T>};
#undef FUNCTION

const LogicalFunctions<float>& logical_functions_of(float) { return logical_table<float>; }
const LogicalFunctions<double>& logical_functions_of(double) { return logical_table<double>; }

const Functions<float>& functions_of(float) { return function_table<float>; }
const Functions<double>& functions_of(double) { return function_table<double>; }
const IntegerFunctions<int8_t>& functions_of(int8_t) { return integer_table<int8_t>; }
const IntegerFunctions<uint8_t>& functions_of(uint8_t) { return integer_table<uint8_t>; }
const IntegerFunctions<int16_t>& functions_of(int16_t) { return integer_table<int16_t>; }
const IntegerFunctions<int32_t>& functions_of(int32_t) { return integer_table<int32_t>; }
const IntegerFunctions<int64_t>& functions_of(int64_t) { return integer_table<int64_t>; }
MatrixProduct<float> product_of(float) { return matrix_product<float>; }
MatrixProduct<double> product_of(double) { return matrix_product<double>; }
MatrixProduct<uint8_t> product_of(uint8_t) { return matrix_product<uint8_t>; }
MatrixProduct<uint16_t> product_of(uint16_t) { return matrix_product<uint16_t>; }
MatrixProduct<uint32_t> product_of(uint32_t) { return matrix_product<uint32_t>; }
MatrixProduct<uint64_t> product_of(uint64_t) { return matrix_product<uint64_t>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
