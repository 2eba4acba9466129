// Distances of pairs of points, computed from their differences: a matrix product would be faster for points of many
// coordinates, but cancels for close points.
//
// The second points are transposed first, so that a row of results is computed along contiguous rows of coordinates.
#include <cmath>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;  // multiply-adds per slice
constexpr int64_t kUnlock = 8192;

// The metric of an order p; -1: no kernel for it, or p is not a number (with an exception).
int metric_argument(PyObject* p) {
  const double order = PyFloat_AsDouble(p);
  if (order == 0) return static_cast<int>(Metric::Count);
  if (order == 1) return static_cast<int>(Metric::Sum);
  if (order == 2) return static_cast<int>(Metric::Squares);
  return std::isinf(order) && order > 0 ? static_cast<int>(Metric::Largest) : -1;
}

PyObject* none_unless_error() {
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

bool is_real(PyArrayObject* x) { return PyArray_TYPE(x) == NPY_FLOAT || PyArray_TYPE(x) == NPY_DOUBLE; }

// A C-contiguous copy with the last two dimensions swapped.
Ref transposed_copy(PyArrayObject* x) {
  Ref view(PyArray_SwapAxes(x, PyArray_NDIM(x) - 2, PyArray_NDIM(x) - 1));
  return view ? contiguous(view.array()) : Ref();
}

}  // namespace

// cdist(x, y, p): (P, M), (R, M) -> (P, R), or batches of both; None for other dtypes and orders
PyObject* cdist(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cdist", n, 3)) return nullptr;
  PyArrayObject *x = array_argument("cdist", "x", args[0]), *y = x ? array_argument("cdist", "y", args[1]) : nullptr;
  if (!y) return nullptr;
  const int metric = metric_argument(args[2]);
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (metric < 0) return none_unless_error();
  if (!is_real(x) || PyArray_TYPE(y) != type || (nd != 2 && nd != 3) || PyArray_NDIM(y) != nd ||
      PyArray_DIM(x, nd - 1) != PyArray_DIM(y, nd - 1) || (nd == 3 && PyArray_DIM(x, 0) != PyArray_DIM(y, 0)))
    Py_RETURN_NONE;
  const npy_intp batch = nd == 3 ? PyArray_DIM(x, 0) : 1;
  const npy_intp rows = PyArray_DIM(x, nd - 2), columns = PyArray_DIM(y, nd - 2);
  const npy_intp m = PyArray_DIM(x, nd - 1), dims[3] = {batch, rows, columns};
  Ref a = contiguous(x);
  Ref b = a ? transposed_copy(y) : Ref();
  Ref out(b ? new_array(nd, dims + 3 - nd, type) : nullptr);
  if (!out) return nullptr;
  const int64_t work = columns * (m + 4);
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = kernels<T>().distances[metric];
    Unlocked unlocked(batch * rows * work > kUnlock);
    ranges(batch * rows, 1 + kGrain / (work + 1), [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i)
        kernel(data<T>(a) + i * m, data<T>(b) + i / rows * m * columns, data<T>(out) + i * columns, m, columns, columns);
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

// pdist(x, p): the distances of rows i and j for all i < j, (N, M) -> (N * (N - 1) / 2)
PyObject* pdist(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("pdist", n, 2)) return nullptr;
  PyArrayObject* x = array_argument("pdist", "x", args[0]);
  if (!x) return nullptr;
  const int metric = metric_argument(args[1]);
  if (metric < 0) return none_unless_error();
  if (!is_real(x) || PyArray_NDIM(x) != 2) Py_RETURN_NONE;
  const int64_t rows = PyArray_DIM(x, 0), m = PyArray_DIM(x, 1);
  const npy_intp size = rows * (rows - 1) / 2;
  Ref a = contiguous(x);
  Ref b = a ? transposed_copy(x) : Ref();
  Ref out(b ? new_array(1, &size, PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const int64_t work = rows * (m + 4) / 2;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = kernels<T>().distances[metric];
    Unlocked unlocked(rows * work > kUnlock);
    ranges(rows, 1 + kGrain / (work + 1), [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i)
        kernel(data<T>(a) + i * m, data<T>(b) + i + 1, data<T>(out) + i * rows - i * (i + 1) / 2, m, rows - i - 1, rows);
    });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

}  // namespace shmtensor
