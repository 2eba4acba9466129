// Samples indices with the weights of rows. With replacement: binary search of a uniform number times the row's sum in
// its cumulative sums. Without replacement: element i gets an exponential random time divided by its weight, and the k
// smallest times are drawn (Efraimidis and Spirakis: Weighted random sampling with a reservoir, 2006); this file
// computes the times.
//
// Cumulative sums are computed sequentially, so that an element of weight 0 adds nothing and is never drawn. A long row
// is divided into pieces with separate cumulative sums; the search finds first the piece, then the index in it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/prepared_arguments.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements of a piece of a long row
constexpr int64_t kGrain = 16384;  // elements of a slice
constexpr int64_t kUnlock = 1024;

// The cumulative sums of n weights; false if a weight is negative or NaN, or the sum is not finite.
template <class T>
bool cumsum_weights(const T* w, int64_t n, double* cumulative) {
  double sum = 0;
  bool valid = true;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(w[i]);
    valid &= v >= 0;
    sum += v;
    cumulative[i] = sum;
  }
  return valid && std::isfinite(sum);
}

// The first of n cumulative sums that is above v; the last one is. Branchless, since the branch is unpredictable.
int64_t first_above(const double* cumulative, int64_t n, double v) {
  const double* base = cumulative;
  while (n > 1) {
    const int64_t half = n / 2;
    base += static_cast<int64_t>(base[half - 1] <= v) * half;
    n -= half;
  }
  return base - cumulative;
}

double largest_below(double sum) { return std::nextafter(sum, 0.0); }

// Samples k indices of one row, in pieces; false if weights are invalid.
template <class T>
bool sample_long_row(const T* w, int64_t n, const double* u, int64_t k, double* cumulative, int64_t* out) {
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::atomic<bool> valid{true};
  slices(pieces, [&](int64_t p) {
    const int64_t i = p * kPiece;
    if (!cumsum_weights(w + i, std::min(kPiece, n - i), cumulative + i)) valid = false;
  });
  std::vector<double> piece_ends(static_cast<size_t>(pieces));
  double total = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    total += cumulative[std::min(n, (p + 1) * kPiece) - 1];
    piece_ends[static_cast<size_t>(p)] = total;
  }
  if (!valid || !(total > 0) || !std::isfinite(total)) return false;
  ranges(k, kGrain / 4, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const double v = std::min(u[i] * total, largest_below(total));
      const int64_t p = first_above(piece_ends.data(), pieces, v), from = p * kPiece, size = std::min(kPiece, n - from);
      const double remaining = p ? v - piece_ends[static_cast<size_t>(p) - 1] : v;
      out[i] = from + first_above(cumulative + from, size, std::min(remaining, largest_below(cumulative[from + size - 1])));
    }
  });
  return true;
}

template <class T>
bool sample_rows(const T* w, int64_t rows, int64_t n, const double* u, int64_t k, double* cumulative, int64_t* out) {
  if (n > kPiece) {
    for (int64_t r = 0; r < rows; ++r) {
      if (!sample_long_row(w + r * n, n, u + r * k, k, cumulative, out + r * k)) return false;
    }
    return true;
  }
  if (rows == 1) return sample_long_row(w, n, u, k, cumulative, out);
  std::atomic<bool> valid{true};
  ranges(rows, 1 + kGrain / (n + 16 * k), [&](int64_t r, int64_t stop) {
    std::vector<double> piece_ends(static_cast<size_t>(n));
    for (; r < stop; ++r) {
      const double* cumulative_row = piece_ends.data();
      const bool row_valid = cumsum_weights(w + r * n, n, piece_ends.data());
      const double total = cumulative_row[n - 1];
      if (!row_valid || !(total > 0)) {
        valid = false;
        return;
      }
      for (int64_t i = r * k; i < (r + 1) * k; ++i)
        out[i] = first_above(cumulative_row, n, std::min(u[i] * total, largest_below(total)));
    }
  });
  return valid;
}

// Replaces uniform numbers by exponential times; false if weights are invalid, or fewer than k are positive.
template <class T>
bool exponential_times(const T* w, int64_t rows, int64_t n, double* u, int64_t k) {
  const int64_t pieces = (n + kGrain - 1) / kGrain;
  std::vector<int64_t> positive_counts(static_cast<size_t>(rows * pieces));
  std::atomic<bool> valid{true};
  ranges(rows * pieces, 1 + kGrain / 4 / n, [&](int64_t s, int64_t stop) {
    for (; s < stop; ++s) {
      const int64_t r = s / pieces, i = s % pieces * kGrain, m = std::min(kGrain, n - i);
      const T* from = w + r * n + i;
      double* to = u + r * n + i;
      bool row_valid = true;
      int64_t count = 0;
      for (int64_t j = 0; j < m; ++j) {
        const double v = static_cast<double>(from[j]);
        row_valid &= v >= 0 && v < std::numeric_limits<double>::infinity();
        count += v > 0;
        to[j] = v > 0 ? -std::log(1 - to[j]) / v : std::numeric_limits<double>::infinity();
      }
      positive_counts[static_cast<size_t>(s)] = count;
      if (!row_valid) valid = false;
    }
  });
  for (int64_t r = 0; valid && r < rows; ++r) {
    int64_t count = 0;
    for (int64_t p = 0; p < pieces; ++p) count += positive_counts[static_cast<size_t>(r * pieces + p)];
    if (count < k) return false;
  }
  return valid;
}

// Contiguous rows of weights, float32 or float64, and their uniform numbers.
struct Arguments {
  Ref weights;
  PyArrayObject* u = nullptr;
  int64_t rows = 0, n = 0, k = 0;
};

Prepared parse_arguments(PyObject* weights, PyObject* u, Arguments* a) {
  if (!PyArray_CheckExact(weights) || !PyArray_CheckExact(u)) return Prepared::NoKernel;
  PyArrayObject *w = as_array(weights), *numbers = as_array(u);
  const int type = PyArray_TYPE(w);
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_NDIM(w) != 2 || PyArray_NDIM(numbers) != 2 ||
      PyArray_TYPE(numbers) != NPY_DOUBLE || !PyArray_ISCARRAY(numbers) || PyArray_SIZE(w) == 0 ||
      PyArray_DIM(w, 0) != PyArray_DIM(numbers, 0) || PyArray_DIM(numbers, 1) == 0)
    return Prepared::NoKernel;
  a->weights = contiguous(w);
  if (!a->weights) return Prepared::Error;
  a->u = numbers;
  a->rows = PyArray_DIM(w, 0);
  a->n = PyArray_DIM(w, 1);
  a->k = PyArray_DIM(numbers, 1);
  return Prepared::Ready;
}

}  // namespace

PyObject* multinomial(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("multinomial", n, 2)) return nullptr;
  Arguments a;
  const Prepared ready = parse_arguments(args[0], args[1], &a);
  if (ready == Prepared::Error) return nullptr;
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  const npy_intp size = a.n > kPiece || a.rows == 1 ? a.n : 0;
  Ref cumulative(new_array(1, &size, NPY_DOUBLE)), out(new_array(2, PyArray_DIMS(a.u), NPY_INT64));
  if (!cumulative || !out) return nullptr;
  bool valid;
  {
    Unlocked unlocked(a.rows * (a.n + a.k) > kUnlock);
    const auto sample = [&](auto zero) {
      return sample_rows(data<decltype(zero)>(a.weights), a.rows, a.n, data<double>(a.u), a.k, data<double>(cumulative),
                         data<int64_t>(out));
    };
    valid = PyArray_TYPE(a.weights.array()) == NPY_FLOAT ? sample(float()) : sample(double());
  }
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

PyObject* multinomial_without_replacement(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("multinomial_without_replacement", n, 3)) return nullptr;
  const Py_ssize_t k = PyLong_AsSsize_t(args[2]);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  Arguments a;
  const Prepared ready = parse_arguments(args[0], args[1], &a);
  if (ready == Prepared::Error) return nullptr;
  if (ready == Prepared::NoKernel || a.k != a.n) Py_RETURN_FALSE;
  bool valid;
  {
    Unlocked unlocked(a.rows * a.n > kUnlock);
    const auto compute_times = [&](auto zero) {
      return exponential_times(data<decltype(zero)>(a.weights), a.rows, a.n, data<double>(a.u), k);
    };
    valid = PyArray_TYPE(a.weights.array()) == NPY_FLOAT ? compute_times(float()) : compute_times(double());
  }
  return PyBool_FromLong(valid);
}

}  // namespace shmtensor
