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

template <ReduceOp Op, class T>
inline T combine(T x, T y) {
  if constexpr (std::is_same_v<T, Bool>) {
    if constexpr (Op == ReduceOp::Sum || Op == ReduceOp::Max || Op == ReduceOp::Or)
      return {static_cast<uint8_t>(x.is | y.is)};
    if constexpr (Op == ReduceOp::Xor) return {static_cast<uint8_t>(x.is ^ y.is)};
    return {static_cast<uint8_t>(x.is & y.is)};
  } else if constexpr (Op == ReduceOp::Sum || Op == ReduceOp::Avg) {
    if constexpr (std::is_integral_v<T>) {
      using U = typename Wide<T>::type;
      return static_cast<T>(static_cast<U>(static_cast<U>(x) + static_cast<U>(y)));
    } else {
      return x + y;
    }
  } else if constexpr (Op == ReduceOp::Product) {
    if constexpr (std::is_integral_v<T>) {
      using U = typename Wide<T>::type;
      return static_cast<T>(static_cast<U>(uint64_t{static_cast<U>(x)} * static_cast<U>(y)));
    } else if constexpr (is_complex<T>) {
      return T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
    } else {
      return x * y;
    }
  } else if constexpr (is_complex<T>) {
    return x;  // not reached: supports_op is false
  } else if constexpr (Op == ReduceOp::Min) {
    return x <= y || x != x ? x : y;  // a NaN stays, as in NumPy
  } else if constexpr (Op == ReduceOp::Max) {
    return x >= y || x != x ? x : y;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (Op == ReduceOp::And) return x & y;
    if constexpr (Op == ReduceOp::Or) return x | y;
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
      T factor = T(1) / static_cast<T>(world);
      for (size_t k = 0; k < n; k++) sum[k] *= factor;
      return;
    }
  }
  for (size_t k = 0; k < n; k++) sum[k] = divide(sum[k], world);
}

template <ReduceOp Op, class T>
void reduce_tiles(char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  alignas(64) unsigned char space[kTile];
  T* __restrict sum = reinterpret_cast<T*>(space);
  for (size_t i = begin; i < end; i += kTile / sizeof(T)) {
    size_t n = end - i < kTile / sizeof(T) ? end - i : kTile / sizeof(T);
    auto source = [&](int p) { return reinterpret_cast<const T*>(in[p]) + i; };
    if (world == 1) {
      memcpy(space, source(0), n * sizeof(T));
    } else {
      const T *x = source(0), *y = source(1);
      for (size_t k = 0; k < n; k++) sum[k] = combine<Op>(x[k], y[k]);
    }
    for (int p = 2; p < world; p++) {
      const T* y = source(p);
      for (size_t k = 0; k < n; k++) sum[k] = combine<Op>(sum[k], y[k]);
    }
    if constexpr (Op == ReduceOp::Avg) average(sum, n, world);
    for (int p = 0; p < n_out; p++) memcpy(out[p] + i * sizeof(T), space, n * sizeof(T));
  }
}

template <class T>
void reduce_type(ReduceOp op, char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  switch (op) {
    case ReduceOp::PremulSum:
    case ReduceOp::Sum: return reduce_tiles<ReduceOp::Sum, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Product: return reduce_tiles<ReduceOp::Product, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Min: return reduce_tiles<ReduceOp::Min, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Max: return reduce_tiles<ReduceOp::Max, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Avg: return reduce_tiles<ReduceOp::Avg, T>(in, world, begin, end, out, n_out);
    case ReduceOp::And: return reduce_tiles<ReduceOp::And, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Or: return reduce_tiles<ReduceOp::Or, T>(in, world, begin, end, out, n_out);
    case ReduceOp::Xor: return reduce_tiles<ReduceOp::Xor, T>(in, world, begin, end, out, n_out);
    case ReduceOp::None: return;
  }
}

// 16-bit floats, summed in float32 and rounded once.
template <ReduceOp Op>
void reduce_halves(int format, char* const* in, int world, size_t begin, size_t end, char* const* out, int n_out) {
  constexpr size_t kMax = kTile / sizeof(float);
  float sum[kMax], y[kMax];
  uint16_t rounded[kMax];
  const HalfKernels& halves = half_kernels();
  for (size_t i = begin; i < end; i += kMax) {
    size_t n = end - i < kMax ? end - i : kMax;
    auto source = [&](int p) { return reinterpret_cast<const uint16_t*>(in[p]) + i; };
    halves.widen[format](source(0), sum, static_cast<int64_t>(n));
    for (int p = 1; p < world; p++) {
      halves.widen[format](source(p), y, static_cast<int64_t>(n));
      for (size_t k = 0; k < n; k++) sum[k] = combine<Op>(sum[k], y[k]);
    }
    if constexpr (Op == ReduceOp::Avg)
      for (size_t k = 0; k < n; k++) sum[k] = divide(sum[k], world);
    halves.narrow[format](sum, rounded, static_cast<int64_t>(n));
    for (int p = 0; p < n_out; p++) memcpy(out[p] + i * 2, rounded, n * 2);
  }
}

void reduce_half(int format, ReduceOp op, char* const* in, int world, size_t begin, size_t end, char* const* out,
                 int n_out) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::PremulSum: return reduce_halves<ReduceOp::Sum>(format, in, world, begin, end, out, n_out);
    case ReduceOp::Product: return reduce_halves<ReduceOp::Product>(format, in, world, begin, end, out, n_out);
    case ReduceOp::Min: return reduce_halves<ReduceOp::Min>(format, in, world, begin, end, out, n_out);
    case ReduceOp::Max: return reduce_halves<ReduceOp::Max>(format, in, world, begin, end, out, n_out);
    case ReduceOp::Avg: return reduce_halves<ReduceOp::Avg>(format, in, world, begin, end, out, n_out);
    default: return;
  }
}

bool is_integer(int dtype) { return dtype >= NPY_BYTE && dtype <= NPY_ULONGLONG; }

}  // namespace

bool supports_op(int dtype, ReduceOp op) {
  bool complex = dtype == NPY_CFLOAT || dtype == NPY_CDOUBLE;
  bool real = dtype == NPY_FLOAT || dtype == NPY_DOUBLE || dtype == NPY_HALF || dtype == kBfloat16Wire;
  if (!complex && !real && !is_integer(dtype) && dtype != NPY_BOOL) return false;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::PremulSum:
    case ReduceOp::Product: return true;
    case ReduceOp::Min:
    case ReduceOp::Max: return !complex;
    case ReduceOp::Avg: return complex || real;
    case ReduceOp::And:
    case ReduceOp::Or:
    case ReduceOp::Xor: return is_integer(dtype) || dtype == NPY_BOOL;
    case ReduceOp::None: return false;
  }
  return false;
}

void reduce_range(ReduceOp op, int dtype, char* const* in, int world, size_t begin, size_t end, char* const* out,
                  int n_out) {
  if (begin >= end) return;
  switch (dtype) {
    case NPY_BOOL: return reduce_type<Bool>(op, in, world, begin, end, out, n_out);
    case NPY_BYTE: return reduce_type<int8_t>(op, in, world, begin, end, out, n_out);
    case NPY_UBYTE: return reduce_type<uint8_t>(op, in, world, begin, end, out, n_out);
    case NPY_SHORT: return reduce_type<int16_t>(op, in, world, begin, end, out, n_out);
    case NPY_USHORT: return reduce_type<uint16_t>(op, in, world, begin, end, out, n_out);
    case NPY_INT: return reduce_type<int32_t>(op, in, world, begin, end, out, n_out);
    case NPY_UINT: return reduce_type<uint32_t>(op, in, world, begin, end, out, n_out);
    case NPY_LONG:
    case NPY_LONGLONG: return reduce_type<int64_t>(op, in, world, begin, end, out, n_out);
    case NPY_ULONG:
    case NPY_ULONGLONG: return reduce_type<uint64_t>(op, in, world, begin, end, out, n_out);
    case NPY_HALF: return reduce_half(0, op, in, world, begin, end, out, n_out);
    case kBfloat16Wire: return reduce_half(1, op, in, world, begin, end, out, n_out);
    case NPY_FLOAT: return reduce_type<float>(op, in, world, begin, end, out, n_out);
    case NPY_DOUBLE: return reduce_type<double>(op, in, world, begin, end, out, n_out);
    case NPY_CFLOAT: return reduce_type<std::complex<float>>(op, in, world, begin, end, out, n_out);
    case NPY_CDOUBLE: return reduce_type<std::complex<double>>(op, in, world, begin, end, out, n_out);
    default: return;
  }
}

}  // namespace shmtensor::group
