// One engine for what is summed wide, multiplied or counted: groups of reduced dimensions one after the
// other, each in pieces that depend on the shape alone, joined in order.
#include "kernels/reduce/prod_count.h"

#include <type_traits>
#include <utility>

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
constexpr int64_t kAtLeast = 16;      // rows

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Scratch of the walk, outside of Python's heap.
template <class A>
class Parts {
 public:
  explicit Parts(int64_t n)
      : p_(static_cast<A*>(PyMem_RawMalloc(sizeof(A) * static_cast<size_t>(n ? n : 1)))) {}
  ~Parts() { PyMem_RawFree(p_); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  A* get() const { return p_; }

 private:
  A* p_;
};

// Products of short rows of floating numbers, eight at a time: no multiplication waits for the one
// before.
template <class T>
void multiply_rows(const T* x, double* out, int64_t rows, int64_t m) {
  [[maybe_unused]] Flush<T> flush;
  constexpr int kAtOnce = 8;
  int64_t r = 0;
  for (; r + kAtOnce <= rows; r += kAtOnce, x += kAtOnce * m) {
    double acc[kAtOnce];
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; ++j) acc[j] = 1;
    for (int64_t k = 0; k < m; ++k) {
#pragma GCC unroll 8
      for (int j = 0; j < kAtOnce; ++j) acc[j] *= static_cast<double>(x[j * m + k]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; ++j) out[r + j] = acc[j];
  }
  for (; r < rows; ++r, x += m) {
    double a = 1;
    for (int64_t k = 0; k < m; ++k) a *= static_cast<double>(x[k]);
    out[r] = a;
  }
}

// The same of float32, two columns at a time, the last ones up to the row's end.
void multiply_rows(const float* x, double* out, int64_t rows, int64_t m) {
  typedef float Pair __attribute__((vector_size(8), aligned(4), may_alias));
  typedef double Wide __attribute__((vector_size(16)));
  typedef int64_t Mask __attribute__((vector_size(16)));
  constexpr int kAtOnce = 8;
  if (m < 2) return multiply_rows<float>(x, out, rows, m);
  [[maybe_unused]] Flush<float> flush;
  const auto at = [&](const float* p) {
    return __builtin_convertvector(*reinterpret_cast<const Pair*>(p), Wide);
  };
  const Mask again = {m % 2 ? -1 : 0, 0};
  int64_t r = 0;
  for (; r + kAtOnce <= rows; r += kAtOnce, x += kAtOnce * m) {
    Wide acc[kAtOnce];
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; ++j) acc[j] = again ? Wide{1, 1} : at(x + (j + 1) * m - 2);
    for (int64_t k = 0; k + 2 < m; k += 2) {
#pragma GCC unroll 8
      for (int j = 0; j < kAtOnce; ++j) acc[j] *= at(x + j * m + k);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; ++j) out[r + j] = acc[j][0] * acc[j][1];
  }
  multiply_rows<float>(x, out + r, rows - r, m);
}

// out[o] of x[o, :] for rows that fill no vector: so many at a time are turned within the first-level
// cache, and are columns.
template <class T, class A>
void by_short_rows(const T* x, A* out, int64_t outer, int64_t m, int what) {
  if constexpr (std::is_floating_point_v<T>) {
    if (what == static_cast<int>(Tally::Product)) {
      return ranges(outer, kPiece / m, [&](int64_t o, int64_t stop) {
        multiply_rows(x + o * m, out + o, stop - o, m);
      });
    }
  }
  constexpr int64_t kAtOnce = 128;
  const auto columns = tallies<T>().columns[what];
  const A start = what == static_cast<int>(Tally::Product) ? 1 : 0;
  ranges(outer, kPiece / m, [&](int64_t o, int64_t stop) {
    T tile[kShortRow * kAtOnce];
    for (; o < stop; o += kAtOnce) {
      const int64_t rows = least(kAtOnce, stop - o);
      for (int64_t k = 0; k < m; ++k) {
        for (int64_t r = 0; r < rows; ++r) tile[k * kAtOnce + r] = x[(o + r) * m + k];
      }
      for (int64_t r = 0; r < rows; ++r) out[o + r] = start;
      columns(tile, out + o, m, rows, kAtOnce);
    }
  });
}

// out[o] of x[o, :], rows `pitch` apart
template <class T, class A>
void by_rows(const T* x, A* out, int64_t outer, int64_t m, int64_t pitch, int what) {
  const bool multiplied = std::is_same_v<T, float> && what == static_cast<int>(Tally::Product);
  if (m > 0 && pitch == m && m <= (multiplied ? kShortFloats : kShortRow) && outer >= kAtLeast)
    return by_short_rows(x, out, outer, m, what);
  const auto rows = tallies<T>().rows[what];
  if (m <= kPiece) {
    ranges(outer, m ? (kPiece + m - 1) / m : outer, [&](int64_t o, int64_t stop) {
      for (; o < stop; ++o) out[o] = rows(x + o * pitch, m);
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  Parts<A> parts(outer * pieces);
  slices(outer * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPiece;
    parts.get()[i] = rows(x + i / pieces * pitch + start, least(kPiece, m - start));
  });
  // Counts are joined by adding.
  const auto join = tallies<A>().rows[what == static_cast<int>(Tally::Count) ? 0 : what];
  for (int64_t o = 0; o < outer; ++o) out[o] = join(parts.get() + o * pieces, pieces);
}

// out[o, c] of x[o, :, c], of which the last dimension's rows are `pitch` apart
template <class T, class A>
void by_columns(const T* x, A* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, int what) {
  const auto columns = tallies<T>().columns[what];
  const A start = what == static_cast<int>(Tally::Product) ? 1 : 0;
  const int64_t width = least(inner, 2048);
  int64_t chain = kPiece / width;
  chain = chain < 8 ? 8 : chain > 512 ? 512 : chain;
  const int64_t pieces = m ? (m + chain - 1) / chain : 1, strips = (inner + width - 1) / width;
  const auto go = [&](A* parts) {
    const int64_t each = (least(chain, m) + 1) * width;
    ranges(outer * pieces * strips, (kPiece / 2 + each - 1) / each, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const int64_t c = i % strips * width, k = i / strips % pieces * chain,
                      o = i / strips / pieces;
        A* to = parts + (o * pieces + k / chain) * inner + c;
        const int64_t n = least(width, inner - c);
        for (int64_t l = 0; l < n; ++l) to[l] = start;
        columns(x + (o * m + k) * pitch + c, to, least(chain, m - k), n, pitch);
      }
    });
  };
  if (pieces == 1) return go(out);
  Parts<A> parts(outer * pieces * inner);
  go(parts.get());
  by_columns<A, A>(parts.get(), out, outer, pieces, inner, inner,
                   what == static_cast<int>(Tally::Count) ? 0 : what);
}

// x[outer, m, inner] -> out[outer, inner]
template <class T, class A>
void group(const T* x, A* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, int what) {
  if (outer * inner == 0) return;
  Unlocked unlocked(outer * m * inner > kUnlock);
  if (inner == 1) {
    by_rows(x, out, outer, m, pitch, what);
  } else {
    by_columns(x, out, outer, m, inner, pitch, what);
  }
}

// Runs of dimensions of one kind, those of one element left out.
struct Groups {
  npy_intp sizes[NPY_MAXDIMS + 1];
  bool goes[NPY_MAXDIMS + 1];
  int n = 0, todo = 0;

  Groups(PyArrayObject* x, const bool* reduced) {
    for (int i = 0; i < PyArray_NDIM(x); ++i) {
      const npy_intp size = PyArray_DIM(x, i);
      if (size == 1) continue;
      if (n && goes[n - 1] == reduced[i]) {
        sizes[n - 1] *= size;
      } else {
        sizes[n] = size;
        goes[n++] = reduced[i];
      }
    }
    for (int i = 0; i < n; ++i) todo += goes[i];
    if (todo) return;
    sizes[n] = 1;  // nothing is put together: a copy
    goes[n++] = true;
    todo = 1;
  }

  // Takes the last reduced one out.
  void pop(int64_t* outer, int64_t* m, int64_t* inner) {
    int at = n - 1;
    while (!goes[at]) --at;
    *outer = *inner = 1;
    *m = sizes[at];
    for (int i = 0; i < at; ++i) *outer *= sizes[i];
    for (int i = at + 1; i < n; ++i) *inner *= sizes[i];
    for (int i = at; i + 1 < n; ++i) {
      sizes[i] = sizes[i + 1];
      goes[i] = goes[i + 1];
    }
    --n;
    --todo;
  }
};

template <class T>
PyObject* run(Ref x, const bool* goes, const Left& left, const Apart& apart, Tally what, int type) {
  using A = WideOf<T>;
  constexpr bool floats = std::is_floating_point<T>::value;
  // A count of floating numbers is made as double: exact up to 2^53 of them.
  const int wide = floats ? NPY_DOUBLE : NPY_INT64;
  int step = static_cast<int>(what);
  Groups groups(x.array(), goes);
  for (bool first = true; groups.todo; first = false) {
    int64_t outer, m, inner;
    groups.pop(&outer, &m, &inner);
    const bool suits = first && apart.suits(m, inner);
    if (!suits) x = in_order(x.array());
    if (!x) return nullptr;
    const int64_t pitch = suits ? apart.pitch : inner == 1 ? m : inner;
    const npy_intp flat = outer * inner;
    Ref out(groups.todo ? fresh(1, &flat, wide) : fresh(left.nd, left.dims, wide));
    if (!out) return nullptr;
    if (first) {
      group<T, A>(data<T>(x), data<A>(out), outer, m, inner, pitch, step);
    } else {
      group<A, A>(data<A>(x), data<A>(out), outer, m, inner, pitch, step);
    }
    if (what == Tally::Count) step = static_cast<int>(Tally::Sum);
    x = std::move(out);
  }
  left.multiply(data<A>(x), PyArray_SIZE(x.array()));
  const int result = what == Tally::Count || !floats ? NPY_INT64 : type;
  if (result == NPY_HALF) {  // NumPy's cast would warn of what overflows
    Ref out(fresh(left.nd, left.dims, NPY_HALF));
    if (!out) return nullptr;
    const int64_t n = PyArray_SIZE(out.array());
    for (int64_t i = 0; i < n; ++i)
      data<Float16>(out)[i] = static_cast<Float16>(static_cast<float>(data<A>(x)[i]));
    return left.put_back(std::move(out));
  }
  return left.put_back(Ref(finish(std::move(x), {wide, result})));
}

// Arguments (x, dim, keepdim, dtype=None); with a dtype None.
PyObject* called(const char* where, PyObject* const* args, Py_ssize_t n, Tally what) {
  if (count_arguments(where, n, 3, 4) < 0) return nullptr;
  if (n > 3 && args[3] != Py_None) Py_RETURN_NONE;
  PyArrayObject* x = array_argument(where, "input", args[0]);
  const int keep = x ? PyObject_IsTrue(args[2]) : -1;
  if (keep < 0) return nullptr;
  bool goes[NPY_MAXDIMS];
  if (what == Tally::Product && PyTypeNum_ISCOMPLEX(PyArray_TYPE(x)))
    return complex_product(x, args[1], keep != 0);
  if (!reduced_dims(where, args[1], PyArray_NDIM(x), goes)) return left_to_caller();
  return tally_dims(x, goes, keep != 0, what);
}

}  // namespace

PyObject* tally_dims(PyArrayObject* x, bool* goes, bool keep, Tally what) {
  const int type = PyArray_TYPE(x);
  const int computed = type == NPY_HALF ? NPY_FLOAT : type;
  if (computed > NPY_DOUBLE) Py_RETURN_NONE;
  if (type == NPY_BOOL && what == Tally::Sum) what = Tally::Count;  // lanes as narrow as a bool
  Left left;
  Apart apart;
  Ref in = by_memory(x, goes, keep, true, &left,
                     what == Tally::Product ? Stretched::Walked : Stretched::Once,
                     type == NPY_HALF ? nullptr : &apart);
  if (in && type == NPY_HALF) in = contiguous_as(in.array(), computed);
  if (!in) return nullptr;
  PyObject* out = nullptr;
  with_type(computed, [&](auto zero) {
    out = run<decltype(zero)>(std::move(in), goes, left, apart, what, type);
  });
  return out;
}

// prod(x, dim, keepdim, dtype=None)
PyObject* prod(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return called("prod", args, n, Tally::Product);
}

// count(x, dim, keepdim): of those that are not 0
PyObject* count(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return called("count_nonzero", args, n, Tally::Count);
}

}  // namespace shmtensor
