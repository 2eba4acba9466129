// Products of complex numbers along dimensions: rows in pieces, or strips of columns in pieces of rows. Pieces depend
// on the shape alone.
#include "kernels/reduce/complex_prod.h"

#include <algorithm>
#include <vector>

#include "simd/kernel_table.h"
#include "kernels/reduce/complex_sum.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 4096;
constexpr int64_t kStrip = 256;
constexpr int64_t kShortRow = 24;  // elements of a short row

void multiply(double* total, double re, double im) {
  const double new_re = total[0] * re - total[1] * im;
  total[1] = total[0] * im + total[1] * re;
  total[0] = new_re;
}

// Multiplies the `pieces` consecutive partial products of each result.
template <class T>
void multiply_partials(const std::vector<double>& partials, int64_t pieces, T* out, int64_t n) {
  const double* partial = partials.data();
  for (int64_t i = 0; i < n; ++i, out += 2) {
    double total[2] = {1, 0};
    for (int64_t p = 0; p < pieces; ++p, partial += 2) multiply(total, partial[0], partial[1]);
    out[0] = static_cast<T>(total[0]);
    out[1] = static_cast<T>(total[1]);
  }
}

// Short rows are transposed in batches and multiplied as columns: Note [Short rows] in reduced_layout.h.
template <class T>
void prod_short_rows(const T* x, T* out, int64_t rows, int64_t m) {
  constexpr int64_t kBatch = 64;
  for (; rows > 0; rows -= kBatch, x += 2 * kBatch * m) {
    const int64_t n = std::min(rows, kBatch);
    T tile[2 * kShortRow * kBatch];
    transpose_pairs(x, tile, n, m);
    double re[kBatch], im[kBatch];
    std::fill(re, re + n, 1.0);
    std::fill(im, im + n, 0.0);
    kernels<T>().complex_prod_columns(tile, re, im, m, n, n);
    for (int64_t r = 0; r < n; ++r, out += 2) {
      out[0] = static_cast<T>(re[r]);
      out[1] = static_cast<T>(im[r]);
    }
  }
}

template <class T>
void prod_rows(const T* x, T* out, int64_t outer, int64_t m) {
  if (m > 0 && m <= kShortRow) {
    return ranges(outer, 1 + kPiece / m,
                  [&](int64_t o, int64_t stop) { prod_short_rows(x + 2 * o * m, out + 2 * o, stop - o, m); });
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  std::vector<double> partials(static_cast<size_t>(2 * outer * pieces));
  ranges(outer * pieces, 1 + kPiece / (m + 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % pieces * kPiece;
      kernels<T>().complex_prod(x + 2 * (i / pieces * m + start), std::min(kPiece, m - start),
                                &partials[static_cast<size_t>(2 * i)]);
    }
  });
  multiply_partials(partials, pieces, out, outer);
}

template <class T>
void prod_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner) {
  const int64_t width = std::min(inner, kStrip), strips = (inner + width - 1) / width;
  const int64_t chain = 1 + kPiece / width, pieces = (m + chain - 1) / chain;
  std::vector<double> partials(static_cast<size_t>(2 * outer * pieces * inner));
  ranges(outer * pieces * strips, 1 + kPiece / (std::min(chain, m) * width + 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * width, p = i / strips % pieces, o = i / strips / pieces;
      const int64_t n = std::min(width, inner - c);
      double re[kStrip], im[kStrip];
      std::fill(re, re + n, 1.0);
      std::fill(im, im + n, 0.0);
      kernels<T>().complex_prod_columns(x + 2 * ((o * m + p * chain) * inner + c), re, im, std::min(chain, m - p * chain), n,
                                        inner);
      double* partial = &partials[static_cast<size_t>(2 * ((o * inner + c) * pieces + p))];
      for (int64_t k = 0; k < n; ++k, partial += 2 * pieces) {
        partial[0] = re[k];
        partial[1] = im[k];
      }
    }
  });
  multiply_partials(partials, pieces, out, outer * inner);
}

}  // namespace

PyObject* complex_prod_over(PyArrayObject* x, PyObject* dim, bool keepdim) {
  ReducedLayout r;
  if (!reduced_argument("prod", x, dim, keepdim, &r, ExpandedDims::EachElement)) return fall_back();
  const int type = PyArray_TYPE(x);
  Ref out(new_array(r.nd, r.dims, type));
  if (!out) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    if (r.outer * r.inner == 0) return;
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    if (r.inner == 1) {
      prod_rows(data<T>(r.x), data<T>(out), r.outer, r.m);
    } else {
      prod_columns(data<T>(r.x), data<T>(out), r.outer, r.m, r.inner);
    }
  };
  type == NPY_CFLOAT ? compute(float()) : compute(double());
  return r.restore(std::move(out));
}

}  // namespace shmtensor
