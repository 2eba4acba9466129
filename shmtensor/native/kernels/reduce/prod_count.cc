// Sums of integers, products and counts: groups of adjacent reduced dimensions are reduced one after the other, each in
// pieces that depend on the shape alone and are combined in order.
#include "kernels/reduce/prod_count.h"

#include <type_traits>
#include <utility>

#include "kernels/buffer.h"
#include "kernels/reduce/complex_prod.h"
#include "half/float16.h"
#include "simd/flush_denormals.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kUnlock = 8192;
constexpr int64_t kShortRow = 24;     // elements: see Note [Short rows]
constexpr int64_t kShortFloats = 48;  // factors of float32
constexpr int64_t kMinRows = 16;      // rows

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// Products of short rows of floating-point numbers, eight rows at a time: no multiplication waits for another.
template <class T>
void prod_short_rows(const T* x, double* out, int64_t rows, int64_t m) {
  [[maybe_unused]] Flush<T> flush;
  constexpr int kBatch = 8;
  int64_t r = 0;
  for (; r + kBatch <= rows; r += kBatch, x += kBatch * m) {
    double acc[kBatch];
#pragma GCC unroll 8
    for (int j = 0; j < kBatch; ++j) acc[j] = 1;
    for (int64_t k = 0; k < m; ++k) {
#pragma GCC unroll 8
      for (int j = 0; j < kBatch; ++j) acc[j] *= static_cast<double>(x[j * m + k]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kBatch; ++j) out[r + j] = acc[j];
  }
  for (; r < rows; ++r, x += m) {
    double a = 1;
    for (int64_t k = 0; k < m; ++k) a *= static_cast<double>(x[k]);
    out[r] = a;
  }
}

// The same for float32, two columns at a time; the last two columns are loaded up to the row's end.
void prod_short_rows(const float* x, double* out, int64_t rows, int64_t m) {
  typedef float Pair __attribute__((vector_size(8), aligned(4), may_alias));
  typedef double Wide __attribute__((vector_size(16)));
  typedef int64_t Mask __attribute__((vector_size(16)));
  constexpr int kBatch = 8;
  if (m < 2) return prod_short_rows<float>(x, out, rows, m);
  [[maybe_unused]] Flush<float> flush;
  const auto load_pair = [&](const float* p) { return __builtin_convertvector(*reinterpret_cast<const Pair*>(p), Wide); };
  const Mask skip_first = {m % 2 ? -1 : 0, 0};
  int64_t r = 0;
  for (; r + kBatch <= rows; r += kBatch, x += kBatch * m) {
    Wide acc[kBatch];
#pragma GCC unroll 8
    for (int j = 0; j < kBatch; ++j) acc[j] = skip_first ? Wide{1, 1} : load_pair(x + (j + 1) * m - 2);
    for (int64_t k = 0; k + 2 < m; k += 2) {
#pragma GCC unroll 8
      for (int j = 0; j < kBatch; ++j) acc[j] *= load_pair(x + j * m + k);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kBatch; ++j) out[r + j] = acc[j][0] * acc[j][1];
  }
  prod_short_rows<float>(x, out + r, rows - r, m);
}

// out[o] of x[o, :] for rows shorter than a vector: batches are transposed within the first-level cache and reduced as
// columns.
template <class T, class A>
void reduce_short_rows(const T* x, A* out, int64_t outer, int64_t m, int op) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == static_cast<int>(ReduceOp::Prod)) {
      return ranges(outer, kPiece / m, [&](int64_t o, int64_t stop) { prod_short_rows(x + o * m, out + o, stop - o, m); });
    }
  }
  constexpr int64_t kBatch = 128;
  const auto columns = reduce_kernels<T>().columns[op];
  const A start = op == static_cast<int>(ReduceOp::Prod) ? 1 : 0;
  ranges(outer, kPiece / m, [&](int64_t o, int64_t stop) {
    T tile[kShortRow * kBatch];
    for (; o < stop; o += kBatch) {
      const int64_t rows = min(kBatch, stop - o);
      for (int64_t k = 0; k < m; ++k) {
        for (int64_t r = 0; r < rows; ++r) tile[k * kBatch + r] = x[(o + r) * m + k];
      }
      for (int64_t r = 0; r < rows; ++r) out[o + r] = start;
      columns(tile, out + o, m, rows, kBatch);
    }
  });
}

// out[o] of x[o, :], rows `pitch` apart
template <class T, class A>
void reduce_rows(const T* x, A* out, int64_t outer, int64_t m, int64_t pitch, int op) {
  const bool is_float_prod = std::is_same_v<T, float> && op == static_cast<int>(ReduceOp::Prod);
  if (m > 0 && pitch == m && m <= (is_float_prod ? kShortFloats : kShortRow) && outer >= kMinRows)
    return reduce_short_rows(x, out, outer, m, op);
  const auto rows = reduce_kernels<T>().rows[op];
  if (m <= kPiece) {
    ranges(outer, m ? (kPiece + m - 1) / m : outer, [&](int64_t o, int64_t stop) {
      for (; o < stop; ++o) out[o] = rows(x + o * pitch, m);
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  const Buffer<A> partials(outer * pieces);
  slices(outer * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPiece;
    partials.get()[i] = rows(x + i / pieces * pitch + start, min(kPiece, m - start));
  });
  // Counts are combined by addition.
  const auto reduce_partials = reduce_kernels<A>().rows[op == static_cast<int>(ReduceOp::Count) ? 0 : op];
  for (int64_t o = 0; o < outer; ++o) out[o] = reduce_partials(partials.get() + o * pieces, pieces);
}

// out[o, c] of x[o, :, c], rows of the last dimension `pitch` apart
template <class T, class A>
void reduce_columns(const T* x, A* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, int op) {
  const auto columns = reduce_kernels<T>().columns[op];
  const A start = op == static_cast<int>(ReduceOp::Prod) ? 1 : 0;
  const int64_t width = min(inner, 2048);
  int64_t chain = kPiece / width;
  chain = chain < 8 ? 8 : chain > 512 ? 512 : chain;
  const int64_t pieces = m ? (m + chain - 1) / chain : 1, strips = (inner + width - 1) / width;
  const auto reduce_into_partials = [&](A* partials) {
    const int64_t piece_work = (min(chain, m) + 1) * width;
    ranges(outer * pieces * strips, (kPiece / 2 + piece_work - 1) / piece_work, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const int64_t c = i % strips * width, k = i / strips % pieces * chain, o = i / strips / pieces;
        A* to = partials + (o * pieces + k / chain) * inner + c;
        const int64_t n = min(width, inner - c);
        for (int64_t l = 0; l < n; ++l) to[l] = start;
        columns(x + (o * m + k) * pitch + c, to, min(chain, m - k), n, pitch);
      }
    });
  };
  if (pieces == 1) return reduce_into_partials(out);
  const Buffer<A> partials(outer * pieces * inner);
  reduce_into_partials(partials.get());
  reduce_columns<A, A>(partials.get(), out, outer, pieces, inner, inner, op == static_cast<int>(ReduceOp::Count) ? 0 : op);
}

// x[outer, m, inner] -> out[outer, inner]
template <class T, class A>
void reduce_group(const T* x, A* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, int op) {
  if (outer * inner == 0) return;
  Unlocked unlocked(outer * m * inner > kUnlock);
  if (inner == 1) {
    reduce_rows(x, out, outer, m, pitch, op);
  } else {
    reduce_columns(x, out, outer, m, inner, pitch, op);
  }
}

// Runs of adjacent dimensions that are all reduced or all kept; dimensions of size 1 are dropped.
struct DimGroups {
  npy_intp sizes[NPY_MAXDIMS + 1];
  bool is_reduced[NPY_MAXDIMS + 1];
  int n = 0, groups_left = 0;

  DimGroups(PyArrayObject* x, const bool* reduced_dims) {
    for (int i = 0; i < PyArray_NDIM(x); ++i) {
      const npy_intp size = PyArray_DIM(x, i);
      if (size == 1) continue;
      if (n && is_reduced[n - 1] == reduced_dims[i]) {
        sizes[n - 1] *= size;
      } else {
        sizes[n] = size;
        is_reduced[n++] = reduced_dims[i];
      }
    }
    for (int i = 0; i < n; ++i) groups_left += is_reduced[i];
    if (groups_left) return;
    sizes[n] = 1;  // nothing is reduced: a copy
    is_reduced[n++] = true;
    groups_left = 1;
  }

  // Removes the last reduced group.
  void pop(int64_t* outer, int64_t* m, int64_t* inner) {
    int load_pair = n - 1;
    while (!is_reduced[load_pair]) --load_pair;
    *outer = *inner = 1;
    *m = sizes[load_pair];
    for (int i = 0; i < load_pair; ++i) *outer *= sizes[i];
    for (int i = load_pair + 1; i < n; ++i) *inner *= sizes[i];
    for (int i = load_pair; i + 1 < n; ++i) {
      sizes[i] = sizes[i + 1];
      is_reduced[i] = is_reduced[i + 1];
    }
    --n;
    --groups_left;
  }
};

template <class T>
PyObject* run(Ref x, const bool* is_reduced, const ReducedShape& reduced_shape, const StridedRows& strided_rows, ReduceOp op,
              int type) {
  using A = WideOf<T>;
  constexpr bool is_floating = std::is_floating_point<T>::value;
  // Floating-point elements are counted in double: exact up to 2^53.
  const int wide = is_floating ? NPY_DOUBLE : NPY_INT64;
  int kernel_index = static_cast<int>(op);
  DimGroups groups(x.array(), is_reduced);
  for (bool first = true; groups.groups_left; first = false) {
    int64_t outer, m, inner;
    groups.pop(&outer, &m, &inner);
    const bool matches = first && strided_rows.matches(m, inner);
    if (!matches) x = contiguous(x.array());
    if (!x) return nullptr;
    const int64_t pitch = matches ? strided_rows.pitch : inner == 1 ? m : inner;
    const npy_intp flat_size = outer * inner;
    Ref out(groups.groups_left ? new_array(1, &flat_size, wide) : new_array(reduced_shape.nd, reduced_shape.dims, wide));
    if (!out) return nullptr;
    if (first) {
      reduce_group<T, A>(data<T>(x), data<A>(out), outer, m, inner, pitch, kernel_index);
    } else {
      reduce_group<A, A>(data<A>(x), data<A>(out), outer, m, inner, pitch, kernel_index);
    }
    if (op == ReduceOp::Count) kernel_index = static_cast<int>(ReduceOp::Sum);
    x = std::move(out);
  }
  reduced_shape.multiply(data<A>(x), PyArray_SIZE(x.array()));
  const int result = op == ReduceOp::Count || !is_floating ? NPY_INT64 : type;
  if (result == NPY_HALF) {  // NumPy's cast would warn about overflow
    Ref out(new_array(reduced_shape.nd, reduced_shape.dims, NPY_HALF));
    if (!out) return nullptr;
    const int64_t n = PyArray_SIZE(out.array());
    for (int64_t i = 0; i < n; ++i) data<Float16>(out)[i] = static_cast<Float16>(static_cast<float>(data<A>(x)[i]));
    return reduced_shape.restore(std::move(out));
  }
  return reduced_shape.restore(Ref(finish(std::move(x), {wide, result})));
}

// Arguments (x, dim, keepdim, dtype=None); with a dtype None.
PyObject* parse_and_reduce(const char* where, PyObject* const* args, Py_ssize_t n, ReduceOp op) {
  if (!takes(where, n, 3, 4)) return nullptr;
  if (n > 3 && args[3] != Py_None) Py_RETURN_NONE;
  PyArrayObject* x = array_argument(where, "input", args[0]);
  const int keepdim = x ? PyObject_IsTrue(args[2]) : -1;
  if (keepdim < 0) return nullptr;
  bool is_reduced[NPY_MAXDIMS];
  if (op == ReduceOp::Prod && PyTypeNum_ISCOMPLEX(PyArray_TYPE(x))) return complex_prod_over(x, args[1], keepdim != 0);
  if (!reduced_dims_argument(where, args[1], PyArray_NDIM(x), is_reduced)) return fall_back();
  return reduce_over(x, is_reduced, keepdim != 0, op);
}

}  // namespace

PyObject* reduce_over(PyArrayObject* x, bool* is_reduced, bool keepdim, ReduceOp op) {
  const int type = PyArray_TYPE(x);
  const int compute_type = type == NPY_HALF ? NPY_FLOAT : type;
  if (compute_type > NPY_DOUBLE) Py_RETURN_NONE;
  if (type == NPY_BOOL && op == ReduceOp::Sum) op = ReduceOp::Count;  // counts in lanes as narrow as a bool
  ReducedShape reduced_shape;
  StridedRows strided_rows;
  Ref in = permute_by_strides(x, is_reduced, keepdim, true, &reduced_shape,
                              op == ReduceOp::Prod ? ExpandedDims::EachElement : ExpandedDims::Once,
                              type == NPY_HALF ? nullptr : &strided_rows);
  if (in && type == NPY_HALF) in = contiguous_as(in.array(), compute_type);
  if (!in) return nullptr;
  PyObject* out = nullptr;
  with_type(compute_type,
            [&](auto zero) { out = run<decltype(zero)>(std::move(in), is_reduced, reduced_shape, strided_rows, op, type); });
  return out;
}

// prod(x, dim, keepdim, dtype=None)
PyObject* prod(PyObject*, PyObject* const* args, Py_ssize_t n) { return parse_and_reduce("prod", args, n, ReduceOp::Prod); }

// count(x, dim, keepdim): the number of nonzero elements
PyObject* count(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return parse_and_reduce("count_nonzero", args, n, ReduceOp::Count);
}

}  // namespace shmtensor
