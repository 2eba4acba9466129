// x as (outer, m, inner): a thread computes full rows, or strips of columns. A long row is first summed in pieces, and
// each piece then continues from the sum of the preceding pieces. float32 is accumulated in double, since the error of
// a long cumulative sum in float32 grows.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/prepared_arguments.h"
#include "simd/flush_denormals.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 4096;
constexpr int64_t kGrain = 16384;
constexpr int64_t kStrip = 256;
constexpr int64_t kPiece = 32768;  // elements of a long row

struct DimLayout3 {
  Ref x;
  int64_t outer = 1, m = 1, inner = 1;
};

Prepared prepare(PyArrayObject* x, PyObject* dim_object, DimLayout3* a) {
  const int nd = PyArray_NDIM(x);
  if (nd == 0) return Prepared::NoKernel;
  const int dim = dim_argument("dim", dim_object, nd);
  if (dim < 0) return Prepared::Error;
  for (int i = 0; i < nd; ++i) (i < dim ? a->outer : i > dim ? a->inner : a->m) *= PyArray_DIM(x, i);
  a->x = contiguous(x);
  return a->x ? Prepared::Ready : Prepared::Error;
}

// body(first element, number of columns) for each row, or strip of columns.
template <class F>
void for_rows_or_strips(const DimLayout3& a, F&& body) {
  const int64_t strips = (a.inner + kStrip - 1) / kStrip;
  const int64_t work = a.m * (a.inner < kStrip ? a.inner : kStrip);
  ranges(a.outer * strips, work >= kGrain ? 1 : kGrain / (work ? work : 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * kStrip, remaining = a.inner - c;
      body(i / strips * a.m * a.inner + c, remaining < kStrip ? remaining : kStrip);
    }
  });
}

// The accumulator of complex numbers, in double.
struct ComplexDouble {
  double re, im;
  ComplexDouble() = default;
  ComplexDouble(int v) : re(v), im(0) {}
  ComplexDouble(double real, double imaginary) : re(real), im(imaginary) {}
  template <class T>
  explicit ComplexDouble(const std::complex<T>& v) : re(static_cast<double>(v.real())), im(static_cast<double>(v.imag())) {}
  template <class T>
  explicit operator std::complex<T>() const {
    return {static_cast<T>(re), static_cast<T>(im)};
  }
  ComplexDouble operator+(const ComplexDouble& v) const { return {re + v.re, im + v.im}; }
  ComplexDouble operator*(const ComplexDouble& v) const { return {re * v.re - im * v.im, re * v.im + im * v.re}; }
};

bool is_finite(double v) { return std::isfinite(v); }
bool is_finite(uint64_t) { return true; }
bool is_finite(const ComplexDouble& v) { return std::isfinite(v.re) && std::isfinite(v.im); }

template <class A, class T>
A sum_of(const T* x, int64_t n) {
  return reduce_kernels<T>().rows[0](x, n);
}

template <class A, class T>
A sum_of(const std::complex<T>* x, int64_t n) {
  const T* parts = reinterpret_cast<const T*>(x);
  return {kernels<T>().sum_every_second(parts, n), kernels<T>().sum_every_second(parts + 1, n)};
}

template <bool kProduct, class A>
inline A accumulate_one(A total, A v) {
  return static_cast<A>(kProduct ? total * v : total + v);
}

// kRows rows side by side: independent dependency chains overlap.
template <bool kProduct, int kRows, class T, class A, class O>
void cumulate_rows(const T* x, O* out, int64_t m, const A start) {
  constexpr int64_t kChunk = 128;
  A totals[kRows], line[kRows][kChunk];
  for (int r = 0; r < kRows; ++r) totals[r] = start;
  for (int64_t k = 0; k < m; k += kChunk) {
    const int64_t n = std::min(kChunk, m - k);
    {
      [[maybe_unused]] Flush<T> flush;  // not for the conversion back to float32
      for (int64_t i = 0; i < n; ++i) {
        for (int r = 0; r < kRows; ++r)
          line[r][i] = totals[r] = accumulate_one<kProduct>(totals[r], static_cast<A>(x[r * m + k + i]));
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < n; ++i) out[r * m + k + i] = static_cast<O>(line[r][i]);
  }
}

template <class T, class A, class O>
void cumsum_row(const T* x, O* out, int64_t m, A start) {
  if constexpr (std::is_same<T, float>::value) {
    elementary_kernels().cumsum(x, out, m, start);
  } else {
    cumulate_rows<false, 1>(x, out, m, start);
  }
}

// False if a sum is infinite or NaN: the sequential sum might be finite.
template <class T, class A, class O>
bool cumsum_pieces(const T* x, O* out, int64_t m) {
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  std::vector<A> starts(static_cast<size_t>(pieces));
  const auto for_pieces = [&](auto&& body) {
    slices(pieces, [&](int64_t p) { body(p * kPiece, std::min(kPiece, m - p * kPiece), &starts[static_cast<size_t>(p)]); });
  };
  for_pieces([&](int64_t at, int64_t n, A* sum) { *sum = sum_of<A>(x + at, n); });
  A total = 0;
  for (A& start : starts) {
    const A piece_sum = start;
    start = total;
    total = total + piece_sum;
    if (!is_finite(total)) return false;
  }
  for_pieces([&](int64_t at, int64_t n, A* start) { cumsum_row(x + at, out + at, n, *start); });
  return true;
}

template <class T, class A, bool kProduct, class O>
void cumulate_all_rows(const DimLayout3& a, O* out) {
  const T* x = data<T>(a.x);
  const A start = kProduct ? 1 : 0;
  if constexpr (!kProduct) {
    if (a.m >= 2 * kPiece) {
      for (int64_t o = 0; o < a.outer; ++o, x += a.m, out += a.m)
        if (!cumsum_pieces<T, A>(x, out, a.m)) cumsum_row(x, out, a.m, start);
      return;
    }
  }
  ranges(a.outer, a.m >= kGrain ? 1 : kGrain / a.m, [&](int64_t o, int64_t stop) {
    if (!kProduct && std::is_same<T, float>::value) {
      for (; o < stop; ++o) cumsum_row(x + o * a.m, out + o * a.m, a.m, start);
    }
    for (; o + 4 <= stop; o += 4) cumulate_rows<kProduct, 4>(x + o * a.m, out + o * a.m, a.m, start);
    for (; o < stop; ++o) cumulate_rows<kProduct, 1>(x + o * a.m, out + o * a.m, a.m, start);
  });
}

template <class T, class A, bool kProduct, class O>
void cumulate(const DimLayout3& a, O* out) {
  if (a.inner == 1) return cumulate_all_rows<T, A, kProduct>(a, out);
  const T* x = data<T>(a.x);
  for_rows_or_strips(a, [&](int64_t start, int64_t width) {
    const T* from = x + start;
    O* to = out + start;
    A totals[kStrip];
    for (int64_t c = 0; c < width; ++c) totals[c] = kProduct ? 1 : 0;
    for (int64_t k = 0; k < a.m; ++k, from += a.inner, to += a.inner) {
      for (int64_t c = 0; c < width; ++c) {
        totals[c] = accumulate_one<kProduct>(totals[c], static_cast<A>(from[c]));
        to[c] = static_cast<O>(totals[c]);
      }
    }
  });
}

// Of equal elements the last wins; a NaN wins over everything before it.
template <class T, bool kLargest>
inline bool replaces(T v, T best) {
  return (kLargest ? v >= best : v <= best) | (v != v);
}

// New extremes are rare: runs without one are checked and filled by vectors.
template <class T, bool kLargest>
void cummax_cummin_row(const T* x, T* values, int64_t* indices, int64_t m) {
  constexpr int kRun = 16;
  T best = *x;
  int64_t index = 0, k = 0;
  for (; k + kRun <= m; k += kRun) {
    int any_new = 0;
    for (int j = 0; j < kRun; ++j) any_new |= replaces<T, kLargest>(x[k + j], best);
    for (int j = 0; j < kRun; ++j) values[k + j] = best;
    for (int j = 0; j < kRun; ++j) indices[k + j] = index;
    for (int j = 0; any_new && j < kRun; ++j) {
      if (replaces<T, kLargest>(x[k + j], best)) {
        best = x[k + j];
        index = k + j;
      }
      values[k + j] = best;
      indices[k + j] = index;
    }
  }
  for (; k < m; ++k) {
    if (replaces<T, kLargest>(x[k], best)) {
      best = x[k];
      index = k;
    }
    values[k] = best;
    indices[k] = index;
  }
}

// Columns side by side; the indices are as wide as the elements if possible.
template <class T, bool kLargest, class Index>
void cummax_cummin_columns(const T* x, T* values, int64_t* indices, int64_t m, int64_t width, int64_t inner) {
  T best[kStrip];
  Index index[kStrip] = {};
  for (int64_t c = 0; c < width; ++c) best[c] = x[c];
  for (int64_t k = 0; k < m; ++k, x += inner, values += inner, indices += inner) {
    for (int64_t c = 0; c < width; ++c) {
      const bool is_new = replaces<T, kLargest>(x[c], best[c]);
      best[c] = is_new ? x[c] : best[c];
      index[c] = is_new ? static_cast<Index>(k) : index[c];
    }
    for (int64_t c = 0; c < width; ++c) values[c] = best[c];
    for (int64_t c = 0; c < width; ++c) indices[c] = index[c];
  }
}

template <class T, bool kLargest>
void cummax_cummin_along(const DimLayout3& a, T* values, int64_t* indices) {
  const bool narrow = sizeof(T) < 8 && a.m <= std::numeric_limits<int32_t>::max();
  const auto columns = narrow ? cummax_cummin_columns<T, kLargest, int32_t> : cummax_cummin_columns<T, kLargest, int64_t>;
  for_rows_or_strips(a, [&](int64_t at, int64_t width) {
    const T* from = data<T>(a.x) + at;
    a.inner == 1 ? cummax_cummin_row<T, kLargest>(from, values + at, indices + at, a.m)
                 : columns(from, values + at, indices + at, a.m, width, a.inner);
  });
}

// The logarithm of the cumulative sum of e^x: keeps the maximum so far and the sum of e^(x - maximum). A NaN stays.
template <class T>
void logcumsumexp_along(const DimLayout3& a, T* out) {
  const T* x = data<T>(a.x);
  for_rows_or_strips(a, [&](int64_t start, int64_t width) {
    T maxima[kStrip];
    double sums[kStrip];
    for (int64_t c = 0; c < width; ++c) {
      maxima[c] = -std::numeric_limits<T>::infinity();
      sums[c] = 0;
    }
    const T* from = x + start;
    T* to = out + start;
    for (int64_t k = 0; k < a.m; ++k, from += a.inner, to += a.inner) {
      for (int64_t c = 0; c < width; ++c) {
        const T v = from[c], max_value = maxima[c];
        if (v > max_value) {
          sums[c] = sums[c] * static_cast<double>(std::exp(max_value - v)) + 1;
          maxima[c] = v;
        } else if (v <= max_value) {
          sums[c] += v == max_value ? 1 : static_cast<double>(std::exp(v - max_value));
        } else {
          maxima[c] = v + max_value;
        }
        to[c] = maxima[c] + static_cast<T>(std::log(static_cast<T>(sums[c])));
      }
    }
  });
}

}  // namespace

// logcumsumexp(x, dim): float32 and float64 only
PyObject* logcumsumexp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("logcumsumexp", n, 2)) return nullptr;
  PyArrayObject* x = array_argument("logcumsumexp", "input", args[0]);
  if (!x) return nullptr;
  const int type = PyArray_TYPE(x);
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_SIZE(x)) Py_RETURN_NONE;
  DimLayout3 a;
  const Prepared ready = prepare(x, args[1], &a);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
  type == NPY_FLOAT ? logcumsumexp_along(a, data<float>(out)) : logcumsumexp_along(a, data<double>(out));
  return out.release();
}

namespace {

template <class T, class A, class O>
void cumulate_as(const DimLayout3& a, bool product, O* out) {
  product ? cumulate<T, A, true>(a, out) : cumulate<T, A, false>(a, out);
}

}  // namespace

// cumsum_cumprod(x, dim, product): integers and bool give int64
PyObject* cumsum_cumprod(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cumsum_cumprod", n, 3)) return nullptr;
  PyArrayObject* x = array_argument("cumsum_cumprod", "input", args[0]);
  const int product = x ? PyObject_IsTrue(args[2]) : -1;
  if (product < 0) return nullptr;
  const int type = PyArray_TYPE(x);
  const bool complex = type == NPY_CFLOAT || type == NPY_CDOUBLE;
  if (type > NPY_DOUBLE && !complex) Py_RETURN_NONE;
  DimLayout3 a;
  const Prepared ready = prepare(x, args[1], &a);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type < NPY_FLOAT ? NPY_INT64 : type));
  if (!out) return nullptr;
  if (PyArray_SIZE(x) == 0) return out.release();
  Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
  if (complex) {
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      cumulate_as<T, ComplexDouble>(a, product, data<T>(out));
    };
    type == NPY_CFLOAT ? compute(std::complex<float>()) : compute(std::complex<double>());
    return out.release();
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point<T>::value) {
      cumulate_as<T, double>(a, product, data<T>(out));
    } else {  // unsigned, so that overflow wraps around
      cumulate_as<T, uint64_t>(a, product, data<uint64_t>(out));
    }
  });
  return out.release();
}

// cummax_cummin(x, dim, largest) -> (values, indices)
PyObject* cummax_cummin(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cummax_cummin", n, 3)) return nullptr;
  PyArrayObject* x = array_argument("cummax_cummin", "input", args[0]);
  const int largest = x ? PyObject_IsTrue(args[2]) : -1;
  if (largest < 0) return nullptr;
  if (PyArray_TYPE(x) > NPY_DOUBLE) Py_RETURN_NONE;
  DimLayout3 a;
  const Prepared ready = prepare(x, args[1], &a);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  Ref values(new_array(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
  Ref indices(new_array(PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64));
  if (!values || !indices) return nullptr;
  if (PyArray_SIZE(x)) {
    Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
    with_type(PyArray_TYPE(x), [&](auto zero) {
      using T = decltype(zero);
      const auto run = largest ? cummax_cummin_along<T, true> : cummax_cummin_along<T, false>;
      run(a, data<T>(values), data<int64_t>(indices));
    });
  }
  return PyTuple_Pack(2, values.get(), indices.get());
}

}  // namespace shmtensor
