// Cross products of vectors of three elements, and index combinations.
#include <vector>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kStrip = 4096;  // vectors of a slice
constexpr int64_t kUnlock = 4096;

// n vectors side by side, whose three elements are `row` apart.
template <class T>
void cross_strided(const T* __restrict x, const T* __restrict y, T* __restrict out, int64_t n, int64_t row) {
  for (int64_t c = 0; c < n; ++c) {
    const T x0 = x[c], x1 = x[c + row], x2 = x[c + 2 * row];
    const T y0 = y[c], y1 = y[c + row], y2 = y[c + 2 * row];
    out[c] = static_cast<T>(x1 * y2 - x2 * y1);
    out[c + row] = static_cast<T>(x2 * y0 - x0 * y2);
    out[c + 2 * row] = static_cast<T>(x0 * y1 - x1 * y0);
  }
}

// n vectors one after the other.
template <class T>
void cross_contiguous(const T* __restrict x, const T* __restrict y, T* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i, x += 3, y += 3, out += 3) {
    const T x0 = x[0], x1 = x[1], x2 = x[2], y0 = y[0], y1 = y[1], y2 = y[2];
    out[0] = static_cast<T>(x1 * y2 - x2 * y1);
    out[1] = static_cast<T>(x2 * y0 - x0 * y2);
    out[2] = static_cast<T>(x0 * y1 - x1 * y0);
  }
}

// The number of combinations; -1: more than fit in memory.
int64_t count_combinations(int64_t n, int64_t r, bool with_replacement) {
  constexpr int64_t kMaxElements = int64_t(1) << 40;
  const int64_t available = with_replacement ? n + r - 1 : n;
  if (r > available || n == 0) return 0;
  const int64_t k = r < available - r ? r : available - r;
  int64_t rows = 1;
  for (int64_t i = 1; i <= k; ++i) {
    if (__builtin_mul_overflow(rows, available - k + i, &rows)) return -1;
    rows /= i;
  }
  return rows < kMaxElements / r ? rows : -1;
}

// Rows in lexicographic order: the last index runs, then the last index before it that can be increased is increased.
void fill_combinations(int64_t* rows, int64_t n, int64_t r, bool with_replacement) {
  const int64_t step = with_replacement ? 0 : 1;
  std::vector<int64_t> current_indices(static_cast<size_t>(r));
  for (int64_t k = 0; k < r; ++k) current_indices[static_cast<size_t>(k)] = k * step;
  const int64_t* current = current_indices.data();
  for (;;) {
    for (int64_t last = current[r - 1]; last < n; ++last, rows += r) {
      for (int64_t k = 0; k < r - 1; ++k) rows[k] = current[k];
      rows[r - 1] = last;
    }
    int64_t k = r - 2;
    while (k >= 0 && current_indices[static_cast<size_t>(k)] == n - 1 - (r - 1 - k) * step) --k;
    if (k < 0) return;
    int64_t next = ++current_indices[static_cast<size_t>(k)];
    while (++k < r) current_indices[static_cast<size_t>(k)] = next += step;
  }
}

}  // namespace

// cross(x, y, dim): cross products along a dimension of size 3
PyObject* cross(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cross", n, 3)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *y = as_array(args[1]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x)), type = PyArray_TYPE(x);
  if (dim < 0 || PyArray_DIM(x, dim) != 3 || (type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_TYPE(y) != type ||
      !PyArray_SAMESHAPE(x, y))
    Py_RETURN_NONE;
  Ref a(contiguous(x)), b(a ? contiguous(y) : Ref());
  Ref out(b ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type) : nullptr);
  if (!out) return nullptr;
  const DimLayout layout = layout_around(x, dim);
  const int64_t outer = layout.outer, row = layout.inner;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const T *x_data = data<T>(a), *y_data = data<T>(b);
    T* out_data = data<T>(out);
    Unlocked unlocked(outer * row > kUnlock);
    if (row == 1) {
      return ranges(outer, kStrip, [&](int64_t i, int64_t stop) {
        cross_contiguous(x_data + 3 * i, y_data + 3 * i, out_data + 3 * i, stop - i);
      });
    }
    const int64_t strips = (row + kStrip - 1) / kStrip;
    ranges(outer * strips, 1 + kStrip / (row ? row : 1), [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const int64_t c = i % strips * kStrip, at = i / strips * 3 * row + c;
        cross_strided(x_data + at, y_data + at, out_data + at, row - c < kStrip ? row - c : kStrip, row);
      }
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

// combinations(n, r, with_replacement): indices of r > 0 out of n elements, one combination a row, in order
PyObject* combinations(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("combinations", count, 3)) return nullptr;
  const Py_ssize_t n = PyLong_AsSsize_t(args[0]), r = PyLong_AsSsize_t(args[1]);
  const int with_replacement = PyObject_IsTrue(args[2]);
  if (PyErr_Occurred()) return nullptr;
  const int64_t rows = n < 0 || r < 1 ? -1 : count_combinations(n, r, with_replacement);
  if (rows < 0) Py_RETURN_NONE;
  const npy_intp dims[2] = {rows, r};
  Ref out(new_array(2, dims, NPY_INT64));
  if (!out) return nullptr;
  Unlocked unlocked(rows > kUnlock);
  if (rows) fill_combinations(data<int64_t>(out), n, r, with_replacement);
  return out.release();
}

}  // namespace shmtensor
