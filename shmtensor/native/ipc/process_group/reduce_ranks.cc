// Reducing several ranks' buffers in a fixed order: rank 0 first, then 1, and so on, so that all get the same bits.
//
// Tile by tile through a buffer that stays in the L1 cache: every input is read once and every output written once.
#include <complex>
#include <cstring>
#include <type_traits>

#include "half/bfloat16.h"
#include "simd/kernel_table.h"
#include "ipc/process_group/group.h"

namespace shmtensor::group {

namespace {

constexpr size_t kTile = 8192;  // bytes, tunable

struct Bool {
  uint8_t is;
};

template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Two's complement without undefined overflow.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>;

template <Fold F, class T>
inline T join(T x, T y) {
  if constexpr (std::is_same_v<T, Bool>) {
    if constexpr (F == Fold::Sum || F == Fold::Max || F == Fold::Or) return {static_cast<uint8_t>(x.is | y.is)};
    if constexpr (F == Fold::Xor) return {static_cast<uint8_t>(x.is ^ y.is)};
    return {static_cast<uint8_t>(x.is & y.is)};
  } else if constexpr (F == Fold::Sum || F == Fold::Avg) {
    if constexpr (std::is_integral_v<T>) {
      using U = typename Wide<T>::type;
      return static_cast<T>(static_cast<U>(static_cast<U>(x) + static_cast<U>(y)));
    } else {
      return x + y;
    }
  } else if constexpr (F == Fold::Product) {
    if constexpr (std::is_integral_v<T>) {
      using U = typename Wide<T>::type;
      return static_cast<T>(static_cast<U>(uint64_t{static_cast<U>(x)} * static_cast<U>(y)));
    } else if constexpr (is_complex<T>) {
      return T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
    } else {
      return x * y;
    }
  } else if constexpr (is_complex<T>) {
    return x;  // is_foldable refuses
  } else if constexpr (F == Fold::Min) {
    return x <= y || x != x ? x : y;  // a NaN stays, as in NumPy
  } else if constexpr (F == Fold::Max) {
    return x >= y || x != x ? x : y;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (F == Fold::And) return x & y;
    if constexpr (F == Fold::Or) return x | y;
    return x ^ y;
  } else {
    return x;
  }
}

template <class T>
inline T divide(T x, int n) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) return x / static_cast<T>(n);
  else if constexpr (is_complex<T>) return T(x.real() / n, x.imag() / n);
  else return x;
}

template <class T>
void average(T* __restrict sum, size_t n, int world) {
  if constexpr (std::is_floating_point_v<T>) {
    if ((world & (world - 1)) == 0) {  // 1 / world is exact: the product has the bits of the quotient, in less time
      T part = T(1) / static_cast<T>(world);
      for (size_t k = 0; k < n; k++) sum[k] *= part;
      return;
    }
  }
  for (size_t k = 0; k < n; k++) sum[k] = divide(sum[k], world);
}

template <Fold F, class T>
void fold_tiles(char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  alignas(64) unsigned char space[kTile];
  T* __restrict sum = reinterpret_cast<T*>(space);
  for (size_t i = begin; i < end; i += kTile / sizeof(T)) {
    size_t n = end - i < kTile / sizeof(T) ? end - i : kTile / sizeof(T);
    auto source = [&](int p) { return reinterpret_cast<const T*>(in[p]) + i; };
    if (world == 1) {
      memcpy(space, source(0), n * sizeof(T));
    } else {
      const T *x = source(0), *y = source(1);
      for (size_t k = 0; k < n; k++) sum[k] = join<F>(x[k], y[k]);
    }
    for (int p = 2; p < world; p++) {
      const T* y = source(p);
      for (size_t k = 0; k < n; k++) sum[k] = join<F>(sum[k], y[k]);
    }
    if constexpr (F == Fold::Avg) average(sum, n, world);
    for (int p = 0; p < n_out; p++) memcpy(out[p] + i * sizeof(T), space, n * sizeof(T));
  }
}

template <class T>
void fold_type(Fold fold, char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  switch (fold) {
    case Fold::PremulSum:
    case Fold::Sum: return fold_tiles<Fold::Sum, T>(in, world, begin, end, out, n_out);
    case Fold::Product: return fold_tiles<Fold::Product, T>(in, world, begin, end, out, n_out);
    case Fold::Min: return fold_tiles<Fold::Min, T>(in, world, begin, end, out, n_out);
    case Fold::Max: return fold_tiles<Fold::Max, T>(in, world, begin, end, out, n_out);
    case Fold::Avg: return fold_tiles<Fold::Avg, T>(in, world, begin, end, out, n_out);
    case Fold::And: return fold_tiles<Fold::And, T>(in, world, begin, end, out, n_out);
    case Fold::Or: return fold_tiles<Fold::Or, T>(in, world, begin, end, out, n_out);
    case Fold::Xor: return fold_tiles<Fold::Xor, T>(in, world, begin, end, out, n_out);
    case Fold::None: return;
  }
}

// 16-bit floats, summed in float32 and rounded once.
template <Fold F>
void fold_halves(int format, char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  constexpr size_t kMost = kTile / sizeof(float);
  float sum[kMost], y[kMost];
  uint16_t rounded[kMost];
  const HalfKernels& halves = half_kernels();
  for (size_t i = begin; i < end; i += kMost) {
    size_t n = end - i < kMost ? end - i : kMost;
    auto source = [&](int p) { return reinterpret_cast<const uint16_t*>(in[p]) + i; };
    halves.widen[format](source(0), sum, static_cast<int64_t>(n));
    for (int p = 1; p < world; p++) {
      halves.widen[format](source(p), y, static_cast<int64_t>(n));
      for (size_t k = 0; k < n; k++) sum[k] = join<F>(sum[k], y[k]);
    }
    if constexpr (F == Fold::Avg)
      for (size_t k = 0; k < n; k++) sum[k] = divide(sum[k], world);
    halves.narrow[format](sum, rounded, static_cast<int64_t>(n));
    for (int p = 0; p < n_out; p++) memcpy(out[p] + i * 2, rounded, n * 2);
  }
}

void fold_half(int format, Fold fold, char* const* in, int world, size_t begin, size_t end, char* const* out,
               int n_out) {
  switch (fold) {
    case Fold::Sum:
    case Fold::PremulSum: return fold_halves<Fold::Sum>(format, in, world, begin, end, out, n_out);
    case Fold::Product: return fold_halves<Fold::Product>(format, in, world, begin, end, out, n_out);
    case Fold::Min: return fold_halves<Fold::Min>(format, in, world, begin, end, out, n_out);
    case Fold::Max: return fold_halves<Fold::Max>(format, in, world, begin, end, out, n_out);
    case Fold::Avg: return fold_halves<Fold::Avg>(format, in, world, begin, end, out, n_out);
    default: return;
  }
}

bool is_integer(int dtype) { return dtype >= NPY_BYTE && dtype <= NPY_ULONGLONG; }

}  // namespace

bool is_foldable(int dtype, Fold fold) {
  bool complex = dtype == NPY_CFLOAT || dtype == NPY_CDOUBLE;
  bool real = dtype == NPY_FLOAT || dtype == NPY_DOUBLE || dtype == NPY_HALF || dtype == kBfloat16Wire;
  if (!complex && !real && !is_integer(dtype) && dtype != NPY_BOOL) return false;
  switch (fold) {
    case Fold::Sum:
    case Fold::PremulSum:
    case Fold::Product: return true;
    case Fold::Min:
    case Fold::Max: return !complex;
    case Fold::Avg: return complex || real;
    case Fold::And:
    case Fold::Or:
    case Fold::Xor: return is_integer(dtype) || dtype == NPY_BOOL;
    case Fold::None: return false;
  }
  return false;
}

void fold_range(Fold fold, int dtype, char* const* in, int world, size_t begin, size_t end, char* const* out,
                int n_out) {
  if (begin >= end) return;
  switch (dtype) {
    case NPY_BOOL: return fold_type<Bool>(fold, in, world, begin, end, out, n_out);
    case NPY_BYTE: return fold_type<int8_t>(fold, in, world, begin, end, out, n_out);
    case NPY_UBYTE: return fold_type<uint8_t>(fold, in, world, begin, end, out, n_out);
    case NPY_SHORT: return fold_type<int16_t>(fold, in, world, begin, end, out, n_out);
    case NPY_USHORT: return fold_type<uint16_t>(fold, in, world, begin, end, out, n_out);
    case NPY_INT: return fold_type<int32_t>(fold, in, world, begin, end, out, n_out);
    case NPY_UINT: return fold_type<uint32_t>(fold, in, world, begin, end, out, n_out);
    case NPY_LONG:
    case NPY_LONGLONG: return fold_type<int64_t>(fold, in, world, begin, end, out, n_out);
    case NPY_ULONG:
    case NPY_ULONGLONG: return fold_type<uint64_t>(fold, in, world, begin, end, out, n_out);
    case NPY_HALF: return fold_half(0, fold, in, world, begin, end, out, n_out);
    case kBfloat16Wire: return fold_half(1, fold, in, world, begin, end, out, n_out);
    case NPY_FLOAT: return fold_type<float>(fold, in, world, begin, end, out, n_out);
    case NPY_DOUBLE: return fold_type<double>(fold, in, world, begin, end, out, n_out);
    case NPY_CFLOAT: return fold_type<std::complex<float>>(fold, in, world, begin, end, out, n_out);
    case NPY_CDOUBLE: return fold_type<std::complex<double>>(fold, in, world, begin, end, out, n_out);
    default: return;
  }
}

}  // namespace shmtensor::group
