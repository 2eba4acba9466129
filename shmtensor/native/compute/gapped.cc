// Rows are closed up a piece at a time, in the cache, in place of a copy of them all.
#include "gapped.h"

#include <algorithm>
#include <vector>

#include "kernels.h"
#include "pool.h"
#include "types.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kUnlock = 8192;

// Every so many elements of a row, side by side.
template <class T>
void close_up(const T* x, int64_t step, T* to, int64_t n) {
  if (step == 2) {  // a constant step becomes vector code
    for (int64_t k = 0; k < n - 1; ++k) to[k] = x[2 * k];
    to[n - 1] = x[2 * n - 2];  // apart: vectors read past the last one
    return;
  }
  for (int64_t k = 0; k < n; ++k) to[k] = x[k * step];
}

// Sums of rows `row` apart whose elements are `step` apart, in place of a copy of them.
template <class T>
void sum_gapped_rows(const T* x, T* out, int64_t outer, int64_t m, int64_t row, int64_t step) {
  constexpr int64_t kSome = 2048;
  const auto kernel = kernels<T>().sum;
  ranges(outer, (kPiece + m - 1) / m, [&](int64_t o, int64_t stop) {
    T line[kSome];
    for (; o < stop; ++o) {
      double total = 0;
      for (int64_t k = 0; k < m; k += kSome) {
        const int64_t n = std::min(kSome, m - k);
        close_up(x + o * row + k * step, step, line, n);
        total += kernel(line, n);
      }
      out[o] = static_cast<T>(total);
    }
  });
}

// The sum of all of them: rows are cut into pieces that depend on the shape
// alone, joined in order.
template <class T>
T sum_all_gapped(const T* x, int64_t outer, int64_t m, int64_t row, int64_t step) {
  constexpr int64_t kSome = 2048;
  const auto kernel = kernels<T>().sum;
  const int64_t cuts = (m + kPiece - 1) / kPiece, each = std::min(m, kPiece);
  std::vector<double> parts(static_cast<size_t>(outer * cuts));
  ranges(outer * cuts, (kPiece + each - 1) / each, [&](int64_t i, int64_t stop) {
    T line[kSome];
    for (; i < stop; ++i) {
      const int64_t at = i % cuts * kPiece, n = std::min(kPiece, m - at);
      const T* from = x + i / cuts * row + at * step;
      double total = step == 1 ? kernel(from, n) : 0;
      for (int64_t k = 0; step != 1 && k < n; k += kSome) {
        const int64_t some = std::min(kSome, n - k);
        close_up(from + k * step, step, line, some);
        total += kernel(line, some);
      }
      parts[static_cast<size_t>(i)] = total;
    }
  });
  double total = 0;
  for (const double part : parts) total += part;
  return static_cast<T>(total);
}

// Vectors, and matrices whose rows lie apart, into one number; nothing where a
// copy does as well.
Ref all_of(PyArrayObject* x, bool keep) {
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  const int64_t size = PyArray_ITEMSIZE(x), m = PyArray_DIM(x, nd - 1);
  const int64_t outer = nd == 2 ? PyArray_DIM(x, 0) : 1, step = PyArray_STRIDE(x, nd - 1) / size;
  const int64_t row = nd == 2 ? PyArray_STRIDE(x, 0) / size : m * step;
  if (outer * m < kUnlock || m < 64 || step < 1 || row < m * step / 2) return Ref();
  if (step == 1 && row == m) return Ref();
  const npy_intp dims[2] = {1, 1};
  Ref out(fresh(keep ? nd : 0, dims, type));
  if (!out) return out;
  Unlocked unlocked(true);
  if (type == NPY_FLOAT) {
    *data<float>(out) = sum_all_gapped(data<float>(x), outer, m, row, step);
  } else {
    *data<double>(out) = sum_all_gapped(data<double>(x), outer, m, row, step);
  }
  return out;
}

}  // namespace

Ref sum_gapped(PyArrayObject* x, const bool* reduced, bool keep) {
  const int type = PyArray_TYPE(x), nd = PyArray_NDIM(x);
  if ((nd == 1 || nd == 2) && reduced[0] && reduced[nd - 1] && is_plain(x)) return all_of(x, keep);
  if (nd != 2 || reduced[0] || !reduced[1] || !is_plain(x)) return Ref();
  const int64_t outer = PyArray_DIM(x, 0), m = PyArray_DIM(x, 1), size = PyArray_ITEMSIZE(x);
  const int64_t row = PyArray_STRIDE(x, 0) / size, step = PyArray_STRIDE(x, 1) / size;
  if (outer * m < kUnlock || m < 64 || step < 2 || row < m * step / 2) return Ref();
  const npy_intp dims[2] = {outer, 1};
  Ref out(fresh(keep ? 2 : 1, dims, type));
  if (!out) return out;
  Unlocked unlocked(true);
  if (type == NPY_FLOAT) {
    sum_gapped_rows(data<float>(x), data<float>(out), outer, m, row, step);
  } else {
    sum_gapped_rows(data<double>(x), data<double>(out), outer, m, row, step);
  }
  return out;
}

}  // namespace shmtensor
