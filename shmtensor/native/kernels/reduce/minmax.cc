// Pieces are compared in their order, and of equal elements the first one stays: the same result,
// and the same place, on any number of threads. A NaN beats all numbers, the first NaN the others.
#include "kernels/reduce/minmax.h"

#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 1024;  // columns at a time: values and places stay in the first cache

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
bool beats(T a, T b, bool largest) {
  return b == b && (a != a || (largest ? a > b : a < b));
}

// Rows of m, cut into pieces: values[r], and the place in its row if places are wanted.
template <class T>
void by_rows(const T* x, T* values, int64_t* places, int64_t rows, int64_t m, int64_t pitch,
             bool largest) {
  const auto extreme = folds<T>().extreme[largest];
  const auto find = folds<T>().find;
  if (rows * m <= kPiece || m <= kPiece) {
    const int64_t grain = m ? (kPiece + m - 1) / m : rows;
    ranges(rows, grain, [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T value = extreme(x + r * pitch, m);
        if (values) values[r] = value;
        if (places) places[r] = find(x + r * pitch, m, value);
      }
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  auto* parts = static_cast<T*>(PyMem_RawMalloc(sizeof(T) * static_cast<size_t>(rows * pieces)));
  slices(rows * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPiece;
    parts[i] = extreme(x + i / pieces * pitch + start, least(kPiece, m - start));
  });
  for (int64_t r = 0; r < rows; ++r) {
    int64_t best = 0;
    for (int64_t i = 1; i < pieces; ++i) {
      if (beats(parts[r * pieces + i], parts[r * pieces + best], largest)) best = i;
    }
    const T value = parts[r * pieces + best];
    if (values) values[r] = value;
    const int64_t start = best * kPiece;
    if (places) places[r] = start + find(x + r * pitch + start, least(kPiece, m - start), value);
  }
  PyMem_RawFree(parts);
}

// x[o, k, c] without places: pieces of whole rows first, then the pieces' results.
template <class T>
void values_by_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch,
                       bool largest) {
  const auto fold = folds<T>().extreme_columns[largest];
  const int64_t width = least(inner, 4096);
  int64_t chain = kPiece / width;
  chain = chain < 8 ? 8 : chain > 512 ? 512 : chain;
  const int64_t pieces = (m + chain - 1) / chain, strips = (inner + width - 1) / width;
  T* parts = out;
  if (pieces > 1)
    parts =
        static_cast<T*>(PyMem_RawMalloc(sizeof(T) * static_cast<size_t>(outer * pieces * inner)));
  const int64_t each = least(chain, m) * width;
  ranges(outer * pieces * strips, (kPiece / 2 + each - 1) / each, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * width, k = i / strips % pieces * chain,
                    o = i / strips / pieces;
      T* to = parts + (o * pieces + k / chain) * inner + c;
      const T* from = x + (o * m + k) * pitch + c;
      const int64_t n = least(width, inner - c);
      memcpy(to, from, sizeof(T) * static_cast<size_t>(n));
      fold(from + pitch, to, least(chain, m - k) - 1, n, pitch);
    }
  });
  if (pieces == 1) return;
  values_by_columns(parts, out, outer, pieces, inner, inner, largest);
  PyMem_RawFree(parts);
}

// x[o, k, c] with places: a strip of columns per slice, all rows of it.
template <class T>
void by_columns(const T* x, T* values, int64_t* places, int64_t outer, int64_t m, int64_t inner,
                int64_t pitch, bool largest) {
  // Strips as narrow as two cache lines where there are few columns, so that all threads have some.
  int64_t width = least(kStrip, (inner + 7) / 8);
  const int64_t line = 128 / static_cast<int64_t>(sizeof(T));
  width = width < line ? line : width;
  const int64_t strips = (inner + width - 1) / width;
  const int64_t grain = 1 + kPiece / 2 / (width * (m ? m : 1));
  ranges(outer * strips, grain, [&](int64_t begin, int64_t end) {
    int32_t rows[kStrip];
    T scratch[kStrip];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % strips * width, n = least(width, inner - c), o = i / strips;
      const T* from = x + o * m * pitch + c;
      T* to = values ? values + o * inner + c : scratch;
      for (int64_t k = 0; k < n; ++k) to[k] = from[k];
      for (int64_t k = 0; k < n; ++k) rows[k] = 0;
      folds<T>().place_columns[largest](from + pitch, to, rows, m - 1, n, pitch, 1);
      for (int64_t k = 0; k < n; ++k) places[o * inner + c + k] = rows[k];
    }
  });
}

// The last run of neighbours among several runs of reduced dimensions, as a tuple; no object: there is
// one run at most, or an exception.
Ref last_run(const char* where, PyArrayObject* x, PyObject* dim) {
  const int nd = PyArray_NDIM(x);
  bool goes[NPY_MAXDIMS];
  if (!reduced_dims(where, dim, nd, goes)) return Ref();
  int first = nd, runs = 0;
  bool inside = false;
  for (int i = 0; i < nd; ++i) {
    if (PyArray_DIM(x, i) == 1) continue;
    if (goes[i] && !inside) ++runs, first = i;
    inside = goes[i];
  }
  if (runs < 2) return Ref();
  Ref dims(PyTuple_New(0));
  for (int i = first; dims && i < nd && (goes[i] || PyArray_DIM(x, i) == 1); ++i) {
    Ref one(Py_BuildValue("(i)", i));
    dims = Ref(one ? PySequence_Concat(dims.get(), one.get()) : nullptr);
  }
  return dims;
}

// Values, places or both, as a new array, two, or None.
PyObject* run(const char* where, PyObject* const* args, Py_ssize_t n, bool wants_values,
              bool wants_places) {
  if (count_arguments(where, n, 4, 4) < 0) return nullptr;
  PyArrayObject* x = array_argument(where, "input", args[0]);
  if (!x) return nullptr;
  const int keep = PyObject_IsTrue(args[2]), largest = PyObject_IsTrue(args[3]);
  if (keep < 0 || largest < 0) return nullptr;
  const int type = PyArray_TYPE(x);
  if (type > NPY_DOUBLE) Py_RETURN_NONE;
  if (!wants_places && PyArray_SIZE(x)) {
    Ref dims = last_run(where, x, args[1]);
    if (PyErr_Occurred()) return left_to_caller();
    if (dims) {  // an extreme of extremes, so that nothing is put in another order
      PyObject* some[4] = {args[0], dims.get(), Py_True, args[3]};
      Ref part(run(where, some, 4, true, false));
      if (!part || part.get() == Py_None) return part.release();
      PyObject* rest[4] = {part.get(), args[1], args[2], args[3]};
      return run(where, rest, 4, true, false);
    }
  }
  Reduced r;
  if (!reduced_argument(where, x, args[1], keep, &r, wants_places ? Stretched::Walked : Stretched::Once,
                        wants_places, true)) return left_to_caller();
  if (r.m > INT32_MAX) Py_RETURN_NONE;
  if (r.m == 0) Py_RETURN_NONE;  // there is nothing to choose from: the caller says so
  Ref values(wants_values ? fresh(r.nd, r.dims, type) : nullptr);
  Ref places(wants_places ? fresh(r.nd, r.dims, NPY_INT64) : nullptr);
  if ((wants_values && !values) || (wants_places && !places)) return nullptr;
  if (r.outer > 0 && r.inner > 0) {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      T* v = values ? data<T>(values) : nullptr;
      int64_t* p = places ? data<int64_t>(places) : nullptr;
      if (r.inner == 1) {
        by_rows(data<T>(r.x), v, p, r.outer, r.m, r.pitch, largest != 0);
      } else if (!p) {
        values_by_columns(data<T>(r.x), v, r.outer, r.m, r.inner, r.pitch, largest != 0);
      } else {
        by_columns(data<T>(r.x), v, p, r.outer, r.m, r.inner, r.pitch, largest != 0);
      }
    });
  }
  if (values) values = Ref(r.put_back(std::move(values)));
  if (places) places = Ref(r.put_back(std::move(places)));
  if ((wants_values && !values) || (wants_places && !places)) return nullptr;
  if (!wants_places) return values.release();
  if (!wants_values) return places.release();
  return PyTuple_Pack(2, values.get(), places.get());
}

}  // namespace

// minmax(x, dim, keepdim, largest)
PyObject* minmax(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run("minmax", args, n, true, false);
}

// argminmax(x, dim, keepdim, largest): dim None counts in the flattened array
PyObject* argminmax(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run("argminmax", args, n, false, true);
}

// minmax_dim(x, dim, keepdim, largest) -> (values, places)
PyObject* minmax_dim(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run("minmax_dim", args, n, true, true);
}

}  // namespace shmtensor
