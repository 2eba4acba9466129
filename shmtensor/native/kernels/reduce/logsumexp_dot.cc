// logsumexp, and matmul of a fixed rank, which save calls for small tensors.
#include "kernels/functions.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;

// log(sum(exp(x))) of each row by the cross entropy kernel: the maximum's index is the target, so that nothing cancels;
// the probabilities are discarded.
template <class T>
void logsumexp_rows(const ReducedLayout& r, T* out) {
  const T* x = data<T>(r.x);
  ranges(r.outer, 1 + kPiece / r.m, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const T* row = x + i * r.m;
      const T max_value = folds<T>().minmax[kMaximum](row, r.m);
      if (!(std::fabs(max_value) <= std::numeric_limits<T>::max())) {
        out[i] = max_value;  // the result is infinite or NaN, too
        continue;
      }
      T top, log_total;
      kernels<T>().logsumexp_row(row, r.m, &top, &log_total);
      out[i] = log_total + top;
    }
  });
}

// log(sum(exp(x))) of each column.
template <class T>
void logsumexp_columns(const ReducedLayout& r, T* out) {
  constexpr int64_t kStrip = 64;
  const T* x = data<T>(r.x);
  const int64_t strips = (r.inner + kStrip - 1) / kStrip;
  ranges(r.outer * strips, 1 + kPiece / (kStrip * r.m), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * kStrip, o = i / strips, remaining = r.inner - c;
      kernels<T>().logsumexp_columns(x + o * r.m * r.inner + c, out + o * r.inner + c, r.m,
                                     remaining < kStrip ? remaining : kStrip, r.inner);
    }
  });
}

template <class T>
void logsumexp_along(const ReducedLayout& r, T* out) {
  Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
  r.inner == 1 ? logsumexp_rows(r, out) : logsumexp_columns(r, out);
}

}  // namespace

PyObject* logsumexp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("logsumexp", n, 3)) return nullptr;
  PyArrayObject* x = array_argument("logsumexp", "input", args[0]);
  if (!x) return nullptr;
  const int type = PyArray_TYPE(x);
  if (type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  ReducedLayout r;
  if (!reduced_argument("logsumexp", x, args[1], args[2] == Py_True, &r, ExpandedDims::EachElement)) return fall_back();
  if (r.m == 0) Py_RETURN_NONE;
  // a few long columns: transpose them, so that each row is a slice
  if (r.outer == 1 && r.inner < 64 && r.m > kPiece) {
    npy_intp dims[2] = {r.m, r.inner};
    PyArray_Dims shape{dims, 2};
    Ref matrix(PyArray_Newshape(r.x.array(), &shape, NPY_CORDER));
    Ref transposed(matrix ? PyArray_Transpose(matrix.array(), nullptr) : nullptr);
    r.x = transposed ? contiguous(transposed.array()) : Ref();
    if (!r.x) return nullptr;
    r.outer = r.inner;
    r.inner = 1;
  }
  Ref out(new_array(r.nd, r.dims, type));
  if (!out) return nullptr;
  type == NPY_FLOAT ? logsumexp_along(r, data<float>(out)) : logsumexp_along(r, data<double>(out));
  return r.restore(std::move(out));
}

namespace {

PyObject* matmul_of_rank(int rank, PyObject* const* args, Py_ssize_t n) {
  if (!takes("matmul", n, 2)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *y = as_array(args[1]);
  if (PyArray_NDIM(x) != rank || PyArray_NDIM(y) != rank) Py_RETURN_NONE;
  if (rank == 3 && PyArray_DIM(x, 0) != PyArray_DIM(y, 0)) Py_RETURN_NONE;
  return matmul(nullptr, args, n);
}

}  // namespace

PyObject* dot(PyObject*, PyObject* const* args, Py_ssize_t n) { return matmul_of_rank(1, args, n); }
PyObject* bmm(PyObject*, PyObject* const* args, Py_ssize_t n) { return matmul_of_rank(3, args, n); }

}  // namespace shmtensor
