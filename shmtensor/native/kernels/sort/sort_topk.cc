// Elements become unsigned keys in the same order, with their place beside them; of equal ones the
// first stays first. Each row is one thread's work, and a long one that of all (radix_sort.h).
//
// Many rows across the memory are turned first: a thread then reads and writes whole cache lines.
#include "kernels/sort/sort_topk.h"

#include <algorithm>
#include <utility>

#include "kernels/arguments.h"
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
constexpr int64_t kTurn = 16384;  // elements from which on rows across the memory are turned

// Sorts n pairs whose places ascend among equal keys. Returns where the result is: a or b.
template <class K>
Pair<K>* sorted(Pair<K>* a, Pair<K>* b, int64_t n) {
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
    if (count[a[0].key >> (8 * byte) & 255] == n) continue;  // all have the same
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
struct Scratch {
  Pair<K>*a, *b;
  explicit Scratch(int64_t n)
      : a(static_cast<Pair<K>*>(PyMem_RawMalloc(sizeof(Pair<K>) * 2 * static_cast<size_t>(n + 1)))),
        b(a + n) {}
  ~Scratch() { PyMem_RawFree(a); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

// What a call works on: x as (outer, m, inner), `count` results a row.
struct Work {
  Ref x, values, places;
  int64_t outer = 1, m = 1, inner = 1, count = 0;
  int dim = 0;
  bool turned = false;

  int64_t rows() const { return outer * inner; }
  bool is_long() const { return m >= kLongRow && inner == 1; }
  template <class T>
  const T* row(int64_t r) const {
    return data<T>(x) + r * m;
  }
};

// body(scratch, row of x, its results) for each row, on the pool. An element of a row is `inner`
// apart from the next.
template <class T, class F>
void each_row(const Work& w, F&& body) {
  using K = decltype(key_of(T()));
  const int64_t rows = w.outer * w.inner, m = w.m ? w.m : 1;
  ranges(rows, m >= kGrain ? 1 : kGrain / m, [&](int64_t r, int64_t stop) {
    Scratch<K> scratch(w.m);
    for (; r < stop; ++r) {
      const int64_t o = r / w.inner, c = r % w.inner;
      body(scratch, data<T>(w.x) + o * w.m * w.inner + c,
           data<T>(w.values) + o * w.count * w.inner + c,
           data<int64_t>(w.places) + o * w.count * w.inner + c);
    }
  });
}

template <class T, class K>
void fill(Pair<K>* to, const T* x, int64_t m, int64_t step, bool descending) {
  const K turn = descending ? static_cast<K>(~K(0)) : K(0);
  for (int64_t i = 0; i < m; ++i) {
    to[i] = {static_cast<K>(key_of(x[i * step]) ^ turn), static_cast<uint32_t>(i)};
  }
}

template <class T, class K>
void write(const Pair<K>* from, const T* x, int64_t n, int64_t step, T* values, int64_t* places) {
  for (int64_t i = 0; i < n; ++i) {
    values[i * step] = x[static_cast<int64_t>(from[i].place) * step];
    places[i * step] = from[i].place;
  }
}

template <class T>
void sort_rows(const Work& w, bool descending) {
  each_row<T>(w, [&](auto& s, const T* x, T* values, int64_t* places) {
    fill(s.a, x, w.m, w.inner, descending);
    write(sorted(s.a, s.b, w.m), x, w.m, w.inner, values, places);
  });
}

template <class T>
void topk_rows(const Work& w, bool largest) {
  const int64_t k = w.count;
  each_row<T>(w, [&](auto& s, const T* x, T* values, int64_t* places) {
    if (k == 0) return;
    if (4 * k >= w.m) {
      fill(s.a, x, w.m, w.inner, largest);
      if (k < w.m) std::nth_element(s.a, s.a + k - 1, s.a + w.m);
    } else {
      first_of(x, w.m, w.inner, k, largest, 0, s.a);
    }
    std::sort(s.a, s.a + k);
    write(s.a, x, k, w.inner, values, places);
  });
}

constexpr int64_t kMedian = -1, kNanMedian = -2;

// Which of a row in order is asked for: the k-th smallest; the lower median, which is the first NaN
// where there is one; or that of the numbers alone.
template <class T>
int64_t rank_of(const T* x, int64_t m, int64_t step, int64_t k) {
  if (k > 0) return k - 1;
  int64_t nans = 0;
  for (int64_t i = 0; i < m; ++i) nans += x[i * step] != x[i * step];
  const int64_t left = m - nans;
  return k == kMedian ? (nans ? left : (m - 1) / 2) : (left > 1 ? (left - 1) / 2 : 0);
}

template <class T>
void rank_rows(const Work& w, int64_t k) {
  each_row<T>(w, [&](auto& s, const T* x, T* values, int64_t* places) {
    fill(s.a, x, w.m, w.inner, false);
    const int64_t at = rank_of(x, w.m, w.inner, k);
    std::nth_element(s.a, s.a + at, s.a + w.m);
    write(s.a + at, x, 1, w.inner, values, places);
  });
}

// Long rows, one after the other.
template <class T>
void sort_long(const Work& w, bool descending, void* scratch) {
  for (int64_t r = 0; r < w.rows(); ++r) {
    radix_sort(PyArray_TYPE(w.x.array()), w.row<T>(r), w.m, descending, scratch,
               data<T>(w.values) + r * w.m, data<int64_t>(w.places) + r * w.m);
  }
}

template <class T>
void topk_long(const Work& w, bool largest) {
  for (int64_t r = 0; r < w.rows() && w.count; ++r) {
    const T* x = w.row<T>(r);
    T* values = data<T>(w.values) + r * w.count;
    int64_t* places = data<int64_t>(w.places) + r * w.count;
    radix_first(PyArray_TYPE(w.x.array()), x, w.m, w.count, largest, places);
    for (int64_t i = 0; i < w.count; ++i) values[i] = x[places[i]];
  }
}

template <class T>
void rank_long(const Work& w, int64_t k) {
  for (int64_t r = 0; r < w.rows(); ++r) {
    const T* x = w.row<T>(r);
    const int64_t place =
        radix_rank(PyArray_TYPE(w.x.array()), x, w.m, rank_of(x, w.m, 1, k));
    data<T>(w.values)[r] = x[place];
    data<int64_t>(w.places)[r] = place;
  }
}

Ref swapped(PyArrayObject* x, int dim) {
  return Ref(PyArray_SwapAxes(x, dim, PyArray_NDIM(x) - 1));
}

// x along dim with `count` results a row (negative: as many as there are). 0: NumPy does it; -1:
// exception.
int prepare(const char* where, PyObject* const* args, PyObject* dim_object, int64_t count,
            Work* w) {
  PyArrayObject* x = array_argument(where, "input", args[0]);
  if (!x) return -1;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (nd == 0 || type > NPY_DOUBLE) return 0;
  w->dim = dim_argument(where, dim_object, nd);
  if (w->dim < 0) return -1;
  Ref turned;
  int dim = w->dim;
  if (dim != nd - 1 && PyArray_SIZE(x) >= kTurn) {
    turned = swapped(x, dim);
    if (!turned) return -1;
    x = turned.array();
    dim = nd - 1;
    w->turned = true;
  }
  npy_intp dims[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) {
    dims[i] = PyArray_DIM(x, i);
    (i < dim ? w->outer : i > dim ? w->inner : w->m) *= dims[i];
  }
  if (w->m >= INT64_C(0xffffffff)) return 0;
  w->count = dims[dim] = count < 0 ? w->m : count;
  w->x = in_order(x);
  w->values = Ref(fresh(nd, dims, type));
  w->places = Ref(fresh(nd, dims, NPY_INT64));
  return w->x && w->values && w->places ? 1 : -1;
}

Ref put_back(const Work& w, const Ref& out) {
  Ref turned = swapped(out.array(), w.dim);
  return turned ? in_order(turned.array()) : Ref();
}

template <class F>
PyObject* run(const Work& w, F&& f) {
  if (w.outer > 0 && w.inner > 0 && w.m > 0) {
    Unlocked unlocked(w.outer * w.inner * w.m > kUnlock);
    with_type(PyArray_TYPE(w.x.array()), f);
  }
  if (!w.turned) return PyTuple_Pack(2, w.values.get(), w.places.get());
  const Ref values = put_back(w, w.values), places = put_back(w, w.places);
  return values && places ? PyTuple_Pack(2, values.get(), places.get()) : nullptr;
}

}  // namespace

// sort(x, dim, descending) -> (values, places)
PyObject* sort(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("sort", n, 3, 3) < 0) return nullptr;
  const int descending = PyObject_IsTrue(args[2]);
  Work w;
  const int ready = descending < 0 ? -1 : prepare("sort", args, args[1], -1, &w);
  if (ready < 0) return left_to_caller();
  if (ready == 0) Py_RETURN_NONE;
  const npy_intp nbytes =
      w.is_long() ? radix_scratch(w.m, PyArray_ITEMSIZE(w.x.array())) : 0;
  Ref scratch(fresh(1, &nbytes, NPY_BYTE));  // of the heap: its pages are warm
  if (!scratch) return nullptr;
  return run(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() ? sort_long<T>(w, descending != 0, data<void>(scratch))
                : sort_rows<T>(w, descending != 0);
  });
}

// topk(x, k, dim, largest) -> (values, places)
PyObject* topk(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("topk", n, 4, 4) < 0) return nullptr;
  const Py_ssize_t k = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  const int largest = PyObject_IsTrue(args[3]);
  if (largest < 0) return nullptr;
  if (k < 0) Py_RETURN_NONE;
  Work w;
  const int ready = prepare("topk", args, args[2], k, &w);
  if (ready < 0) return left_to_caller();
  if (ready == 0 || k > w.m) Py_RETURN_NONE;
  return run(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() && k <= kMostFirst ? topk_long<T>(w, largest != 0)
                                   : topk_rows<T>(w, largest != 0);
  });
}

// kthvalue(x, k, dim) -> (values, places), one a row: the k-th smallest; k = -1 the median, -2 of
// numbers
PyObject* kthvalue(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("kthvalue", n, 3, 3) < 0) return nullptr;
  const Py_ssize_t k = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  Work w;
  const int ready = prepare("kthvalue", args, args[2], 1, &w);
  if (ready < 0) return left_to_caller();
  if (ready == 0 || w.m == 0 || k == 0 || k < kNanMedian || k > w.m) Py_RETURN_NONE;
  return run(w, [&](auto zero) {
    using T = decltype(zero);
    w.is_long() ? rank_long<T>(w, k) : rank_rows<T>(w, k);
  });
}

}  // namespace shmtensor
