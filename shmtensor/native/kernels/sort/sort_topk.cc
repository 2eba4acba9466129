// Elements become pairs of an unsigned key in the same order and their index; sorting is stable. Each row is sorted by
// one thread, a long row by all (radix_sort.h).
//
// Many strided rows are transposed first, so that a thread reads and writes full cache lines.
#include <algorithm>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "kernels/prepared_arguments.h"
#include "kernels/sort/topk_select.h"
#include "kernels/sort/sort_keys.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/sort/radix_sort.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 1024;
constexpr int64_t kGrain = 4096;
constexpr int64_t kTransposeFrom = 16384;  // elements from which on strided rows are transposed

// Sorts n pairs whose indices ascend among equal keys. Returns the buffer of the result: a or b.
template <class K>
Pair<K>* sort_pairs(Pair<K>* a, Pair<K>* b, int64_t n) {
  if (n <= 48) {
    for (int64_t i = 1; i < n; ++i) {
      const Pair<K> p = a[i];
      int64_t j = i;
      for (; j > 0 && p.key < a[j - 1].key; --j) a[j] = a[j - 1];
      a[j] = p;
    }
    return a;
  }
  if (n <= 512) {
    std::sort(a, a + n);
    return a;
  }
  constexpr int kBytes = sizeof(K);
  uint32_t counts[kBytes][256] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int byte = 0; byte < kBytes; ++byte) ++counts[byte][a[i].key >> (8 * byte) & 255];
  }
  for (int byte = 0; byte < kBytes; ++byte) {
    uint32_t* count = counts[byte];
    if (count[a[0].key >> (8 * byte) & 255] == n) continue;  // all keys have the same byte
    uint32_t sum = 0;
    for (int v = 0; v < 256; ++v) {
      const uint32_t c = count[v];
      count[v] = sum;
      sum += c;
    }
    for (int64_t i = 0; i < n; ++i) b[count[a[i].key >> (8 * byte) & 255]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

template <class K>
struct PairBuffers {
  Buffer<Pair<K>> memory;
  Pair<K>*a, *b;
  explicit PairBuffers(int64_t n) : memory(2 * (n + 1)), a(memory.get()), b(a + n) {}
};

// The parsed arguments of a call: x as (outer, m, inner), `count` results a row.
struct SortArguments {
  Ref x, values, indices;
  int64_t outer = 1, m = 1, inner = 1, count = 0;
  int dim = 0;
  bool transposed = false;

  int64_t rows() const { return outer * inner; }
  bool is_long() const { return m >= kLongRow && inner == 1; }
  template <class T>
  const T* row(int64_t r) const {
    return data<T>(x) + r * m;
  }
};

// body(buffers, row of x, its results) for each row, on the thread pool. Elements of a row are `inner` apart.
template <class T, class F>
void for_rows(const SortArguments& w, F&& body) {
  using K = decltype(key_of(T()));
  const int64_t rows = w.outer * w.inner, m = w.m ? w.m : 1;
  ranges(rows, m >= kGrain ? 1 : kGrain / m, [&](int64_t r, int64_t stop) {
    PairBuffers<K> scratch(w.m);
    for (; r < stop; ++r) {
      const int64_t o = r / w.inner, c = r % w.inner;
      body(scratch, data<T>(w.x) + o * w.m * w.inner + c, data<T>(w.values) + o * w.count * w.inner + c,
           data<int64_t>(w.indices) + o * w.count * w.inner + c);
    }
  });
}

template <class T, class K>
void fill_pairs(Pair<K>* to, const T* x, int64_t m, int64_t step, bool descending) {
  const K flip_mask = descending ? static_cast<K>(~K(0)) : K(0);
  for (int64_t i = 0; i < m; ++i) {
    to[i] = {static_cast<K>(key_of(x[i * step]) ^ flip_mask), static_cast<uint32_t>(i)};
  }
}

template <class T, class K>
void write_results(const Pair<K>* from, const T* x, int64_t n, int64_t step, T* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    values[i * step] = x[static_cast<int64_t>(from[i].index) * step];
    indices[i * step] = from[i].index;
  }
}

template <class T>
void sort_rows(const SortArguments& w, bool descending) {
  for_rows<T>(w, [&](auto& s, const T* x, T* values, int64_t* indices) {
    fill_pairs(s.a, x, w.m, w.inner, descending);
    write_results(sort_pairs(s.a, s.b, w.m), x, w.m, w.inner, values, indices);
  });
}

template <class T>
void topk_rows(const SortArguments& w, bool largest) {
  const int64_t k = w.count;
  for_rows<T>(w, [&](auto& s, const T* x, T* values, int64_t* indices) {
    if (k == 0) return;
    if (4 * k >= w.m) {
      fill_pairs(s.a, x, w.m, w.inner, largest);
      if (k < w.m) std::nth_element(s.a, s.a + k - 1, s.a + w.m);
    } else {
      select_first(x, w.m, w.inner, k, largest, 0, s.a);
    }
    std::sort(s.a, s.a + k);
    write_results(s.a, x, k, w.inner, values, indices);
  });
}

constexpr int64_t kMedian = -1, kNanMedian = -2;

// The index in the sorted row for k: the kth smallest; for kMedian the lower median, or the first NaN if there is one;
// for kNanMedian the lower median of the numbers.
template <class T>
int64_t kth_index(const T* x, int64_t m, int64_t step, int64_t k) {
  if (k > 0) return k - 1;
  int64_t nan_count = 0;
  for (int64_t i = 0; i < m; ++i) nan_count += x[i * step] != x[i * step];
  const int64_t numbers = m - nan_count;
  return k == kMedian ? (nan_count ? numbers : (m - 1) / 2) : (numbers > 1 ? (numbers - 1) / 2 : 0);
}

template <class T>
void kth_rows(const SortArguments& w, int64_t k) {
  for_rows<T>(w, [&](auto& s, const T* x, T* values, int64_t* indices) {
    fill_pairs(s.a, x, w.m, w.inner, false);
    const int64_t at = kth_index(x, w.m, w.inner, k);
    std::nth_element(s.a, s.a + at, s.a + w.m);
    write_results(s.a + at, x, 1, w.inner, values, indices);
  });
}

// Long rows are sorted one after the other, each by all threads.
template <class T>
void sort_long_rows(const SortArguments& w, bool descending, void* scratch) {
  for (int64_t r = 0; r < w.rows(); ++r) {
    radix_sort(PyArray_TYPE(w.x.array()), w.row<T>(r), w.m, descending, scratch, data<T>(w.values) + r * w.m,
               data<int64_t>(w.indices) + r * w.m);
  }
}

template <class T>
void topk_long_rows(const SortArguments& w, bool largest) {
  for (int64_t r = 0; r < w.rows() && w.count; ++r) {
    const T* x = w.row<T>(r);
    T* values = data<T>(w.values) + r * w.count;
    int64_t* indices = data<int64_t>(w.indices) + r * w.count;
    radix_topk(PyArray_TYPE(w.x.array()), x, w.m, w.count, largest, indices);
    for (int64_t i = 0; i < w.count; ++i) values[i] = x[indices[i]];
  }
}

template <class T>
void kth_long_rows(const SortArguments& w, int64_t k) {
  for (int64_t r = 0; r < w.rows(); ++r) {
    const T* x = w.row<T>(r);
    const int64_t index = radix_kth(PyArray_TYPE(w.x.array()), x, w.m, kth_index(x, w.m, 1, k));
    data<T>(w.values)[r] = x[index];
    data<int64_t>(w.indices)[r] = index;
  }
}

Ref swap_with_last(PyArrayObject* x, int dim) { return Ref(PyArray_SwapAxes(x, dim, PyArray_NDIM(x) - 1)); }

// x along dim with `count` results a row (negative: as many as elements).
Prepared parse_arguments(const char* where, PyObject* const* args, PyObject* dim_argument_object, int64_t count,
                         SortArguments* w) {
  PyArrayObject* x = array_argument(where, "input", args[0]);
  if (!x) return Prepared::Error;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (nd == 0 || type > NPY_DOUBLE) return Prepared::NoKernel;
  w->dim = dim_argument(where, dim_argument_object, nd);
  if (w->dim < 0) return Prepared::Error;
  Ref transposed;
  int dim = w->dim;
  if (dim != nd - 1 && PyArray_SIZE(x) >= kTransposeFrom) {
    transposed = swap_with_last(x, dim);
    if (!transposed) return Prepared::Error;
    x = transposed.array();
    dim = nd - 1;
    w->transposed = true;
  }
  npy_intp dims[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) {
    dims[i] = PyArray_DIM(x, i);
    (i < dim ? w->outer : i > dim ? w->inner : w->m) *= dims[i];
  }
  if (w->m >= INT64_C(0xffffffff)) return Prepared::NoKernel;
  w->count = dims[dim] = count < 0 ? w->m : count;
  w->x = contiguous(x);
  w->values = Ref(new_array(nd, dims, type));
  w->indices = Ref(new_array(nd, dims, NPY_INT64));
  return w->x && w->values && w->indices ? Prepared::Ready : Prepared::Error;
}

Ref restore_dim(const SortArguments& w, const Ref& out) {
  Ref transposed = swap_with_last(out.array(), w.dim);
  return transposed ? contiguous(transposed.array()) : Ref();
}

template <class F>
PyObject* run_and_pack(const SortArguments& w, F&& f) {
  if (w.outer > 0 && w.inner > 0 && w.m > 0) {
    Unlocked unlocked(w.outer * w.inner * w.m > kUnlock);
    with_type(PyArray_TYPE(w.x.array()), f);
  }
  if (!w.transposed) return PyTuple_Pack(2, w.values.get(), w.indices.get());
  const Ref values = restore_dim(w, w.values), indices = restore_dim(w, w.indices);
  return values && indices ? PyTuple_Pack(2, values.get(), indices.get()) : nullptr;
}

}  // namespace

// sort(x, dim, descending) -> (values, indices)
PyObject* sort(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sort", n, 3)) return nullptr;
  const int descending = PyObject_IsTrue(args[2]);
  SortArguments w;
  const Prepared ready = descending < 0 ? Prepared::Error : parse_arguments("sort", args, args[1], -1, &w);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  const npy_intp nbytes = w.is_long() ? radix_scratch(w.m, PyArray_ITEMSIZE(w.x.array())) : 0;
  Ref scratch(new_array(1, &nbytes, NPY_BYTE));  // from the heap, whose pages are already mapped
  if (!scratch) return nullptr;
  return run_and_pack(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() ? sort_long_rows<T>(w, descending != 0, data<void>(scratch)) : sort_rows<T>(w, descending != 0);
  });
}

// topk(x, k, dim, largest) -> (values, indices)
PyObject* topk(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("topk", n, 4)) return nullptr;
  const Py_ssize_t k = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  const int largest = PyObject_IsTrue(args[3]);
  if (largest < 0) return nullptr;
  if (k < 0) Py_RETURN_NONE;
  SortArguments w;
  const Prepared ready = parse_arguments("topk", args, args[2], k, &w);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel || k > w.m) Py_RETURN_NONE;
  return run_and_pack(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() && k <= kMostFirst ? topk_long_rows<T>(w, largest != 0) : topk_rows<T>(w, largest != 0);
  });
}

// kthvalue(x, k, dim) -> (values, indices), one a row: the kth smallest; k = -1 is the median, -2 the nanmedian
PyObject* kthvalue(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("kthvalue", n, 3)) return nullptr;
  const Py_ssize_t k = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  SortArguments w;
  const Prepared ready = parse_arguments("kthvalue", args, args[2], 1, &w);
  if (ready == Prepared::Error) return fall_back();
  if (ready == Prepared::NoKernel || w.m == 0 || k == 0 || k < kNanMedian || k > w.m) Py_RETURN_NONE;
  return run_and_pack(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() ? kth_long_rows<T>(w, k) : kth_rows<T>(w, k);
  });
}

}  // namespace shmtensor
