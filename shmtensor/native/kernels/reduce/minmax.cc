// Pieces are compared in order, and the first of equal elements wins, so the result and its index do not depend on the
// number of threads. A NaN wins over all numbers, and the first NaN over the others.
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 1024;  // columns at a time: values and indices fit in the first-level cache

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
bool precedes(T a, T b, bool largest) {
  return b == b && (a != a || (largest ? a > b : a < b));
}

// Rows of m, in pieces: values[r], and the index in its row unless `indices` is null.
template <class T>
void minmax_rows(const T* x, T* values, int64_t* indices, int64_t row_indices, int64_t m, int64_t pitch, bool largest) {
  const auto minmax_of = folds<T>().minmax[largest];
  const auto find = folds<T>().find;
  if (row_indices * m <= kPiece || m <= kPiece) {
    const int64_t grain = m ? (kPiece + m - 1) / m : row_indices;
    ranges(row_indices, grain, [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T value = minmax_of(x + r * pitch, m);
        if (values) values[r] = value;
        if (indices) indices[r] = find(x + r * pitch, m, value);
      }
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  const Buffer<T> buffer(row_indices * pieces);
  T* partials = buffer.get();
  slices(row_indices * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPiece;
    partials[i] = minmax_of(x + i / pieces * pitch + start, min(kPiece, m - start));
  });
  for (int64_t r = 0; r < row_indices; ++r) {
    int64_t best = 0;
    for (int64_t i = 1; i < pieces; ++i) {
      if (precedes(partials[r * pieces + i], partials[r * pieces + best], largest)) best = i;
    }
    const T value = partials[r * pieces + best];
    if (values) values[r] = value;
    const int64_t start = best * kPiece;
    if (indices) indices[r] = start + find(x + r * pitch + start, min(kPiece, m - start), value);
  }
}

// x[o, k, c] without indices: first the minimum or maximum of pieces of full rows, then that of the pieces.
template <class T>
void minmax_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, bool largest) {
  const auto minmax_of_columns = folds<T>().minmax_columns[largest];
  const int64_t width = min(inner, 4096);
  int64_t rows_per_piece = kPiece / width;
  rows_per_piece = rows_per_piece < 8 ? 8 : rows_per_piece > 512 ? 512 : rows_per_piece;
  const int64_t pieces = (m + rows_per_piece - 1) / rows_per_piece, strips = (inner + width - 1) / width;
  const Buffer<T> buffer(pieces > 1 ? outer * pieces * inner : 0);
  T* partials = pieces > 1 ? buffer.get() : out;
  const int64_t piece_work = min(rows_per_piece, m) * width;
  ranges(outer * pieces * strips, (kPiece / 2 + piece_work - 1) / piece_work, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * width, k = i / strips % pieces * rows_per_piece, o = i / strips / pieces;
      T* to = partials + (o * pieces + k / rows_per_piece) * inner + c;
      const T* from = x + (o * m + k) * pitch + c;
      const int64_t n = min(width, inner - c);
      memcpy(to, from, sizeof(T) * static_cast<size_t>(n));
      minmax_of_columns(from + pitch, to, min(rows_per_piece, m - k) - 1, n, pitch);
    }
  });
  if (pieces == 1) return;
  minmax_columns(partials, out, outer, pieces, inner, inner, largest);
}

// x[o, k, c] with indices: a slice is a strip of columns, with all its rows.
template <class T>
void argminmax_columns(const T* x, T* values, int64_t* indices, int64_t outer, int64_t m, int64_t inner, int64_t pitch,
                       bool largest) {
  // If there are few columns, strips are as narrow as two cache lines, so that all threads have work.
  int64_t width = min(kStrip, (inner + 7) / 8);
  const int64_t line = 128 / static_cast<int64_t>(sizeof(T));
  width = width < line ? line : width;
  const int64_t strips = (inner + width - 1) / width;
  const int64_t grain = 1 + kPiece / 2 / (width * (m ? m : 1));
  ranges(outer * strips, grain, [&](int64_t start, int64_t stop) {
    int32_t row_indices[kStrip];
    T scratch[kStrip];
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c = i % strips * width, n = min(width, inner - c), o = i / strips;
      const T* from = x + o * m * pitch + c;
      T* to = values ? values + o * inner + c : scratch;
      for (int64_t k = 0; k < n; ++k) to[k] = from[k];
      for (int64_t k = 0; k < n; ++k) row_indices[k] = 0;
      folds<T>().argminmax_columns[largest](from + pitch, to, row_indices, m - 1, n, pitch, 1);
      for (int64_t k = 0; k < n; ++k) indices[o * inner + c + k] = row_indices[k];
    }
  });
}

// The last of several runs of adjacent reduced dimensions, as a tuple; null if there is at most one run, or with an
// exception.
Ref last_reduced_run(const char* where, PyArrayObject* x, PyObject* dim) {
  const int nd = PyArray_NDIM(x);
  bool is_reduced[NPY_MAXDIMS];
  if (!reduced_dims_argument(where, dim, nd, is_reduced)) return Ref();
  int run_start = nd, runs = 0;
  bool in_run = false;
  for (int i = 0; i < nd; ++i) {
    if (PyArray_DIM(x, i) == 1) continue;
    if (is_reduced[i] && !in_run) ++runs, run_start = i;
    in_run = is_reduced[i];
  }
  if (runs < 2) return Ref();
  Ref dims(PyTuple_New(0));
  for (int i = run_start; dims && i < nd && (is_reduced[i] || PyArray_DIM(x, i) == 1); ++i) {
    Ref item(Py_BuildValue("(i)", i));
    dims = Ref(item ? PySequence_Concat(dims.get(), item.get()) : nullptr);
  }
  return dims;
}

// Values, indices or both: one new array, two, or None.
PyObject* run(const char* where, PyObject* const* args, Py_ssize_t n, bool wants_values, bool wants_indices) {
  if (!takes(where, n, 4)) return nullptr;
  PyArrayObject* x = array_argument(where, "input", args[0]);
  if (!x) return nullptr;
  const int keepdim = PyObject_IsTrue(args[2]), largest = PyObject_IsTrue(args[3]);
  if (keepdim < 0 || largest < 0) return nullptr;
  const int type = PyArray_TYPE(x);
  if (type > NPY_DOUBLE) Py_RETURN_NONE;
  if (!wants_indices && PyArray_SIZE(x)) {
    Ref dims = last_reduced_run(where, x, args[1]);
    if (PyErr_Occurred()) return fall_back();
    if (dims) {  // reduce the last run first, so that nothing is permuted
      PyObject* partial_args[4] = {args[0], dims.get(), Py_True, args[3]};
      Ref partial(run(where, partial_args, 4, true, false));
      if (!partial || partial.get() == Py_None) return partial.release();
      PyObject* remaining_args[4] = {partial.get(), args[1], args[2], args[3]};
      return run(where, remaining_args, 4, true, false);
    }
  }
  ReducedLayout r;
  if (!reduced_argument(where, x, args[1], keepdim, &r, wants_indices ? ExpandedDims::EachElement : ExpandedDims::Once,
                        wants_indices, true))
    return fall_back();
  if (r.m > INT32_MAX) Py_RETURN_NONE;
  if (r.m == 0) Py_RETURN_NONE;  // an empty dimension has no minimum: the caller raises
  Ref values(wants_values ? new_array(r.nd, r.dims, type) : nullptr);
  Ref indices(wants_indices ? new_array(r.nd, r.dims, NPY_INT64) : nullptr);
  if ((wants_values && !values) || (wants_indices && !indices)) return nullptr;
  if (r.outer > 0 && r.inner > 0) {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      T* value_data = values ? data<T>(values) : nullptr;
      int64_t* index_data = indices ? data<int64_t>(indices) : nullptr;
      if (r.inner == 1) {
        minmax_rows(data<T>(r.x), value_data, index_data, r.outer, r.m, r.pitch, largest != 0);
      } else if (!index_data) {
        minmax_columns(data<T>(r.x), value_data, r.outer, r.m, r.inner, r.pitch, largest != 0);
      } else {
        argminmax_columns(data<T>(r.x), value_data, index_data, r.outer, r.m, r.inner, r.pitch, largest != 0);
      }
    });
  }
  if (values) values = Ref(r.restore(std::move(values)));
  if (indices) indices = Ref(r.restore(std::move(indices)));
  if ((wants_values && !values) || (wants_indices && !indices)) return nullptr;
  if (!wants_indices) return values.release();
  if (!wants_values) return indices.release();
  return PyTuple_Pack(2, values.get(), indices.get());
}

}  // namespace

// minmax(x, dim, keepdim, largest)
PyObject* minmax(PyObject*, PyObject* const* args, Py_ssize_t n) { return run("minmax", args, n, true, false); }

// argminmax(x, dim, keepdim, largest): dim None counts in the flattened array
PyObject* argminmax(PyObject*, PyObject* const* args, Py_ssize_t n) { return run("argminmax", args, n, false, true); }

// minmax_dim(x, dim, keepdim, largest) -> (values, indices)
PyObject* minmax_dim(PyObject*, PyObject* const* args, Py_ssize_t n) { return run("minmax_dim", args, n, true, true); }

}  // namespace shmtensor
