// Sixteen binary searches run side by side without branches, which would be unpredictable: the latency of one search is
// hidden by the others. They compare keys, in which a NaN is the largest.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "kernels/sort/sort_keys.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 1024;
constexpr int64_t kGrain = 2048;    // searches of a slice
constexpr int64_t kMinSequence = 1024;      // elements of a sequence whose keys are computed even for few searches
constexpr int64_t kPiece = 65536;   // elements counted per slice
constexpr int64_t kBins = 1 << 16;  // counters per slice

template <class T>
void compute_keys(const T* x, KeyOf<T>* keys, int64_t n) {
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of(x[i]);
}

// Is x inserted behind s?
template <bool kRight, class K>
inline bool comes_after(K s, K x) {
  return kRight ? s <= x : s < x;
}

template <bool kRight, class K>
void search_sorted(const K* s, int64_t m, const K* x, int64_t* out, int64_t n) {
  constexpr int64_t kBatch = 16;
  for (int64_t i = 0; i < n; i += kBatch) {
    int64_t at[kBatch] = {};
    K keys[kBatch] = {};
    const int64_t count = std::min(kBatch, n - i);
    std::copy_n(x + i, count, keys);
    for (int64_t remaining = m; remaining > 1;) {
      const int64_t half = remaining / 2;
      for (int64_t l = 0; l < kBatch; ++l)
        at[l] += half & -static_cast<int64_t>(comes_after<kRight>(s[at[l] + half - 1], keys[l]));
      remaining -= half;
    }
    for (int64_t l = 0; l < count; ++l) out[i + l] = at[l] + (m && comes_after<kRight>(s[at[l]], keys[l]));
  }
}

// False if a value is out of range [0, bins).
bool count_values(const int64_t* x, int64_t n, int64_t bins, int64_t* counts) {
  return for_indices(x, n, bins, [=](int64_t, int64_t value) { ++counts[value]; });
}

// The minimum and the maximum of n > 0 elements.
void value_range(const int64_t* x, int64_t n, int64_t* low, int64_t* high) {
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::vector<int64_t> extremes(static_cast<size_t>(2 * pieces));
  int64_t *lows = extremes.data(), *highs = lows + pieces;
  slices(pieces, [&](int64_t p) {
    const int64_t m = std::min(kPiece, n - p * kPiece);
    lows[p] = folds<int64_t>().minmax[kMinimum](x + p * kPiece, m);
    highs[p] = folds<int64_t>().minmax[kMaximum](x + p * kPiece, m);
  });
  *low = *std::min_element(lows, lows + pieces);
  *high = *std::max_element(highs, highs + pieces);
}

// Counts n elements in bins of ascending edges; elements outside of the edges and NaN are not counted.
template <class T>
void count_in_bins(const T* x, int64_t n, const T* edges, int64_t bins, int64_t* counts) {
  const T low = edges[0], high = edges[bins];
  // Halves: the difference of two float64 may be too large for one.
  const double begin = static_cast<double>(low) / 2,
               scale = static_cast<double>(bins) / (static_cast<double>(high) / 2 - begin);
  for (int64_t i = 0; i < n; ++i) {
    const T v = load_once(x + i);
    if (!(v >= low && v <= high)) continue;
    const double position = (static_cast<double>(v) / 2 - begin) * scale;
    // NaN, of bins without a width, is the first bin.
    int64_t bin = position < static_cast<double>(bins) ? static_cast<int64_t>(position) : position >= 0 ? bins - 1 : 0;
    bin -= v < edges[bin];  // corrects rounding
    bin += bin + 1 < bins && v >= edges[bin + 1];
    ++counts[bin < 0 ? 0 : bin];  // -1: another process has changed the edges
  }
}

}  // namespace

// searchsorted(sequence, x, sorter, side): one sequence for all, or one for each row of x
PyObject* searchsorted(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("searchsorted", n, 4)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]) || args[2] != Py_None || !PyUnicode_Check(args[3]))
    Py_RETURN_NONE;
  PyArrayObject *sequence = as_array(args[0]), *x = as_array(args[1]);
  const int nd = PyArray_NDIM(sequence), type = PyArray_TYPE(x);
  if (nd == 0 || type != PyArray_TYPE(sequence) || type > NPY_DOUBLE) Py_RETURN_NONE;
  // keys of the full sequence must be computed
  if (PyArray_SIZE(sequence) > kMinSequence + 2 * PyArray_SIZE(x)) Py_RETURN_NONE;
  if (nd > 1 && (nd != PyArray_NDIM(x) || !PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(sequence), nd - 1)))
    Py_RETURN_NONE;
  const bool right = PyUnicode_CompareWithASCIIString(args[3], "right") == 0;
  Ref s(contiguous(sequence)), in(s ? contiguous(x) : Ref());
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64) : nullptr);
  if (!out) return nullptr;
  const int64_t m = PyArray_DIM(sequence, nd - 1), total = PyArray_SIZE(x);
  const int64_t row = nd > 1 ? PyArray_DIM(x, nd - 1) : total;
  if (total == 0) return out.release();
  int64_t* to = data<int64_t>(out);
  Unlocked unlocked(total > kUnlock);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using K = KeyOf<T>;
    std::vector<K> sorted(static_cast<size_t>(PyArray_SIZE(sequence)));
    compute_keys(data<T>(s), sorted.data(), PyArray_SIZE(sequence));
    const auto search = right ? search_sorted<true, K> : search_sorted<false, K>;
    ranges(total, kGrain, [&](int64_t i, int64_t stop) {
      K keys[kGrain];
      while (i < stop) {
        const int64_t r = i / row, end = std::min(stop, (r + 1) * row);
        compute_keys(data<T>(in) + i, keys, end - i);
        search(sorted.data() + r * m, m, keys, to + i, end - i);
        i = end;
      }
    });
  });
  return out.release();
}

// bincount(x, weights, minlength): the counts of 0, 1, ... in a vector
PyObject* bincount(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("bincount", n, 3)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || args[1] != Py_None || !PyLong_CheckExact(args[2])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const Py_ssize_t minlength = PyLong_AsSsize_t(args[2]);
  PyErr_Clear();
  const int64_t size = PyArray_SIZE(x);
  if (PyArray_NDIM(x) != 1 || size == 0 || PyArray_TYPE(x) != NPY_INT64 || minlength < 0) Py_RETURN_NONE;
  Ref in(contiguous(x));
  if (!in) return nullptr;
  const int64_t* from = data<int64_t>(in);
  int64_t low, high;
  {
    Unlocked unlocked(size > kUnlock);
    value_range(from, size, &low, &high);
  }
  if (low < 0 || high >= kBins || minlength > kBins) Py_RETURN_NONE;
  const npy_intp bins = std::max<npy_intp>(high + 1, minlength);
  Ref out(new_array(1, &bins, NPY_INT64));
  if (!out) return nullptr;
  int64_t* to = data<int64_t>(out);
  std::atomic<bool> valid{true};  // false: the values have changed, NumPy counts a copy
  {
    Unlocked unlocked(size > kUnlock);
    const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(size / kPiece, size / 8 / bins));
    std::vector<int64_t> tables(static_cast<size_t>(pieces * bins));
    slices(pieces, [&](int64_t p) {
      const int64_t start = size * p / pieces, stop = size * (p + 1) / pieces;
      if (!count_values(from + start, stop - start, bins, tables.data() + p * bins)) valid = false;
    });
    memcpy(to, tables.data(), sizeof(int64_t) * static_cast<size_t>(bins));
    for (int64_t p = 1; p < pieces; ++p) {
      const int64_t* table = tables.data() + p * bins;
      for (int64_t b = 0; b < bins; ++b) to[b] += table[b];
    }
  }
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

// histogram(x, edges): counts between evenly spaced edges; the last edge belongs to the last bin
PyObject* histogram(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("histogram", n, 2)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *edges = as_array(args[1]);
  const int type = PyArray_TYPE(x);
  const npy_intp bins = PyArray_SIZE(edges) - 1;
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_TYPE(edges) != type || bins < 1 || bins > kBins ||
      !PyArray_ISCARRAY_RO(edges))
    Py_RETURN_NONE;
  Ref in(contiguous(x));
  Ref out(in ? new_array(1, &bins, NPY_INT64) : nullptr);
  if (!out) return nullptr;
  int64_t* to = data<int64_t>(out);
  const int64_t size = PyArray_SIZE(x);
  Unlocked unlocked(size > kUnlock);
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(size / kPiece, size / 8 / bins));
  std::vector<int64_t> tables(static_cast<size_t>(pieces * bins));
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      slices(pieces, [&](int64_t p) {
        const int64_t start = size * p / pieces, stop = size * (p + 1) / pieces;
        count_in_bins(data<T>(in) + start, stop - start, data<T>(edges), bins, tables.data() + p * bins);
      });
    }
  });
  memset(to, 0, sizeof(int64_t) * static_cast<size_t>(bins));
  for (int64_t p = 0; p < pieces; ++p) {
    for (int64_t b = 0; b < bins; ++b) to[b] += tables[static_cast<size_t>(p * bins + b)];
  }
  return out.release();
}

}  // namespace shmtensor
