// Indices drawn with the weights of rows. With replacement: a uniform number times the row's sum is sought among
// its running sums. Without: element i waits an exponential time over its weight, and the first k are drawn
// (Efraimidis and Spirakis: Weighted random sampling with a reservoir, 2006); here are the times.
//
// Running sums are formed one after the other, so that an element of weight 0 adds nothing and is never found. A
// long row is cut into pieces, each with sums of its own; first the piece is sought, then the place in it.
#include "kernels/random/multinomial.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements with running sums of their own
constexpr int64_t kGrain = 16384;  // elements of a slice
constexpr int64_t kUnlock = 1024;

// The running sums of n weights; false: one is negative or no number, or the sum is not finite.
template <class T>
bool add_up(const T* w, int64_t n, double* ends) {
  double sum = 0;
  bool usual = true;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(w[i]);
    usual &= v >= 0;
    sum += v;
    ends[i] = sum;
  }
  return usual && std::isfinite(sum);
}

// The first of n ends that is above v; the last one is. No branch: nobody can foresee which way.
int64_t seek(const double* ends, int64_t n, double v) {
  const double* base = ends;
  while (n > 1) {
    const int64_t half = n / 2;
    base += static_cast<int64_t>(base[half - 1] <= v) * half;
    n -= half;
  }
  return base - ends;
}

double below(double sum) { return std::nextafter(sum, 0.0); }

// k places of one row in pieces; false: weights are wrong.
template <class T>
bool draw_long(const T* w, int64_t n, const double* u, int64_t k, double* ends, int64_t* out) {
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::atomic<bool> usual{true};
  slices(pieces, [&](int64_t p) {
    const int64_t i = p * kPiece;
    if (!add_up(w + i, std::min(kPiece, n - i), ends + i)) usual = false;
  });
  std::vector<double> sums(static_cast<size_t>(pieces));
  double total = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    total += ends[std::min(n, (p + 1) * kPiece) - 1];
    sums[static_cast<size_t>(p)] = total;
  }
  if (!usual || !(total > 0) || !std::isfinite(total)) return false;
  ranges(k, kGrain / 4, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const double v = std::min(u[i] * total, below(total));
      const int64_t p = seek(sums.data(), pieces, v), from = p * kPiece, size = std::min(kPiece, n - from);
      const double rest = p ? v - sums[static_cast<size_t>(p) - 1] : v;
      out[i] = from + seek(ends + from, size, std::min(rest, below(ends[from + size - 1])));
    }
  });
  return true;
}

template <class T>
bool draw_rows(const T* w, int64_t rows, int64_t n, const double* u, int64_t k, double* ends, int64_t* out) {
  if (n > kPiece) {
    for (int64_t r = 0; r < rows; ++r) {
      if (!draw_long(w + r * n, n, u + r * k, k, ends, out + r * k)) return false;
    }
    return true;
  }
  if (rows == 1) return draw_long(w, n, u, k, ends, out);
  std::atomic<bool> usual{true};
  ranges(rows, 1 + kGrain / (n + 16 * k), [&](int64_t r, int64_t stop) {
    std::vector<double> sums(static_cast<size_t>(n));
    for (; r < stop; ++r) {
      const double* found = sums.data();
      const bool fine = add_up(w + r * n, n, sums.data());
      const double total = found[n - 1];
      if (!fine || !(total > 0)) {
        usual = false;
        return;
      }
      for (int64_t i = r * k; i < (r + 1) * k; ++i) out[i] = seek(found, n, std::min(u[i] * total, below(total)));
    }
  });
  return usual;
}

// Uniform numbers become waiting times; false: weights are wrong, or fewer than k above 0.
template <class T>
bool wait_rows(const T* w, int64_t rows, int64_t n, double* u, int64_t k) {
  const int64_t pieces = (n + kGrain - 1) / kGrain;
  std::vector<int64_t> above(static_cast<size_t>(rows * pieces));
  std::atomic<bool> usual{true};
  ranges(rows * pieces, 1 + kGrain / 4 / n, [&](int64_t s, int64_t stop) {
    for (; s < stop; ++s) {
      const int64_t r = s / pieces, i = s % pieces * kGrain, m = std::min(kGrain, n - i);
      const T* from = w + r * n + i;
      double* to = u + r * n + i;
      bool fine = true;
      int64_t count = 0;
      for (int64_t j = 0; j < m; ++j) {
        const double v = static_cast<double>(from[j]);
        fine &= v >= 0 && v < std::numeric_limits<double>::infinity();
        count += v > 0;
        to[j] = v > 0 ? -std::log(1 - to[j]) / v : std::numeric_limits<double>::infinity();
      }
      above[static_cast<size_t>(s)] = count;
      if (!fine) usual = false;
    }
  });
  for (int64_t r = 0; usual && r < rows; ++r) {
    int64_t count = 0;
    for (int64_t p = 0; p < pieces; ++p) count += above[static_cast<size_t>(r * pieces + p)];
    if (count < k) return false;
  }
  return usual;
}

// Rows of weights in order, float32 or float64, and uniform numbers for them.
struct Asked {
  Ref weights;
  PyArrayObject* u = nullptr;
  int64_t rows = 0, n = 0, k = 0;
};

// 1: ready; 0: not the simple case; -1: exception.
int prepare(PyObject* weights, PyObject* u, Asked* a) {
  if (!PyArray_CheckExact(weights) || !PyArray_CheckExact(u)) return 0;
  PyArrayObject *w = as_array(weights), *numbers = as_array(u);
  const int type = PyArray_TYPE(w);
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_NDIM(w) != 2 || PyArray_NDIM(numbers) != 2 ||
      PyArray_TYPE(numbers) != NPY_DOUBLE || !PyArray_ISCARRAY(numbers) || PyArray_SIZE(w) == 0 ||
      PyArray_DIM(w, 0) != PyArray_DIM(numbers, 0) || PyArray_DIM(numbers, 1) == 0)
    return 0;
  a->weights = in_order(w);
  if (!a->weights) return -1;
  a->u = numbers;
  a->rows = PyArray_DIM(w, 0);
  a->n = PyArray_DIM(w, 1);
  a->k = PyArray_DIM(numbers, 1);
  return 1;
}

}  // namespace

PyObject* multinomial(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("multinomial", n, 2, 2) < 0) return nullptr;
  Asked a;
  const int ready = prepare(args[0], args[1], &a);
  if (ready < 0) return nullptr;
  if (ready == 0) Py_RETURN_NONE;
  const npy_intp size = a.n > kPiece || a.rows == 1 ? a.n : 0;
  Ref ends(fresh(1, &size, NPY_DOUBLE)), out(fresh(2, PyArray_DIMS(a.u), NPY_INT64));
  if (!ends || !out) return nullptr;
  bool done;
  {
    Unlocked unlocked(a.rows * (a.n + a.k) > kUnlock);
    const auto draw = [&](auto zero) {
      return draw_rows(data<decltype(zero)>(a.weights), a.rows, a.n, data<double>(a.u), a.k, data<double>(ends),
                       data<int64_t>(out));
    };
    done = PyArray_TYPE(a.weights.array()) == NPY_FLOAT ? draw(float()) : draw(double());
  }
  if (!done) Py_RETURN_NONE;
  return out.release();
}

PyObject* multinomial_without_replacement(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("multinomial_without_replacement", n, 3, 3) < 0) return nullptr;
  const Py_ssize_t k = PyLong_AsSsize_t(args[2]);
  if (k == -1 && PyErr_Occurred()) return nullptr;
  Asked a;
  const int ready = prepare(args[0], args[1], &a);
  if (ready < 0) return nullptr;
  if (ready == 0 || a.k != a.n) Py_RETURN_FALSE;
  bool done;
  {
    Unlocked unlocked(a.rows * a.n > kUnlock);
    const auto wait = [&](auto zero) {
      return wait_rows(data<decltype(zero)>(a.weights), a.rows, a.n, data<double>(a.u), k);
    };
    done = PyArray_TYPE(a.weights.array()) == NPY_FLOAT ? wait(float()) : wait(double());
  }
  return PyBool_FromLong(done);
}

}  // namespace shmtensor
