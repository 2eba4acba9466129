// Strided rows are copied to a buffer a piece at a time, in the cache, instead of copying the array.
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
double sum_strided(const T* x, int64_t n, int64_t step) {
  constexpr int64_t kBuffer = 2048;
  if (step == 1) return kernels<T>().sum(x, n);
  if (step == 2) return kernels<T>().sum_every_second(x, n);
  T buffer[kBuffer];
  double total = 0;
  for (int64_t start = 0; start < n; start += kBuffer) {
    const int64_t count = std::min(kBuffer, n - start);
    for (int64_t k = 0; k < count; ++k) buffer[k] = x[(start + k) * step];
    total += kernels<T>().sum(buffer, count);
  }
  return total;
}

// Sums of rows `row` apart whose elements are `step` apart.
template <class T>
void sum_strided_rows(const T* x, T* out, int64_t outer, int64_t m, int64_t row, int64_t step) {
  ranges(outer, (kPiece + m - 1) / m, [&](int64_t o, int64_t stop) {
    for (; o < stop; ++o) out[o] = static_cast<T>(sum_strided(x + o * row, m, step));
  });
}

// The sum of all rows, in pieces that depend on the shape alone and are added in order.
template <class T>
T sum_all_strided(const T* x, int64_t outer, int64_t m, int64_t row, int64_t step) {
  const int64_t pieces_per_row = (m + kPiece - 1) / kPiece, row_work = std::min(m, kPiece);
  std::vector<double> partials(static_cast<size_t>(outer * pieces_per_row));
  ranges(outer * pieces_per_row, (kPiece + row_work - 1) / row_work, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t at = i % pieces_per_row * kPiece;
      const T* from = x + i / pieces_per_row * row + at * step;
      partials[static_cast<size_t>(i)] = sum_strided(from, std::min(kPiece, m - at), step);
    }
  });
  double total = 0;
  for (const double partial : partials) total += partial;
  return static_cast<T>(total);
}

// The sum of a strided vector or matrix; null if a copy is as fast.
Ref sum_all(PyArrayObject* x, bool keepdim) {
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  const int64_t size = PyArray_ITEMSIZE(x), m = PyArray_DIM(x, nd - 1);
  const int64_t outer = nd == 2 ? PyArray_DIM(x, 0) : 1, step = PyArray_STRIDE(x, nd - 1) / size;
  const int64_t row = nd == 2 ? PyArray_STRIDE(x, 0) / size : m * step;
  if (outer * m < kUnlock || m < 64 || step < 1 || row < m * step / 2) return Ref();
  if (step == 1 && row == m) return Ref();
  const npy_intp dims[2] = {1, 1};
  Ref out(new_array(keepdim ? nd : 0, dims, type));
  if (!out) return out;
  Unlocked unlocked(true);
  if (type == NPY_FLOAT) {
    *data<float>(out) = sum_all_strided(data<float>(x), outer, m, row, step);
  } else {
    *data<double>(out) = sum_all_strided(data<double>(x), outer, m, row, step);
  }
  return out;
}

}  // namespace

Ref strided_sum(PyArrayObject* x, const bool* is_reduced, bool keepdim) {
  const int type = PyArray_TYPE(x), nd = PyArray_NDIM(x);
  if ((nd == 1 || nd == 2) && is_reduced[0] && is_reduced[nd - 1] && is_plain(x)) return sum_all(x, keepdim);
  if (nd != 2 || is_reduced[0] || !is_reduced[1] || !is_plain(x)) return Ref();
  const int64_t outer = PyArray_DIM(x, 0), m = PyArray_DIM(x, 1), size = PyArray_ITEMSIZE(x);
  const int64_t row = PyArray_STRIDE(x, 0) / size, step = PyArray_STRIDE(x, 1) / size;
  if (outer * m < kUnlock || m < 64 || step < 2 || row < m * step / 2) return Ref();
  const npy_intp dims[2] = {outer, 1};
  Ref out(new_array(keepdim ? 2 : 1, dims, type));
  if (!out) return out;
  Unlocked unlocked(true);
  if (type == NPY_FLOAT) {
    sum_strided_rows(data<float>(x), data<float>(out), outer, m, row, step);
  } else {
    sum_strided_rows(data<double>(x), data<double>(out), outer, m, row, step);
  }
  return out;
}

}  // namespace shmtensor
