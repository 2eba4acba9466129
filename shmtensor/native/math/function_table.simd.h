// One instruction-set level of function_table.h. Included by function_table.simd.cc, function_table.simd.cc,
// function_table.simd.cc, each of which defines SHMTENSOR_LEVEL first. No inline code of the standard
// library (cpu_capability.h).
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

INLINE void rounded(float* p, V<double> v) {
  *reinterpret_cast<LooseFew*>(p) = __builtin_convertvector(v, Few);
}
INLINE void rounded(double* p, V<double> v) { store(p, v); }

template <class T>
constexpr bool kIsFine = sizeof(T) == 8;

template <class F, class T>
void unary(const T* x, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) rounded(out + i, F::template at<kIsFine<T>>(widened(x + i)));
  if (i == n) return;
  T rest[kL];
  for (int k = 0; k < kL; ++k) rest[k] = i + k < n ? x[i + k] : T(1);
  rounded(rest, F::template at<kIsFine<T>>(widened(rest)));
  for (int k = 0; i + k < n; ++k) out[i + k] = rest[k];
}

template <class F, class T>
void binary(const T* x, const T* y, T* out, int64_t n) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL)
    rounded(out + i, F::template at<kIsFine<T>>(widened(x + i), widened(y + i)));
  if (i == n) return;
  T rest[kL], other[kL];
  for (int k = 0; k < kL; ++k) {
    rest[k] = i + k < n ? x[i + k] : T(1);
    other[k] = i + k < n ? y[i + k] : T(1);
  }
  rounded(rest, F::template at<kIsFine<T>>(widened(rest), widened(other)));
  for (int k = 0; i + k < n; ++k) out[i + k] = rest[k];
}

template <class F>
INLINE void brief(const float* x, float* out, int64_t n, F f) {
  constexpr int64_t kL = kLanes<float>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<float>(out + i, f(load(x + i)));
  if (i < n) store_part(out + i, f(load_part(x + i, n - i, 0.0f)), n - i);
}

void error_functions(const float* x, float* out, int64_t n) { brief(x, out, n, erf_brief); }
void error_functions(const double* x, double* out, int64_t n) { unary<Erf>(x, out, n); }
#if defined(__FMA__)
void error_complements(const float* x, float* out, int64_t n) { brief(x, out, n, erfc_brief); }
void error_inverses(const float* x, float* out, int64_t n) { brief(x, out, n, erfinv_brief); }
#else  // without it nothing that rounding loses is known
void error_complements(const float* x, float* out, int64_t n) { unary<Erfc>(x, out, n); }
void error_inverses(const float* x, float* out, int64_t n) { unary<ErfInv>(x, out, n); }
#endif
void error_complements(const double* x, double* out, int64_t n) { unary<Erfc>(x, out, n); }
void error_inverses(const double* x, double* out, int64_t n) { unary<ErfInv>(x, out, n); }

void powers_of_two(const float* x, float* out, int64_t n) { brief(x, out, n, exp2_brief); }
void powers_of_two(const double* x, double* out, int64_t n) { unary<Exp2>(x, out, n); }
void logs_2(const float* x, float* out, int64_t n) { brief(x, out, n, log2_brief); }
void logs_2(const double* x, double* out, int64_t n) { unary<Log2>(x, out, n); }
void logs_10(const float* x, float* out, int64_t n) { brief(x, out, n, log10_brief); }
void logs_10(const double* x, double* out, int64_t n) { unary<Log10>(x, out, n); }
void logs_of_one_and(const float* x, float* out, int64_t n) { brief(x, out, n, log1p_brief); }
void logs_of_one_and(const double* x, double* out, int64_t n) { unary<Log1p>(x, out, n); }

template <class T, bool kTwo>
void log_add(const T* x, const T* y, T* out, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, log_of_sum<T, kTwo>(load(x + i), load(y + i)));
  if (i < n)
    store_part(out + i, log_of_sum<T, kTwo>(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))),
               n - i);
}

INLINE float cut(float x) { return __builtin_truncf(x); }
INLINE double cut(double x) { return __builtin_trunc(x); }

template <class T>
void fraction(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - cut(x[i]);
}

// 0 of NaN, as in PyTorch.
template <class T>
void sign(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>((x[i] > 0) - (x[i] < 0));
}

// NaN stays.
template <class T>
void positive_part(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] <= 0 ? T(0) : x[i];
}

// The neighbour of x towards y: its bits, counted up or down.
template <class T>
void next_after(const T* x, const T* y, T* out, int64_t n) {
  using Word = typename Vec<T>::bits;
  constexpr int64_t kL = kLanes<T>;
  const V<T> zero = all(T(0));
  const auto next = [zero](V<T> a, V<T> b) __attribute__((always_inline)) {
    const Word bits = (Word)a & ((a < zero) | (a > zero));  // of 0 and NaN nothing is counted
    const Word away = (a < b) == (a > zero);                // -1 where the size grows
    const Word sign = (Word)b & ~(Word)absolute<T>((V<T>)~Word{}) , least = sign | 1;
    const V<T> moved = a == zero ? (V<T>)least : (V<T>)(bits - (away | 1));
    return a == b ? b : ((a == a) & (b == b)) ? moved : a + b;
  };
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, next(load(x + i), load(y + i)));
  if (i < n)
    store_part(out + i, next(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

// x where it is positive, y * x elsewhere.
template <class T>
void leak(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : y[i] * x[i];
}

template <class T>
void divide_and_cut(const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = cut(x[i] / y[i]);
}

template <class T>
void copy_sign(const T* x, const T* y, T* out, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, with_sign_of(load(x + i), load(y + i)));
  if (i < n)
    store_part(out + i, with_sign_of(load_part(x + i, n - i, T(0)), load_part(y + i, n - i, T(0))), n - i);
}

// Of these NumPy has vectors for AVX-512 alone, of some of float32 for AVX2 besides.
template <class T>
using OfOne = void (*)(const T*, T*, int64_t);
template <class T>
constexpr OfOne<T> own(OfOne<T> f) {
  return kWidth < 64 ? f : nullptr;
}
template <class F, class T>
constexpr auto kOwn = kWidth < 64 ? unary<F, T> : nullptr;
template <class F, class T>
constexpr auto kOwnOfTwo = kWidth < 64 ? binary<F, T> : nullptr;

template <class T>
constexpr Functions<T> function_table = {
    {error_functions, error_complements, error_inverses, unary<LogGamma, T>, unary<Digamma, T>,
     unary<Bessel<0>, T>, unary<Bessel<1>, T>, unary<BesselScaled<0>, T>, unary<BesselScaled<1>, T>,
     unary<Sinc, T>,
     kIsFine<T> ? unary<Sin, T> : nullptr,  // kernel_table.h has those of float32
     kIsFine<T> ? unary<Cos, T> : nullptr, fraction<T>, sign<T>, positive_part<T>,
     unary<BesselFirst<0>, T>, unary<BesselFirst<1>, T>, unary<BesselSecond<0>, T>,
     unary<BesselSecond<1>, T>, unary<BesselDecaying<0, false>, T>,
     unary<BesselDecaying<1, false>, T>, unary<BesselDecaying<0, true>, T>,
     unary<BesselDecaying<1, true>, T>, unary<SphericalBessel, T>, unary<ErfcScaled, T>,
     unary<NormalDistribution, T>, unary<LogNormalDistribution, T>, unary<NormalQuantile, T>,
     unary<Trigamma, T>,
     kIsFine<T> ? kOwn<Exp, T> : nullptr, own<T>(powers_of_two), kOwn<Expm1, T>,
     kIsFine<T> ? kOwn<Log, T> : nullptr, own<T>(logs_2), own<T>(logs_10), own<T>(logs_of_one_and),
     kOwn<Tan, T>, kOwn<Asin, T>, kOwn<Acos, T>, kOwn<Atan, T>, kOwn<Sinh, T>, kOwn<Cosh, T>, kIsFine<T> ? kOwn<Tanh, T> : nullptr,
     kOwn<Asinh, T>, kOwn<Acosh, T>, kOwn<Atanh, T>},
    {kFuses || !kIsFine<T> ? binary<Fmod, T> : nullptr,
     kFuses || !kIsFine<T> ? binary<Remainder, T> : nullptr,
     kFuses || !kIsFine<T> ? binary<FloorDivide, T> : nullptr,
     kFuses || !kIsFine<T> ? binary<Hypot, T> : nullptr, log_add<T, false>, log_add<T, true>,
     next_after<T>, leak<T>, divide_and_cut<T>, binary<IncompleteGamma<false>, T>,
     binary<IncompleteGamma<true>, T>, copy_sign<T>, kOwnOfTwo<Atan2, T>,
     kIsFine<T> ? nullptr : kOwnOfTwo<Power, T>},
};

template <Logical kWhich, class T>
void logical(const T* __restrict x, const T* __restrict y, uint8_t* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool a = x[i] != 0, b = y[i] != 0;
    out[i] = kWhich == kAnd ? a & b : kWhich == kOr ? a | b : a != b;
  }
}
template <class T>
void is_zero(const T* __restrict x, uint8_t* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] == 0;
}
template <class T>
constexpr Truths<T> truth_table = {{logical<kAnd, T>, logical<kOr, T>, logical<kXor, T>}, is_zero<T>};
const Truths<float>& truths_of(float) { return truth_table<float>; }
const Truths<double>& truths_of(double) { return truth_table<double>; }

const Functions<float>& functions_of(float) { return function_table<float>; }
const Functions<double>& functions_of(double) { return function_table<double>; }
const WholeFunctions<int8_t>& functions_of(int8_t) { return whole_table<int8_t>; }
const WholeFunctions<uint8_t>& functions_of(uint8_t) { return whole_table<uint8_t>; }
const WholeFunctions<int16_t>& functions_of(int16_t) { return whole_table<int16_t>; }
const WholeFunctions<int32_t>& functions_of(int32_t) { return whole_table<int32_t>; }
const WholeFunctions<int64_t>& functions_of(int64_t) { return whole_table<int64_t>; }
MatrixProduct<float> product_of(float) { return matrix_product<float>; }
MatrixProduct<double> product_of(double) { return matrix_product<double>; }
MatrixProduct<uint8_t> product_of(uint8_t) { return matrix_product<uint8_t>; }
MatrixProduct<uint16_t> product_of(uint16_t) { return matrix_product<uint16_t>; }
MatrixProduct<uint32_t> product_of(uint32_t) { return matrix_product<uint32_t>; }
MatrixProduct<uint64_t> product_of(uint64_t) { return matrix_product<uint64_t>; }

}  // namespace SHMTENSOR_LEVEL
}  // namespace shmtensor
