// Whole numbers that lie close together are counted in a table; others are sorted, and runs of equal
// ones found. Runs of any order are found by all threads: each piece's beginnings are counted first.
#include "kernels/sort/unique.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/sort/radix_sort.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 4096;
constexpr int64_t kPiece = 65536;  // elements of a slice
constexpr int64_t kMost = 4096;    // elements that are sorted here, by comparing
constexpr int64_t kPieces = 8;     // tables that are filled at once

int64_t pieces_of(int64_t n) { return (n + kPiece - 1) / kPiece; }

struct Found {
  Ref values, inverse, counts;
  bool usual = true;  // no NaN
};

// body(p, first, last) for equal parts of n, at most kPieces.
template <class F>
void parts(int64_t n, F&& body) {
  const int64_t most = std::min(kPieces, pieces_of(n));
  slices(most, [&](int64_t p) { body(p, n * p / most, n * (p + 1) / most); });
}

template <class T>
bool extent(const T* x, int64_t n, T* low, T* high) {
  std::vector<T> lows(kPieces), highs(kPieces);
  parts(n, [&](int64_t p, int64_t i, int64_t stop) {
    lows[static_cast<size_t>(p)] = folds<T>().extreme[0](x + i, stop - i);
    highs[static_cast<size_t>(p)] = folds<T>().extreme[1](x + i, stop - i);
  });
  *low = lows[0];
  *high = highs[0];
  bool usual = true;
  for (size_t p = 0; p < static_cast<size_t>(std::min(kPieces, pieces_of(n))); ++p) {
    usual = usual && lows[p] == lows[p];
    *low = std::min(*low, lows[p]);
    *high = std::max(*high, highs[p]);
  }
  return usual;
}

template <class T>
uint64_t place_in(T x, T low) {
  return static_cast<uint64_t>(x) - static_cast<uint64_t>(low);
}

template <class T>
void count_up(const T* x, int64_t n, T low, uint32_t* table) {
  for (int64_t i = 0; i < n; ++i) ++table[place_in(x[i], low)];
}

template <class T>
void look_up(const T* x, int64_t n, T low, const uint32_t* ranks, int64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ranks[place_in(x[i], low)];
}

// Fresh results for that many values.
bool prepare(npy_intp count, int type, bool all, PyArrayObject* x, Found* f) {
  f->values = Ref(fresh(1, &count, type));
  if (!all) return static_cast<bool>(f->values);
  f->counts = Ref(fresh(1, &count, NPY_INT64));
  f->inverse = Ref(fresh(PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64));
  return f->values && f->counts && f->inverse;
}

template <class T>
bool by_table(PyArrayObject* x, T low, int64_t size, bool all, Found* f) {
  const int64_t n = PyArray_SIZE(x);
  const T* from = data<T>(x);
  std::vector<uint32_t> tables(static_cast<size_t>(size * kPieces));
  npy_intp count = 0;
  {
    Unlocked unlocked(n > kUnlock);
    parts(n, [&](int64_t p, int64_t i, int64_t stop) {
      count_up(from + i, stop - i, low, tables.data() + p * size);
    });
    for (int64_t p = 1; p < kPieces; ++p)
      for (int64_t v = 0; v < size; ++v)
        tables[static_cast<size_t>(v)] += tables[static_cast<size_t>(p * size + v)];
    for (int64_t v = 0; v < size; ++v) count += tables[static_cast<size_t>(v)] != 0;
  }
  if (!prepare(count, PyArray_TYPE(x), all, x, f)) return false;
  int64_t k = 0;
  for (int64_t v = 0; v < size; ++v) {
    uint32_t& here = tables[static_cast<size_t>(v)];
    if (!here) continue;
    data<T>(f->values)[k] =
        static_cast<T>(static_cast<uint64_t>(low) + static_cast<uint64_t>(v));
    if (all) data<int64_t>(f->counts)[k] = here;
    here = static_cast<uint32_t>(k++);
  }
  if (!all) return true;
  Unlocked unlocked(n > kUnlock);
  parts(n, [&](int64_t, int64_t i, int64_t stop) {
    look_up(from + i, stop - i, low, tables.data(), data<int64_t>(f->inverse) + i);
  });
  return true;
}

template <class T>
bool by_order(PyArrayObject* x, bool all, Found* f) {
  const npy_intp n = PyArray_SIZE(x), bytes = radix_scratch(n, sizeof(T));
  Ref sorted(fresh(1, &n, PyArray_TYPE(x))), places(fresh(1, &n, NPY_INT64));
  Ref scratch(fresh(1, &bytes, NPY_BYTE));
  if (!sorted || !places || !scratch) return false;
  const T* in = data<T>(sorted);
  const int64_t* where = data<int64_t>(places);
  npy_intp count = 1;
  {
    Unlocked unlocked(n > kUnlock);
    radix_sort(PyArray_TYPE(x), data<T>(x), n, false, data<void>(scratch), data<T>(sorted),
               data<int64_t>(places));
    for (int64_t i = 1; i < n; ++i) count += in[i] != in[i - 1];
  }
  if (!prepare(count, PyArray_TYPE(x), all, x, f)) return false;
  Unlocked unlocked(n > kUnlock);
  T* values = data<T>(f->values);
  int64_t *counts = all ? data<int64_t>(f->counts) : nullptr, begin = 0, k = 0;
  values[0] = in[0];
  for (int64_t i = 0; i < n; ++i) {
    if (i && in[i] != in[i - 1]) {
      if (all) counts[k] = i - begin;
      begin = i;
      values[++k] = in[i];
    }
    if (all) data<int64_t>(f->inverse)[where[i]] = k;
  }
  if (all) counts[k] = n - begin;
  return true;
}

// False with an exception.
template <class T>
bool find(PyArrayObject* x, bool all, Found* f) {
  const int64_t n = PyArray_SIZE(x);
  if (n == 0) {
    return prepare(0, PyArray_TYPE(x), all, x, f);
  }
  T low, high;
  f->usual = extent(data<T>(x), n, &low, &high);
  if (!f->usual) return true;
  if constexpr (std::is_integral_v<T>) {
    const uint64_t range = place_in(high, low);
    if (range < static_cast<uint64_t>(n / 4 + 64))
      return by_table(x, low, static_cast<int64_t>(range) + 1, all, f);
  }
  if (std::is_floating_point_v<T> && !all && n > kMost) {  // NumPy sorts them faster
    f->usual = false;
    return true;
  }
  if (all || n > kMost) return by_order<T>(x, all, f);
  T sorted[kMost];
  memcpy(sorted, data<T>(x), sizeof(T) * static_cast<size_t>(n));
  std::sort(sorted, sorted + n);
  const int64_t left = std::unique(sorted, sorted + n) - sorted;
  if (!prepare(left, PyArray_TYPE(x), false, x, f)) return false;
  memcpy(data<T>(f->values), sorted, sizeof(T) * static_cast<size_t>(left));
  return true;
}

// Does a run begin at element i?
template <class T>
bool begins(const T* x, int64_t i) {
  return i == 0 || x[i] != x[i - 1];
}

template <class T>
int64_t count_beginnings(const T* x, int64_t i, int64_t stop) {
  int64_t count = 0;
  if (i == 0 && i < stop) count = ++i;
  for (; i < stop; ++i) count += x[i] != x[i - 1];
  return count;
}

// The elements, from i on, with which `count` runs begin, and their places. No branch: what is not
// wanted is overwritten by what comes next.
template <class T>
void pick_beginnings(const T* x, int64_t i, int64_t count, T* values, int64_t* places) {
  for (int64_t k = 0; k < count; ++i) {
    values[k] = x[i];
    if (places) places[k] = i;
    k += begins(x, i);
  }
}

template <class T>
void number_runs(const T* x, int64_t i, int64_t stop, int64_t run, int64_t* inverse) {
  for (; i < stop; ++i) inverse[i] = run += begins(x, i);
}

// Runs of equal values. False with an exception.
template <class T>
bool find_runs(PyArrayObject* array, bool all, Found* f) {
  const T* x = data<T>(array);
  const int64_t n = PyArray_SIZE(array), pieces = pieces_of(n);
  std::vector<int64_t> starts(static_cast<size_t>(pieces) + 1);
  const auto each = [&](auto&& body) {  // of a piece: the number of its first run, and how many begin in it
    ranges(n, kPiece, [&](int64_t i, int64_t stop) {
      const size_t p = static_cast<size_t>(i / kPiece);
      body(i, stop, starts[p], starts[p + 1] - starts[p]);
    });
  };
  {
    Unlocked unlocked(n > kUnlock);
    ranges(n, kPiece, [&](int64_t i, int64_t stop) {
      starts[static_cast<size_t>(i / kPiece) + 1] = count_beginnings(x, i, stop);
    });
    for (size_t p = 1; p < starts.size(); ++p) starts[p] += starts[p - 1];
  }
  const npy_intp count = starts.back();
  if (!prepare(count, PyArray_TYPE(array), all, array, f)) return false;
  T* values = data<T>(f->values);
  int64_t *counts = all ? data<int64_t>(f->counts) : nullptr, *inverse = all ? data<int64_t>(f->inverse) : nullptr;
  Unlocked unlocked(n > kUnlock);
  each([&](int64_t i, int64_t stop, int64_t first, int64_t here) {
    pick_beginnings(x, i, here, values + first, all ? counts + first : nullptr);
    if (all) number_runs(x, i, stop, first - 1, inverse);
  });
  for (int64_t k = 0; all && k < count; ++k) counts[k] = (k + 1 < count ? counts[k + 1] : n) - counts[k];
  return true;
}

// 1: found; 0: NumPy does it; -1: exception.
int found(PyObject* argument, bool all, bool runs, Found* f) {
  if (!PyArray_CheckExact(argument)) return 0;
  PyArrayObject* x = as_array(argument);
  if (!is_plain(x) || PyArray_SIZE(x) >= INT64_C(0xffffffff)) return 0;
  Ref in(in_order(x));
  if (!in) return -1;
  bool done = true;
  const bool known = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    done = runs ? find_runs<T>(in.array(), all, f) : find<T>(in.array(), all, f);
  });
  return !done ? -1 : known && f->usual;
}

PyObject* values_of(PyObject* const* args, Py_ssize_t n, bool runs) {
  if (count_arguments("unique", n, 1, 1) < 0) return nullptr;
  Found f;
  const int done = found(args[0], false, runs, &f);
  if (done < 0) return nullptr;
  if (done == 0) Py_RETURN_NONE;
  return f.values.release();
}

PyObject* all_of(PyObject* const* args, Py_ssize_t n, bool runs) {
  if (count_arguments("unique", n, 1, 2) < 0) return nullptr;
  if (n > 1 && args[1] != Py_None) Py_RETURN_NONE;
  Found f;
  const int done = found(args[0], true, runs, &f);
  if (done < 0) return nullptr;
  if (done == 0) Py_RETURN_NONE;
  return PyTuple_Pack(3, f.values.get(), f.inverse.get(), f.counts.get());
}

// Where the first of the longest runs of a row ends.
template <class T>
int64_t longest_run(const T* x, int64_t n) {
  int64_t length = 1, best = 1, at = 0;
  for (int64_t i = 1; i < n; ++i) {
    length = length * (x[i] == x[i - 1]) + 1;
    const int64_t longer = -static_cast<int64_t>(length > best);  // no branch: nobody can foresee it
    best += (length - best) & longer;
    at += (i - at) & longer;
  }
  return at;
}

}  // namespace

PyObject* longest_runs(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("longest_runs", n, 1, 1) < 0) return nullptr;
  PyArrayObject* x = PyArray_CheckExact(args[0]) ? as_array(args[0]) : nullptr;
  const int last = x ? PyArray_NDIM(x) - 1 : -1;
  if (last < 0 || PyArray_DIM(x, last) == 0 || !PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS];
  std::copy(PyArray_DIMS(x), PyArray_DIMS(x) + last, dims);
  dims[last] = 1;
  Ref out(fresh(last + 1, dims, NPY_INT64));
  if (!out) return nullptr;
  const int64_t m = PyArray_DIM(x, last), rows = PyArray_SIZE(out.array());
  bool known;
  {
    Unlocked unlocked(rows * m > kUnlock);
    known = with_type(PyArray_TYPE(x), [&](auto zero) {
      using T = decltype(zero);
      ranges(rows, 1 + kPiece / 4 / m, [&](int64_t r, int64_t stop) {
        for (; r < stop; ++r) data<int64_t>(out)[r] = longest_run(data<T>(x) + r * m, m);
      });
    });
  }
  if (!known) Py_RETURN_NONE;
  return out.release();
}

PyObject* unique(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_of(args, n, false); }
PyObject* unique2(PyObject*, PyObject* const* args, Py_ssize_t n) { return all_of(args, n, false); }
PyObject* unique_consecutive_values(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_of(args, n, true); }
PyObject* unique_consecutive(PyObject*, PyObject* const* args, Py_ssize_t n) { return all_of(args, n, true); }

}  // namespace shmtensor
