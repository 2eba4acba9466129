// Two passes over memory (mean, deviations), in pieces that depend on the shape alone and are added in order.
#include <cmath>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;
constexpr int64_t kUnlock = 8192;
constexpr int64_t kStrip = 1024;  // columns at a time
constexpr int64_t kChain = 512;   // rows added into one accumulator at most

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// Sums |x - mean|, or |x| if centered_at_zero, to the power of 1 or 2, multiplies by scale, and takes the square root
// if takes_root.
struct MomentOptions {
  int power;
  bool centered_at_zero, takes_root;
  double scale;
};

// out[r] = the sum over the row
template <class T>
void moment_rows(const T* x, T* out, int64_t rows, int64_t m, int64_t pitch, const MomentOptions& s) {
  const auto sum = kernels<T>().sum;
  const auto moment = moment_kernels<T>().rows[s.power - 1];
  const auto finish = [&](double total) {
    total *= s.scale;
    return static_cast<T>(s.takes_root ? std::sqrt(total) : total);
  };
  if (m <= kPiece) {
    const int64_t grain = m ? (kPiece + m - 1) / m : rows;
    ranges(rows, grain, [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T* row = x + r * pitch;
        const double mean = s.centered_at_zero || !m ? 0 : sum(row, m) / static_cast<double>(m);
        out[r] = finish(moment(row, m, static_cast<T>(mean)));
      }
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  const Buffer<double> buffer(pieces);
  double* partials = buffer.get();
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * pitch;
    const auto total = [&](auto&& partial) {
      slices(pieces, [&](int64_t i) { partials[i] = partial(row + i * kPiece, min(kPiece, m - i * kPiece)); });
      double sum_of_partials = 0;
      for (int64_t i = 0; i < pieces; ++i) sum_of_partials += partials[i];
      return sum_of_partials;
    };
    T mean = 0;
    if (!s.centered_at_zero) mean = static_cast<T>(total(sum) / static_cast<double>(m));
    out[r] = finish(total([&](const T* p, int64_t n) { return moment(p, n, mean); }));
  }
}

template <class T>
void moment_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, const MomentOptions& s) {
  int64_t width = min(kStrip, (inner + 7) / 8);
  const int64_t line = 128 / static_cast<int64_t>(sizeof(T));
  width = width < line ? line : width;
  const int64_t strips = (inner + width - 1) / width;
  const int64_t grain = 1 + kPiece / 2 / (width * (m ? m : 1));
  ranges(outer * strips, grain, [&](int64_t begin, int64_t end) {
    T partial[kStrip], means[kStrip];
    double totals[kStrip];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % strips * width, n = min(width, inner - c), o = i / strips;
      const T* from = x + o * m * pitch + c;
      const auto total = [&](auto&& add) {
        for (int64_t k = 0; k < n; ++k) totals[k] = 0;
        for (int64_t row = 0; row < m; row += kChain) {
          for (int64_t k = 0; k < n; ++k) partial[k] = 0;
          add(from + row * pitch, min(kChain, m - row));
          for (int64_t k = 0; k < n; ++k) totals[k] += static_cast<double>(partial[k]);
        }
      };
      for (int64_t k = 0; k < n; ++k) means[k] = 0;
      if (!s.centered_at_zero) {
        total([&](const T* p, int64_t rows) { kernels<T>().sum_columns(p, partial, rows, n, pitch); });
        for (int64_t k = 0; k < n; ++k) means[k] = static_cast<T>(totals[k] / static_cast<double>(m));
      }
      total([&](const T* p, int64_t rows) { moment_kernels<T>().columns[s.power - 1](p, means, partial, rows, n, pitch); });
      T* to = out + o * inner + c;
      for (int64_t k = 0; k < n; ++k) {
        const double v = totals[k] * s.scale;
        to[k] = static_cast<T>(s.takes_root ? std::sqrt(v) : v);
      }
    }
  });
}

PyObject* run(const char* where, PyArrayObject* x, PyObject* dim, bool keepdim, double correction, MomentOptions s) {
  const int type = PyArray_TYPE(x);
  if (type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  ReducedLayout r;
  if (!reduced_argument(where, x, dim, keepdim, &r, ExpandedDims::Once, false, true)) return fall_back();
  Ref out(new_array(r.nd, r.dims, type));
  if (!out) return nullptr;
  const double repeats = static_cast<double>(r.repeats);
  const double n = static_cast<double>(r.m) * repeats - correction;
  s.scale = s.centered_at_zero ? repeats : n > 0 ? repeats / n : 1 / 0.0;  // 0 / 0 is NaN, as in PyTorch
  if (r.outer > 0 && r.inner > 0) {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      if (r.inner == 1) {
        moment_rows(data<T>(r.x), data<T>(out), r.outer, r.m, r.pitch, s);
      } else {
        moment_columns(data<T>(r.x), data<T>(out), r.outer, r.m, r.inner, r.pitch, s);
      }
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  return r.restore(std::move(out));
}

// x += y, then the square root if takes_root. Both are dense, in the same order of axes.
template <class T>
void add_into(PyArrayObject* x, PyArrayObject* other, bool takes_root) {
  T* to = data<T>(x);
  for (npy_intp i = 0, n = PyArray_SIZE(x); i < n; ++i) {
    to[i] += data<T>(other)[i];
    if (takes_root) to[i] = std::sqrt(to[i]);
  }
}

// The variance of complex numbers: the sum of those of both parts.
PyObject* complex_var(PyObject* x, PyObject* dim, bool keepdim, double correction, bool takes_root) {
  Ref partials[2], results[2];
  for (int i = 0; i < 2; ++i) {
    partials[i] = Ref(PyObject_GetAttrString(x, i ? "imag" : "real"));
    if (!partials[i]) return nullptr;
    results[i] = Ref(run("var", partials[i].array(), dim, keepdim, correction, {2, false, false, 1}));
    if (!results[i] || results[i].get() == Py_None) return results[i].release();
  }
  PyArrayObject *out = results[0].array(), *other = results[1].array();
  PyArray_TYPE(out) == NPY_FLOAT ? add_into<float>(out, other, takes_root) : add_into<double>(out, other, takes_root);
  return results[0].release();
}

}  // namespace

// var(x, dim, correction, keepdim, root)
PyObject* var(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("var", n, 5)) return nullptr;
  PyArrayObject* x = array_argument("var", "input", args[0]);
  if (!x) return nullptr;
  const double correction = PyFloat_AsDouble(args[2]);
  if (correction == -1 && PyErr_Occurred()) return nullptr;
  const int keepdim = PyObject_IsTrue(args[3]), takes_root = PyObject_IsTrue(args[4]);
  if (keepdim < 0 || takes_root < 0) return nullptr;
  if (PyTypeNum_ISCOMPLEX(PyArray_TYPE(x))) return complex_var(args[0], args[1], keepdim != 0, correction, takes_root != 0);
  return run("var", x, args[1], keepdim != 0, correction, {2, false, takes_root != 0, 1});
}

// norm(x, dim, keepdim, power): the sum of |x|, or the square root of the sum of squares
PyObject* norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("norm", n, 4)) return nullptr;
  const bool squared = PyLong_Check(args[3]) && PyLong_AsLong(args[3]) == 2;
  PyArrayObject* x = array_argument("norm", "input", args[0]);
  const int keepdim = x ? PyObject_IsTrue(args[2]) : -1;
  if (keepdim < 0) return nullptr;
  return run("norm", x, args[1], keepdim != 0, 0, {squared ? 2 : 1, true, squared, 1});
}

}  // namespace shmtensor
