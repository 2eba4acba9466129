// Rows are closed up a piece at a time, in the cache, in place of a copy of them all.
#include "kernels/reduce/strided_sum.h"

#include <algorithm>
#include <vector>

#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kUnlock = 8192;

// The sum of n elements `step` apart.
template <class T>
double sum_apart(const T* x, int64_t n, int64_t step) {
  constexpr int64_t kSome = 2048;
  if (step == 1) return kernels<T>().sum(x, n);
  if (step == 2) return kernels<T>().sum_seconds(x, n);
  T line[kSome];
  double total = 0;
  for (int64_t start = 0; start < n; start += kSome) {
    const int64_t some = std::min(kSome, n - start);
    for (int64_t k = 0; k < some; ++k) line[k] = x[(start + k) * step];
    total += kernels<T>().sum(line, some);
  }
  return total;
}

// Sums of rows `row` apart whose elements are `step` apart, in place of a copy of them.
template <class T>
void sum_gapped_rows(const T* x, T* out, int64_t outer, int64_t m, int64_t row, int64_t step) {
  ranges(outer, (kPiece + m - 1) / m, [&](int64_t o, int64_t stop) {
    for (; o < stop; ++o) out[o] = static_cast<T>(sum_apart(x + o * row, m, step));
  });
}

// The sum of all of them: rows are cut into pieces that depend on the shape alone, joined in order.
template <class T>
T sum_all_gapped(const T* x, int64_t outer, int64_t m, int64_t row, int64_t step) {
  const int64_t cuts = (m + kPiece - 1) / kPiece, each = std::min(m, kPiece);
  std::vector<double> parts(static_cast<size_t>(outer * cuts));
  ranges(outer * cuts, (kPiece + each - 1) / each, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t at = i % cuts * kPiece;
      const T* from = x + i / cuts * row + at * step;
      parts[static_cast<size_t>(i)] = sum_apart(from, std::min(kPiece, m - at), step);
    }
  });
  double total = 0;
  for (const double part : parts) total += part;
  return static_cast<T>(total);
}

// Vectors, and matrices whose rows lie apart, into one number; nothing where a copy does as well.
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
