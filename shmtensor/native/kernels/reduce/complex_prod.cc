// The product of complex numbers along dimensions: rows in pieces, or strips of columns in chains, which
// depend on the shape alone.
#include "kernels/reduce/complex_prod.h"

#include <algorithm>
#include <vector>

#include "simd/kernel_table.h"
#include "kernels/reduce/complex_sum.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // numbers of a slice
constexpr int64_t kUnlock = 4096;
constexpr int64_t kStrip = 256;
constexpr int64_t kShort = 24;  // numbers of a short row

void multiply(double* total, double re, double im) {
  const double turned = total[0] * re - total[1] * im;
  total[1] = total[0] * im + total[1] * re;
  total[0] = turned;
}

// Parts, of each result so many one after the other, as results.
template <class T>
void join(const std::vector<double>& parts, int64_t pieces, T* out, int64_t n) {
  const double* part = parts.data();
  for (int64_t i = 0; i < n; ++i, out += 2) {
    double total[2] = {1, 0};
    for (int64_t p = 0; p < pieces; ++p, part += 2) multiply(total, part[0], part[1]);
    out[0] = static_cast<T>(total[0]);
    out[1] = static_cast<T>(total[1]);
  }
}

// Short rows, so many at a time turned, are columns: Note [Short rows] in reduced_layout.h.
template <class T>
void multiply_short(const T* x, T* out, int64_t rows, int64_t m) {
  constexpr int64_t kAtOnce = 64;
  for (; rows > 0; rows -= kAtOnce, x += 2 * kAtOnce * m) {
    const int64_t n = std::min(rows, kAtOnce);
    T tile[2 * kShort * kAtOnce];
    turn_pairs(x, tile, n, m);
    double re[kAtOnce], im[kAtOnce];
    std::fill(re, re + n, 1.0);
    std::fill(im, im + n, 0.0);
    kernels<T>().complex_product_columns(tile, re, im, m, n, n);
    for (int64_t r = 0; r < n; ++r, out += 2) {
      out[0] = static_cast<T>(re[r]);
      out[1] = static_cast<T>(im[r]);
    }
  }
}

template <class T>
void multiply_rows(const T* x, T* out, int64_t outer, int64_t m) {
  if (m > 0 && m <= kShort) {
    return ranges(outer, 1 + kPiece / m, [&](int64_t o, int64_t stop) {
      multiply_short(x + 2 * o * m, out + 2 * o, stop - o, m);
    });
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  std::vector<double> parts(static_cast<size_t>(2 * outer * pieces));
  ranges(outer * pieces, 1 + kPiece / (m + 1), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % pieces * kPiece;
      kernels<T>().complex_product(x + 2 * (i / pieces * m + start), std::min(kPiece, m - start),
                                   &parts[static_cast<size_t>(2 * i)]);
    }
  });
  join(parts, pieces, out, outer);
}

template <class T>
void multiply_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner) {
  const int64_t width = std::min(inner, kStrip), strips = (inner + width - 1) / width;
  const int64_t chain = 1 + kPiece / width, pieces = (m + chain - 1) / chain;
  std::vector<double> parts(static_cast<size_t>(2 * outer * pieces * inner));
  ranges(outer * pieces * strips, 1 + kPiece / (std::min(chain, m) * width + 1),
         [&](int64_t i, int64_t stop) {
           for (; i < stop; ++i) {
             const int64_t c = i % strips * width, p = i / strips % pieces, o = i / strips / pieces;
             const int64_t n = std::min(width, inner - c);
             double re[kStrip], im[kStrip];
             std::fill(re, re + n, 1.0);
             std::fill(im, im + n, 0.0);
             kernels<T>().complex_product_columns(x + 2 * ((o * m + p * chain) * inner + c), re, im,
                                                  std::min(chain, m - p * chain), n, inner);
             double* part = &parts[static_cast<size_t>(2 * ((o * inner + c) * pieces + p))];
             for (int64_t k = 0; k < n; ++k, part += 2 * pieces) {
               part[0] = re[k];
               part[1] = im[k];
             }
           }
         });
  join(parts, pieces, out, outer * inner);
}

}  // namespace

PyObject* complex_product(PyArrayObject* x, PyObject* dim, bool keep) {
  Reduced r;
  if (!reduced_argument("prod", x, dim, keep, &r, Stretched::Walked)) return left_to_caller();
  const int type = PyArray_TYPE(x);
  Ref out(fresh(r.nd, r.dims, type));
  if (!out) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    if (r.outer * r.inner == 0) return;
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    if (r.inner == 1) {
      multiply_rows(data<T>(r.x), data<T>(out), r.outer, r.m);
    } else {
      multiply_columns(data<T>(r.x), data<T>(out), r.outer, r.m, r.inner);
    }
  };
  type == NPY_CFLOAT ? go(float()) : go(double());
  return r.put_back(std::move(out));
}

}  // namespace shmtensor
