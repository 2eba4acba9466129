// Two passes over memory, in pieces that depend on the shape alone and are added in order.
#include "kernels/reduce/var.h"

#include <cmath>
#include <utility>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 1024;  // columns at a time
constexpr int64_t kChain = 512;   // rows added into one accumulator at most

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// What is summed: |x - mean| to a power of 1 or 2, of the mean or, where `about_zero`, of 0; the sums
// are scaled, and a root is taken.
struct Sums {
  int power;
  bool about_zero, root;
  double scale;
};

// out[r] = the sum over the row
template <class T>
void by_rows(const T* x, T* out, int64_t rows, int64_t m, int64_t pitch, const Sums& s) {
  const auto sum = kernels<T>().sum;
  const auto squares = moments<T>().rows[s.power - 1];
  const auto finish = [&](double total) {
    total *= s.scale;
    return static_cast<T>(s.root ? std::sqrt(total) : total);
  };
  if (m <= kPiece) {
    const int64_t grain = m ? (kPiece + m - 1) / m : rows;
    ranges(rows, grain, [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T* row = x + r * pitch;
        const double mean = s.about_zero || !m ? 0 : sum(row, m) / static_cast<double>(m);
        out[r] = finish(squares(row, m, static_cast<T>(mean)));
      }
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  auto* parts =
      static_cast<double*>(PyMem_RawMalloc(sizeof(double) * static_cast<size_t>(pieces)));
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * pitch;
    const auto total = [&](auto&& part) {
      slices(pieces, [&](int64_t i) {
        parts[i] = part(row + i * kPiece, least(kPiece, m - i * kPiece));
      });
      double all = 0;
      for (int64_t i = 0; i < pieces; ++i) all += parts[i];
      return all;
    };
    T mean = 0;
    if (!s.about_zero) mean = static_cast<T>(total(sum) / static_cast<double>(m));
    out[r] = finish(total([&](const T* p, int64_t n) { return squares(p, n, mean); }));
  }
  PyMem_RawFree(parts);
}

template <class T>
void by_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch,
                const Sums& s) {
  int64_t width = least(kStrip, (inner + 7) / 8);
  const int64_t line = 128 / static_cast<int64_t>(sizeof(T));
  width = width < line ? line : width;
  const int64_t strips = (inner + width - 1) / width;
  const int64_t grain = 1 + kPiece / 2 / (width * (m ? m : 1));
  ranges(outer * strips, grain, [&](int64_t begin, int64_t end) {
    T part[kStrip], means[kStrip];
    double totals[kStrip];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % strips * width, n = least(width, inner - c), o = i / strips;
      const T* from = x + o * m * pitch + c;
      const auto total = [&](auto&& add) {
        for (int64_t k = 0; k < n; ++k) totals[k] = 0;
        for (int64_t row = 0; row < m; row += kChain) {
          for (int64_t k = 0; k < n; ++k) part[k] = 0;
          add(from + row * pitch, least(kChain, m - row));
          for (int64_t k = 0; k < n; ++k) totals[k] += static_cast<double>(part[k]);
        }
      };
      for (int64_t k = 0; k < n; ++k) means[k] = 0;
      if (!s.about_zero) {
        total([&](const T* p, int64_t rows) {
          kernels<T>().sum_columns(p, part, rows, n, pitch);
        });
        for (int64_t k = 0; k < n; ++k)
          means[k] = static_cast<T>(totals[k] / static_cast<double>(m));
      }
      total([&](const T* p, int64_t rows) {
        moments<T>().columns[s.power - 1](p, means, part, rows, n, pitch);
      });
      T* to = out + o * inner + c;
      for (int64_t k = 0; k < n; ++k) {
        const double v = totals[k] * s.scale;
        to[k] = static_cast<T>(s.root ? std::sqrt(v) : v);
      }
    }
  });
}

PyObject* run(const char* where, PyArrayObject* x, PyObject* dim, bool keep, double correction,
              Sums s) {
  const int type = PyArray_TYPE(x);
  if (type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  Reduced r;
  if (!reduced_argument(where, x, dim, keep, &r, Stretched::Once, false, true)) return left_to_caller();
  Ref out(fresh(r.nd, r.dims, type));
  if (!out) return nullptr;
  const double times = static_cast<double>(r.times);
  const double n = static_cast<double>(r.m) * times - correction;
  s.scale = s.about_zero ? times : n > 0 ? times / n : 1 / 0.0;  // 0 / 0 is NaN, as in PyTorch
  if (r.outer > 0 && r.inner > 0) {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      if (r.inner == 1) {
        by_rows(data<T>(r.x), data<T>(out), r.outer, r.m, r.pitch, s);
      } else {
        by_columns(data<T>(r.x), data<T>(out), r.outer, r.m, r.inner, r.pitch, s);
      }
    };
    type == NPY_FLOAT ? go(float()) : go(double());
  }
  return r.put_back(std::move(out));
}

// y's numbers added to x's, and the root, if so said. Both are dense, in one order.
template <class T>
void add_to(PyArrayObject* x, PyArrayObject* y, bool root) {
  T* to = data<T>(x);
  for (npy_intp i = 0, n = PyArray_SIZE(x); i < n; ++i) {
    to[i] += data<T>(y)[i];
    if (root) to[i] = std::sqrt(to[i]);
  }
}

// Of complex numbers: of both parts, added.
PyObject* of_parts(PyObject* x, PyObject* dim, bool keep, double correction, bool root) {
  Ref parts[2], found[2];
  for (int i = 0; i < 2; ++i) {
    parts[i] = Ref(PyObject_GetAttrString(x, i ? "imag" : "real"));
    if (!parts[i]) return nullptr;
    found[i] = Ref(run("var", parts[i].array(), dim, keep, correction, {2, false, false, 1}));
    if (!found[i] || found[i].get() == Py_None) return found[i].release();
  }
  PyArrayObject *out = found[0].array(), *other = found[1].array();
  PyArray_TYPE(out) == NPY_FLOAT ? add_to<float>(out, other, root) : add_to<double>(out, other, root);
  return found[0].release();
}

}  // namespace

// var(x, dim, correction, keepdim, root)
PyObject* var(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("var", n, 5, 5) < 0) return nullptr;
  PyArrayObject* x = array_argument("var", "input", args[0]);
  if (!x) return nullptr;
  const double correction = PyFloat_AsDouble(args[2]);
  if (correction == -1 && PyErr_Occurred()) return nullptr;
  const int keep = PyObject_IsTrue(args[3]), root = PyObject_IsTrue(args[4]);
  if (keep < 0 || root < 0) return nullptr;
  if (PyTypeNum_ISCOMPLEX(PyArray_TYPE(x)))
    return of_parts(args[0], args[1], keep != 0, correction, root != 0);
  return run("var", x, args[1], keep != 0, correction, {2, false, root != 0, 1});
}

// norm(x, dim, keepdim, power): the sum of |x|, or the square root of the sum of squares
PyObject* norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("norm", n, 4, 4) < 0) return nullptr;
  const bool squared = PyLong_Check(args[3]) && PyLong_AsLong(args[3]) == 2;
  PyArrayObject* x = array_argument("norm", "input", args[0]);
  const int keep = x ? PyObject_IsTrue(args[2]) : -1;
  if (keep < 0) return nullptr;
  return run("norm", x, args[1], keep != 0, 0, {squared ? 2 : 1, true, squared, 1});
}

}  // namespace shmtensor
