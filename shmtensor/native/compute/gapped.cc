// Rows are closed up a piece at a time, in the cache, in place of a copy of them all.
#include "gapped.h"

#include <algorithm>

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

}  // namespace

Ref sum_gapped(PyArrayObject* x, const bool* reduced, bool keep) {
  const int type = PyArray_TYPE(x);
  if (PyArray_NDIM(x) != 2 || reduced[0] || !reduced[1] || !is_plain(x)) return Ref();
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
