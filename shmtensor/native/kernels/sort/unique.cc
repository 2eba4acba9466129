// Integers in a small range are counted in a table; other elements are sorted. Runs of equal elements are found on all
// threads: a first pass counts the starts of runs in each piece.
//
// Another process may change the elements between the passes: values that no longer fit the table are left to NumPy, which
// sorts a copy, and the counts and the ends of the pieces bound the second pass. Note [Memory that others change] in
// kernels/index/indices.h.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/prepared_arguments.h"
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
constexpr int64_t kMaxSortedHere = 4096;    // elements that are sorted here by std::sort
constexpr int64_t kPieces = 8;     // tables that are filled in parallel

int64_t piece_count(int64_t n) { return (n + kPiece - 1) / kPiece; }

struct UniqueResults {
  Ref values, inverse, counts;
  bool is_supported = true;  // no NaN, and no value that was changed meanwhile
};

// body(p, start, stop) for at most kPieces equal pieces of n.
template <class F>
void for_pieces(int64_t n, F&& body) {
  const int64_t pieces = std::min(kPieces, piece_count(n));
  slices(pieces, [&](int64_t p) { body(p, n * p / pieces, n * (p + 1) / pieces); });
}

template <class T>
bool value_range(const T* x, int64_t n, T* low, T* high) {
  std::vector<T> lows(kPieces), highs(kPieces);
  for_pieces(n, [&](int64_t p, int64_t i, int64_t stop) {
    lows[static_cast<size_t>(p)] = folds<T>().minmax[kMinimum](x + i, stop - i);
    highs[static_cast<size_t>(p)] = folds<T>().minmax[kMaximum](x + i, stop - i);
  });
  *low = lows[0];
  *high = highs[0];
  bool is_supported = true;
  for (size_t p = 0; p < static_cast<size_t>(std::min(kPieces, piece_count(n))); ++p) {
    is_supported = is_supported && lows[p] == lows[p];
    *low = std::min(*low, lows[p]);
    *high = std::max(*high, highs[p]);
  }
  return is_supported;
}

template <class T>
uint64_t table_index(T x, T low) {
  return static_cast<uint64_t>(x) - static_cast<uint64_t>(low);
}

// Counts the values in a table of `size` entries, or looks up their ranks in it. False: a value has no entry.
template <class T>
bool count_values(const T* x, int64_t n, T low, uint64_t size, uint32_t* table) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = table_index(load_once(x + i), low);
    if (index >= size) return false;
    ++table[index];
  }
  return true;
}

template <class T>
bool write_inverse(const T* x, int64_t n, T low, uint64_t size, const uint32_t* ranks, int64_t* out) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = table_index(load_once(x + i), low);
    if (index >= size) return false;
    out[i] = ranks[index];
  }
  return true;
}

// Allocates results for `count` values.
bool allocate_results(npy_intp count, int type, bool with_inverse, PyArrayObject* x, UniqueResults* f) {
  f->values = Ref(new_array(1, &count, type));
  if (!with_inverse) return static_cast<bool>(f->values);
  f->counts = Ref(new_array(1, &count, NPY_INT64));
  f->inverse = Ref(new_array(PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64));
  return f->values && f->counts && f->inverse;
}

template <class T>
bool unique_by_table(PyArrayObject* x, T low, int64_t size, bool with_inverse, UniqueResults* f) {
  const int64_t n = PyArray_SIZE(x);
  const T* from = data<T>(x);
  std::vector<uint32_t> tables(static_cast<size_t>(size * kPieces));
  npy_intp count = 0;
  const uint64_t entries = static_cast<uint64_t>(size);
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(n > kUnlock);
    for_pieces(n, [&](int64_t p, int64_t i, int64_t stop) {
      if (!count_values(from + i, stop - i, low, entries, tables.data() + p * size)) valid = false;
    });
    for (int64_t p = 1; p < kPieces; ++p)
      for (int64_t v = 0; v < size; ++v) tables[static_cast<size_t>(v)] += tables[static_cast<size_t>(p * size + v)];
    for (int64_t v = 0; v < size; ++v) count += tables[static_cast<size_t>(v)] != 0;
  }
  if (!allocate_results(count, PyArray_TYPE(x), with_inverse, x, f)) return false;
  int64_t k = 0;
  for (int64_t v = 0; v < size; ++v) {
    uint32_t& entry = tables[static_cast<size_t>(v)];
    if (!entry) continue;
    data<T>(f->values)[k] = static_cast<T>(static_cast<uint64_t>(low) + static_cast<uint64_t>(v));
    if (with_inverse) data<int64_t>(f->counts)[k] = entry;
    entry = static_cast<uint32_t>(k++);
  }
  if (with_inverse) {
    Unlocked unlocked(n > kUnlock);
    for_pieces(n, [&](int64_t, int64_t i, int64_t stop) {
      if (!write_inverse(from + i, stop - i, low, entries, tables.data(), data<int64_t>(f->inverse) + i)) valid = false;
    });
  }
  f->is_supported = valid;
  return true;
}

template <class T>
bool unique_by_sorting(PyArrayObject* x, bool with_inverse, UniqueResults* f) {
  const npy_intp n = PyArray_SIZE(x), bytes = radix_scratch(n, sizeof(T));
  Ref sorted(new_array(1, &n, PyArray_TYPE(x))), order(new_array(1, &n, NPY_INT64));
  Ref scratch(new_array(1, &bytes, NPY_BYTE));
  if (!sorted || !order || !scratch) return false;
  const T* in = data<T>(sorted);
  const int64_t* order_data = data<int64_t>(order);
  npy_intp count = 1;
  {
    Unlocked unlocked(n > kUnlock);
    radix_sort(PyArray_TYPE(x), data<T>(x), n, false, data<void>(scratch), data<T>(sorted), data<int64_t>(order));
    for (int64_t i = 1; i < n; ++i) count += in[i] != in[i - 1];
  }
  if (!allocate_results(count, PyArray_TYPE(x), with_inverse, x, f)) return false;
  Unlocked unlocked(n > kUnlock);
  T* values = data<T>(f->values);
  int64_t *counts = with_inverse ? data<int64_t>(f->counts) : nullptr, begin = 0, k = 0;
  values[0] = in[0];
  for (int64_t i = 0; i < n; ++i) {
    if (i && in[i] != in[i - 1]) {
      if (with_inverse) counts[k] = i - begin;
      begin = i;
      values[++k] = in[i];
    }
    if (with_inverse) data<int64_t>(f->inverse)[order_data[i]] = k;
  }
  if (with_inverse) counts[k] = n - begin;
  return true;
}

// The sorted unique values. False with an exception.
template <class T>
bool find_unique(PyArrayObject* x, bool with_inverse, UniqueResults* f) {
  const int64_t n = PyArray_SIZE(x);
  if (n == 0) {
    return allocate_results(0, PyArray_TYPE(x), with_inverse, x, f);
  }
  T low, high;
  f->is_supported = value_range(data<T>(x), n, &low, &high);
  if (!f->is_supported) return true;
  if constexpr (std::is_integral_v<T>) {
    const uint64_t span = table_index(high, low);
    if (span < static_cast<uint64_t>(n / 4 + 64))
      return unique_by_table(x, low, static_cast<int64_t>(span) + 1, with_inverse, f);
  }
  if (std::is_floating_point_v<T> && !with_inverse && n > kMaxSortedHere) {  // NumPy sorts floats faster
    f->is_supported = false;
    return true;
  }
  if (with_inverse || n > kMaxSortedHere) return unique_by_sorting<T>(x, with_inverse, f);
  T sorted[kMaxSortedHere];
  memcpy(sorted, data<T>(x), sizeof(T) * static_cast<size_t>(n));
  std::sort(sorted, sorted + n);
  const int64_t unique_count = std::unique(sorted, sorted + n) - sorted;
  if (!allocate_results(unique_count, PyArray_TYPE(x), false, x, f)) return false;
  memcpy(data<T>(f->values), sorted, sizeof(T) * static_cast<size_t>(unique_count));
  return true;
}

// Does a run start at element i?
template <class T>
bool starts_run(const T* x, int64_t i) {
  return i == 0 || x[i] != x[i - 1];
}

template <class T>
int64_t count_run_starts(const T* x, int64_t i, int64_t stop) {
  int64_t count = 0;
  if (i == 0 && i < stop) count = ++i;
  for (; i < stop; ++i) count += x[i] != x[i - 1];
  return count;
}

// Writes the first elements of `count` runs, from i to stop, and their indices. Branchless: an element that starts no run
// is overwritten by the next.
template <class T>
void write_run_starts(const T* x, int64_t i, int64_t stop, int64_t count, T* values, int64_t* order) {
  int64_t k = 0;
  for (; k < count && i < stop; ++i) {
    values[k] = x[i];
    if (order) order[k] = i;
    k += starts_run(x, i);
  }
  for (; k < count; ++k) {
    values[k] = T(0);
    if (order) order[k] = stop;
  }
}

template <class T>
void write_run_numbers(const T* x, int64_t i, int64_t stop, int64_t run, int64_t* inverse) {
  for (; i < stop; ++i) inverse[i] = run += starts_run(x, i);
}

// Runs of equal values. False with an exception.
template <class T>
bool unique_consecutive_runs(PyArrayObject* array, bool with_inverse, UniqueResults* f) {
  const T* x = data<T>(array);
  const int64_t n = PyArray_SIZE(array), pieces = piece_count(n);
  std::vector<int64_t> starts(static_cast<size_t>(pieces) + 1);
  // body(start, stop, number of the piece's first run, runs that start in it)
  const auto for_run_pieces = [&](auto&& body) {
    ranges(n, kPiece, [&](int64_t i, int64_t stop) {
      const size_t p = static_cast<size_t>(i / kPiece);
      body(i, stop, starts[p], starts[p + 1] - starts[p]);
    });
  };
  {
    Unlocked unlocked(n > kUnlock);
    ranges(n, kPiece,
           [&](int64_t i, int64_t stop) { starts[static_cast<size_t>(i / kPiece) + 1] = count_run_starts(x, i, stop); });
    for (size_t p = 1; p < starts.size(); ++p) starts[p] += starts[p - 1];
  }
  const npy_intp count = starts.back();
  if (!allocate_results(count, PyArray_TYPE(array), with_inverse, array, f)) return false;
  T* values = data<T>(f->values);
  int64_t* counts = with_inverse ? data<int64_t>(f->counts) : nullptr;
  int64_t* inverse = with_inverse ? data<int64_t>(f->inverse) : nullptr;
  Unlocked unlocked(n > kUnlock);
  for_run_pieces([&](int64_t i, int64_t stop, int64_t first, int64_t count_here) {
    write_run_starts(x, i, stop, count_here, values + first, with_inverse ? counts + first : nullptr);
    if (with_inverse) write_run_numbers(x, i, stop, first - 1, inverse);
  });
  for (int64_t k = 0; with_inverse && k < count; ++k) counts[k] = (k + 1 < count ? counts[k + 1] : n) - counts[k];
  return true;
}

Prepared unique_results(PyObject* argument, bool with_inverse, bool runs, UniqueResults* f) {
  if (!PyArray_CheckExact(argument)) return Prepared::NoKernel;
  PyArrayObject* x = as_array(argument);
  if (!is_plain(x) || PyArray_SIZE(x) >= INT64_C(0xffffffff)) return Prepared::NoKernel;
  Ref in(contiguous(x));
  if (!in) return Prepared::Error;
  bool status = true;
  const bool has_kernel = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    status = runs ? unique_consecutive_runs<T>(in.array(), with_inverse, f) : find_unique<T>(in.array(), with_inverse, f);
  });
  if (!status) return Prepared::Error;
  return has_kernel && f->is_supported ? Prepared::Ready : Prepared::NoKernel;
}

PyObject* values_only(PyObject* const* args, Py_ssize_t n, bool runs) {
  if (!takes("unique", n, 1)) return nullptr;
  UniqueResults f;
  const Prepared status = unique_results(args[0], false, runs, &f);
  if (status == Prepared::Error) return nullptr;
  if (status == Prepared::NoKernel) Py_RETURN_NONE;
  return f.values.release();
}

PyObject* values_inverse_counts(PyObject* const* args, Py_ssize_t n, bool runs) {
  if (!takes("unique", n, 1, 2)) return nullptr;
  if (n > 1 && args[1] != Py_None) Py_RETURN_NONE;
  UniqueResults f;
  const Prepared status = unique_results(args[0], true, runs, &f);
  if (status == Prepared::Error) return nullptr;
  if (status == Prepared::NoKernel) Py_RETURN_NONE;
  return PyTuple_Pack(3, f.values.get(), f.inverse.get(), f.counts.get());
}

// The index at which the first longest run of a row ends.
template <class T>
int64_t longest_run(const T* x, int64_t n) {
  int64_t length = 1, best = 1, at = 0;
  for (int64_t i = 1; i < n; ++i) {
    length = length * (x[i] == x[i - 1]) + 1;
    const int64_t is_longer = -static_cast<int64_t>(length > best);  // branchless: the branch is unpredictable
    best += (length - best) & is_longer;
    at += (i - at) & is_longer;
  }
  return at;
}

}  // namespace

PyObject* longest_runs(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("longest_runs", n, 1)) return nullptr;
  PyArrayObject* x = PyArray_CheckExact(args[0]) ? as_array(args[0]) : nullptr;
  const int last = x ? PyArray_NDIM(x) - 1 : -1;
  if (last < 0 || PyArray_DIM(x, last) == 0 || !PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS];
  std::copy(PyArray_DIMS(x), PyArray_DIMS(x) + last, dims);
  dims[last] = 1;
  Ref out(new_array(last + 1, dims, NPY_INT64));
  if (!out) return nullptr;
  const int64_t m = PyArray_DIM(x, last), rows = PyArray_SIZE(out.array());
  bool has_kernel;
  {
    Unlocked unlocked(rows * m > kUnlock);
    has_kernel = with_type(PyArray_TYPE(x), [&](auto zero) {
      using T = decltype(zero);
      ranges(rows, 1 + kPiece / 4 / m, [&](int64_t r, int64_t stop) {
        for (; r < stop; ++r) data<int64_t>(out)[r] = longest_run(data<T>(x) + r * m, m);
      });
    });
  }
  if (!has_kernel) Py_RETURN_NONE;
  return out.release();
}

PyObject* unique(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_only(args, n, false); }
PyObject* unique2(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_inverse_counts(args, n, false); }
PyObject* unique_consecutive_values(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_only(args, n, true); }
PyObject* unique_consecutive(PyObject*, PyObject* const* args, Py_ssize_t n) { return values_inverse_counts(args, n, true); }

}  // namespace shmtensor
