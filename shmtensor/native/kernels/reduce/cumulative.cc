// x as (outer, m, inner): whole rows, or strips of columns, are one thread's work; a long row is added
// up in pieces first, and each piece goes on from the sum of those before it. float32 is accumulated
// in double: a long running sum in float32 drifts away.
#include "kernels/reduce/cumulative.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/arguments.h"
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

struct Along {
  Ref x;
  int64_t outer = 1, m = 1, inner = 1;
};

// 1: ready; 0: NumPy does it; -1: exception.
int prepare(PyArrayObject* x, PyObject* dim_object, Along* a) {
  const int nd = PyArray_NDIM(x);
  if (nd == 0) return 0;
  const int dim = dim_argument("dim", dim_object, nd);
  if (dim < 0) return -1;
  for (int i = 0; i < nd; ++i)
    (i < dim ? a->outer : i > dim ? a->inner : a->m) *= PyArray_DIM(x, i);
  a->x = in_order(x);
  return a->x ? 1 : -1;
}

// body(first element, columns) for each row, or strip of columns.
template <class F>
void each(const Along& a, F&& body) {
  const int64_t strips = (a.inner + kStrip - 1) / kStrip;
  const int64_t each = a.m * (a.inner < kStrip ? a.inner : kStrip);
  ranges(a.outer * strips, each >= kGrain ? 1 : kGrain / (each ? each : 1),
         [&](int64_t i, int64_t stop) {
           for (; i < stop; ++i) {
             const int64_t c = i % strips * kStrip, left = a.inner - c;
             body(i / strips * a.m * a.inner + c, left < kStrip ? left : kStrip);
           }
         });
}

// A complex number that is accumulated: in double.
struct Turn {
  double re, im;
  Turn() = default;
  Turn(int v) : re(v), im(0) {}
  Turn(double real, double imaginary) : re(real), im(imaginary) {}
  template <class T>
  explicit Turn(const std::complex<T>& v)
      : re(static_cast<double>(v.real())), im(static_cast<double>(v.imag())) {}
  template <class T>
  explicit operator std::complex<T>() const {
    return {static_cast<T>(re), static_cast<T>(im)};
  }
  Turn operator+(const Turn& v) const { return {re + v.re, im + v.im}; }
  Turn operator*(const Turn& v) const { return {re * v.re - im * v.im, re * v.im + im * v.re}; }
};

bool is_finite(double v) { return std::isfinite(v); }
bool is_finite(uint64_t) { return true; }
bool is_finite(const Turn& v) { return std::isfinite(v.re) && std::isfinite(v.im); }

template <class A, class T>
A sum_of(const T* x, int64_t n) {
  return tallies<T>().rows[0](x, n);
}

template <class A, class T>
A sum_of(const std::complex<T>* x, int64_t n) {
  const T* parts = reinterpret_cast<const T*>(x);
  return {kernels<T>().sum_seconds(parts, n), kernels<T>().sum_seconds(parts + 1, n)};
}

template <bool kProduct, class A>
inline A joined(A total, A v) {
  return static_cast<A>(kProduct ? total * v : total + v);
}

// Rows side by side, so that the wait for one chain is filled by the others.
template <bool kProduct, int kRows, class T, class A, class O>
void run_rows(const T* x, O* out, int64_t m, const A start) {
  constexpr int64_t kSome = 128;
  A totals[kRows], line[kRows][kSome];
  for (int r = 0; r < kRows; ++r) totals[r] = start;
  for (int64_t k = 0; k < m; k += kSome) {
    const int64_t n = std::min(kSome, m - k);
    {
      [[maybe_unused]] Flush<T> flush;  // but not of what is a float32 in the end
      for (int64_t i = 0; i < n; ++i) {
        for (int r = 0; r < kRows; ++r)
          line[r][i] = totals[r] = joined<kProduct>(totals[r], static_cast<A>(x[r * m + k + i]));
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < n; ++i) out[r * m + k + i] = static_cast<O>(line[r][i]);
  }
}

template <class T, class A, class O>
void sum_row(const T* x, O* out, int64_t m, A start) {
  if constexpr (std::is_same<T, float>::value) {
    elementary().running_sums(x, out, m, start);
  } else {
    run_rows<false, 1>(x, out, m, start);
  }
}

// False: a sum overflows, or is no number; one after the other it might not.
template <class T, class A, class O>
bool sum_pieces(const T* x, O* out, int64_t m) {
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  std::vector<A> starts(static_cast<size_t>(pieces));
  const auto each = [&](auto&& body) {
    slices(pieces, [&](int64_t p) {
      body(p * kPiece, std::min(kPiece, m - p * kPiece), &starts[static_cast<size_t>(p)]);
    });
  };
  each([&](int64_t at, int64_t n, A* sum) { *sum = sum_of<A>(x + at, n); });
  A total = 0;
  for (A& start : starts) {
    const A here = start;
    start = total;
    total = total + here;
    if (!is_finite(total)) return false;
  }
  each([&](int64_t at, int64_t n, A* start) { sum_row(x + at, out + at, n, *start); });
  return true;
}

template <class T, class A, bool kProduct, class O>
void accumulate_rows(const Along& a, O* out) {
  const T* x = data<T>(a.x);
  const A start = kProduct ? 1 : 0;
  if constexpr (!kProduct) {
    if (a.m >= 2 * kPiece) {
      for (int64_t o = 0; o < a.outer; ++o, x += a.m, out += a.m)
        if (!sum_pieces<T, A>(x, out, a.m)) sum_row(x, out, a.m, start);
      return;
    }
  }
  ranges(a.outer, a.m >= kGrain ? 1 : kGrain / a.m, [&](int64_t o, int64_t stop) {
    if (!kProduct && std::is_same<T, float>::value) {
      for (; o < stop; ++o) sum_row(x + o * a.m, out + o * a.m, a.m, start);
    }
    for (; o + 4 <= stop; o += 4) run_rows<kProduct, 4>(x + o * a.m, out + o * a.m, a.m, start);
    for (; o < stop; ++o) run_rows<kProduct, 1>(x + o * a.m, out + o * a.m, a.m, start);
  });
}

template <class T, class A, bool kProduct, class O>
void accumulate(const Along& a, O* out) {
  if (a.inner == 1) return accumulate_rows<T, A, kProduct>(a, out);
  const T* x = data<T>(a.x);
  each(a, [&](int64_t start, int64_t width) {
    const T* from = x + start;
    O* to = out + start;
    A totals[kStrip];
    for (int64_t c = 0; c < width; ++c) totals[c] = kProduct ? 1 : 0;
    for (int64_t k = 0; k < a.m; ++k, from += a.inner, to += a.inner) {
      for (int64_t c = 0; c < width; ++c) {
        totals[c] = joined<kProduct>(totals[c], static_cast<A>(from[c]));
        to[c] = static_cast<O>(totals[c]);
      }
    }
  });
}

// Of equal elements the last; from a NaN on, the newest NaN.
template <class T, bool kLargest>
inline bool overtakes(T v, T best) {
  return (kLargest ? v >= best : v <= best) | (v != v);
}

// Records are rare: a run of elements without one is looked through and filled by vectors.
template <class T, bool kLargest>
void record_row(const T* x, T* values, int64_t* places, int64_t m) {
  constexpr int kRun = 16;
  T best = *x;
  int64_t place = 0, k = 0;
  for (; k + kRun <= m; k += kRun) {
    int any = 0;
    for (int j = 0; j < kRun; ++j) any |= overtakes<T, kLargest>(x[k + j], best);
    for (int j = 0; j < kRun; ++j) values[k + j] = best;
    for (int j = 0; j < kRun; ++j) places[k + j] = place;
    for (int j = 0; any && j < kRun; ++j) {
      if (overtakes<T, kLargest>(x[k + j], best)) {
        best = x[k + j];
        place = k + j;
      }
      values[k + j] = best;
      places[k + j] = place;
    }
  }
  for (; k < m; ++k) {
    if (overtakes<T, kLargest>(x[k], best)) {
      best = x[k];
      place = k;
    }
    values[k] = best;
    places[k] = place;
  }
}

// Columns side by side, their places as wide as the elements, where they can be.
template <class T, bool kLargest, class Place>
void record_columns(const T* x, T* values, int64_t* places, int64_t m, int64_t width, int64_t inner) {
  T best[kStrip];
  Place place[kStrip] = {};
  for (int64_t c = 0; c < width; ++c) best[c] = x[c];
  for (int64_t k = 0; k < m; ++k, x += inner, values += inner, places += inner) {
    for (int64_t c = 0; c < width; ++c) {
      const bool take = overtakes<T, kLargest>(x[c], best[c]);
      best[c] = take ? x[c] : best[c];
      place[c] = take ? static_cast<Place>(k) : place[c];
    }
    for (int64_t c = 0; c < width; ++c) values[c] = best[c];
    for (int64_t c = 0; c < width; ++c) places[c] = place[c];
  }
}

template <class T, bool kLargest>
void record(const Along& a, T* values, int64_t* places) {
  const bool narrow = sizeof(T) < 8 && a.m <= std::numeric_limits<int32_t>::max();
  const auto columns = narrow ? record_columns<T, kLargest, int32_t> : record_columns<T, kLargest, int64_t>;
  each(a, [&](int64_t at, int64_t width) {
    const T* from = data<T>(a.x) + at;
    a.inner == 1 ? record_row<T, kLargest>(from, values + at, places + at, a.m)
                 : columns(from, values + at, places + at, a.m, width, a.inner);
  });
}

// The logarithm of the running sum of e^x: the largest so far, and the sum of what the others are to
// it. A NaN stays.
template <class T>
void run_logs(const Along& a, T* out) {
  const T* x = data<T>(a.x);
  each(a, [&](int64_t start, int64_t width) {
    T tops[kStrip];
    double sums[kStrip];
    for (int64_t c = 0; c < width; ++c) {
      tops[c] = -std::numeric_limits<T>::infinity();
      sums[c] = 0;
    }
    const T* from = x + start;
    T* to = out + start;
    for (int64_t k = 0; k < a.m; ++k, from += a.inner, to += a.inner) {
      for (int64_t c = 0; c < width; ++c) {
        const T v = from[c], top = tops[c];
        if (v > top) {
          sums[c] = sums[c] * static_cast<double>(std::exp(top - v)) + 1;
          tops[c] = v;
        } else if (v <= top) {
          sums[c] += v == top ? 1 : static_cast<double>(std::exp(v - top));
        } else {
          tops[c] = v + top;
        }
        to[c] = tops[c] + static_cast<T>(std::log(static_cast<T>(sums[c])));
      }
    }
  });
}

}  // namespace

// logcumsumexp(x, dim): float32 and float64 alone
PyObject* logcumsumexp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("logcumsumexp", n, 2, 2) < 0) return nullptr;
  PyArrayObject* x = array_argument("logcumsumexp", "input", args[0]);
  if (!x) return nullptr;
  const int type = PyArray_TYPE(x);
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_SIZE(x)) Py_RETURN_NONE;
  Along a;
  const int ready = prepare(x, args[1], &a);
  if (ready < 0) return left_to_caller();
  if (ready == 0) Py_RETURN_NONE;
  Ref out(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
  type == NPY_FLOAT ? run_logs(a, data<float>(out)) : run_logs(a, data<double>(out));
  return out.release();
}

namespace {

template <class T, class A, class O>
void accumulate_as(const Along& a, bool product, O* out) {
  product ? accumulate<T, A, true>(a, out) : accumulate<T, A, false>(a, out);
}

}  // namespace

// cumsum_cumprod(x, dim, product): of whole numbers and bool as int64
PyObject* cumsum_cumprod(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("cumsum_cumprod", n, 3, 3) < 0) return nullptr;
  PyArrayObject* x = array_argument("cumsum_cumprod", "input", args[0]);
  const int product = x ? PyObject_IsTrue(args[2]) : -1;
  if (product < 0) return nullptr;
  const int type = PyArray_TYPE(x);
  const bool complex = type == NPY_CFLOAT || type == NPY_CDOUBLE;
  if (type > NPY_DOUBLE && !complex) Py_RETURN_NONE;
  Along a;
  const int ready = prepare(x, args[1], &a);
  if (ready < 0) return left_to_caller();
  if (ready == 0) Py_RETURN_NONE;
  Ref out(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type < NPY_FLOAT ? NPY_INT64 : type));
  if (!out) return nullptr;
  if (PyArray_SIZE(x) == 0) return out.release();
  Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
  if (complex) {
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      accumulate_as<T, Turn>(a, product, data<T>(out));
    };
    type == NPY_CFLOAT ? go(std::complex<float>()) : go(std::complex<double>());
    return out.release();
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point<T>::value) {
      accumulate_as<T, double>(a, product, data<T>(out));
    } else {  // unsigned, so that what overflows wraps round
      accumulate_as<T, uint64_t>(a, product, data<uint64_t>(out));
    }
  });
  return out.release();
}

// cummax_cummin(x, dim, largest) -> (values, places)
PyObject* cummax_cummin(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("cummax_cummin", n, 3, 3) < 0) return nullptr;
  PyArrayObject* x = array_argument("cummax_cummin", "input", args[0]);
  const int largest = x ? PyObject_IsTrue(args[2]) : -1;
  if (largest < 0) return nullptr;
  if (PyArray_TYPE(x) > NPY_DOUBLE) Py_RETURN_NONE;
  Along a;
  const int ready = prepare(x, args[1], &a);
  if (ready < 0) return left_to_caller();
  if (ready == 0) Py_RETURN_NONE;
  Ref values(fresh(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
  Ref places(fresh(PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64));
  if (!values || !places) return nullptr;
  if (PyArray_SIZE(x)) {
    Unlocked unlocked(PyArray_SIZE(x) > kUnlock);
    with_type(PyArray_TYPE(x), [&](auto zero) {
      using T = decltype(zero);
      (largest ? record<T, true> : record<T, false>)(a, data<T>(values), data<int64_t>(places));
    });
  }
  return PyTuple_Pack(2, values.get(), places.get());
}

}  // namespace shmtensor
