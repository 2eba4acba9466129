// Statistics in double, elements in their own type. Pieces depend on the shape alone; sums over
// pieces are added in their order.
#include "kernels/nn/layer_norm.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows of m elements; the weight of an element is number (place / segment) % weights.
struct Rows {
  int64_t rows = 1, m = 1, segment = 1, weights = 1;
};

bool rows_of(PyArrayObject* x, long n, long groups, Rows* r) {
  const int nd = PyArray_NDIM(x);
  if (groups > 0) {
    if (nd < 2 || PyArray_DIM(x, 1) % groups) return false;
    r->weights = PyArray_DIM(x, 1);
    r->rows = PyArray_DIM(x, 0) * groups;
    for (int i = 2; i < nd; ++i) r->segment *= PyArray_DIM(x, i);
    r->m = r->weights / groups * r->segment;
  } else {
    if (n < 1 || n > nd) return false;
    for (int i = 0; i < nd; ++i) (i < nd - n ? r->rows : r->m) *= PyArray_DIM(x, i);
    r->weights = r->m;
  }
  return r->rows > 0 && r->m > 0;
}

template <class T>
void forward(const Rows& r, const T* x, const T* w, const T* b, T* out, T* means, T* scales,
             double eps, bool centred) {
  const Layers<T>& k = layers<T>();
  const double n = static_cast<double>(r.m);
  ranges(r.rows, 1 + kPiece / r.m, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const T* row = x + i * r.m;
      T* to = out + i * r.m;
      const T mean = centred ? static_cast<T>(k.total(row, r.m) / n) : T(0);
      const T scale = static_cast<T>(1 / std::sqrt(k.squared(row, r.m, mean) / n + eps));
      means[i] = mean;
      scales[i] = scale;
      if (r.weights == r.m && r.segment == 1) {
        k.norm(row, w, b, to, r.m, mean, scale);
        continue;
      }
      int64_t c = i * r.m / r.segment % r.weights;
      for (int64_t at = 0; at < r.m; at += r.segment, ++c)
        k.affine(row + at, to + at, r.segment, mean, w ? scale * w[c] : scale, b ? b[c] : T(0));
    }
  });
}

template <class T>
void backward(const Rows& r, const T* g, const T* x, const T* w, const T* means, const T* scales,
              T* gx, T* gw, T* gb, bool centred) {
  const Layers<T>& k = layers<T>();
  int64_t pieces = r.rows * r.m / kPiece;
  pieces = pieces < 1 ? 1 : pieces > 16 ? 16 : pieces;
  pieces = least(pieces, r.rows);
  const int64_t grain = (r.rows + pieces - 1) / pieces;
  std::vector<T> parts(static_cast<size_t>(2 * pieces * r.weights), T(0));
  const double n = static_cast<double>(r.m);
  slices(pieces, [&](int64_t piece) {
    T* pw = parts.data() + 2 * piece * r.weights;
    T* pb = pw + r.weights;
    const int64_t stop = least(r.rows, (piece + 1) * grain);
    for (int64_t i = piece * grain; i < stop; ++i) {
      const T *gr = g + i * r.m, *xr = x + i * r.m, mean = means[i], scale = scales[i];
      double sums[2] = {0, 0};
      const bool plain = r.segment == 1 && r.weights == r.m;
      const int64_t first = i * r.m / r.segment % r.weights;
      if (plain) {
        k.dots(gr, xr, w, r.m, mean, sums);
        k.norm_weights(gr, xr, pw, pb, r.m, mean, scale);
      } else {
        int64_t c = first;
        for (int64_t at = 0; at < r.m; at += r.segment, ++c) {
          double part[2];
          k.dots(gr + at, xr + at, nullptr, r.segment, mean, part);
          const double weight = w ? static_cast<double>(w[c]) : 1;
          sums[0] += weight * part[0];
          sums[1] += weight * part[1];
          pw[c] += static_cast<T>(part[1]) * scale;
          pb[c] += static_cast<T>(part[0]);
        }
      }
      const double s = static_cast<double>(scale);
      const T a = centred ? static_cast<T>(s * sums[0] / n) : T(0);
      const T q = static_cast<T>(s * s * s * sums[1] / n);
      T* to = gx + i * r.m;
      if (plain) {
        k.norm_slope(gr, xr, w, to, r.m, mean, scale, a, q);
        continue;
      }
      int64_t c = first;
      for (int64_t at = 0; at < r.m; at += r.segment, ++c)
        k.norm_slope(gr + at, xr + at, nullptr, to + at, r.segment, mean, w ? scale * w[c] : scale,
                     a, q);
    }
  });
  for (int64_t c = 0; c < r.weights; ++c) {
    gw[c] = parts[static_cast<size_t>(c)];
    gb[c] = parts[static_cast<size_t>(r.weights + c)];
  }
  for (int64_t p = 1; p < pieces; ++p) {
    const T* part = parts.data() + 2 * p * r.weights;
    for (int64_t c = 0; c < r.weights; ++c) {
      gw[c] += part[c];
      gb[c] += part[r.weights + c];
    }
  }
}

}  // namespace

PyObject* layer_norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("norm", n, 7, 7) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  long last, groups;
  Rows r;
  LayerOperand in, w, b;
  if (!x || !number(args[3], &last) || !number(args[4], &groups) || !rows_of(x, last, groups, &r))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[5]);
  if (eps == -1 && PyErr_Occurred()) return left_to_caller();
  if (!in.read(args[0], type, PyArray_SIZE(x)) || !optional(&w, args[1], type, r.weights) ||
      !optional(&b, args[2], type, r.weights))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp rows = r.rows;
  Ref out(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref mean(fresh(1, &rows, type)), rstd(fresh(1, &rows, type));
  if (!out || !mean || !rstd) return nullptr;
  const bool centred = args[6] == Py_True;
  {
    Unlocked unlocked(r.rows * r.m > kUnlock);
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      forward(r, in.as<T>(), w.as<T>(), b.as<T>(), data<T>(out), data<T>(mean), data<T>(rstd), eps,
              centred);
    };
    type == NPY_FLOAT ? go(float()) : go(double());
  }
  return three(std::move(out), std::move(mean), std::move(rstd));
}

PyObject* layer_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("norm_slope", n, 8, 8) < 0) return nullptr;
  PyArrayObject* x = real(args[1]);
  long last, groups;
  Rows r;
  LayerOperand g, in, w, mean, rstd;
  if (!x || !number(args[5], &last) || !number(args[6], &groups) || !rows_of(x, last, groups, &r))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  if (!g.read(args[0], type, PyArray_SIZE(x)) || !in.read(args[1], type, PyArray_SIZE(x)) ||
      !optional(&w, args[2], type, r.weights) || !mean.read(args[3], type, r.rows) ||
      !rstd.read(args[4], type, r.rows))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp weights = r.weights;
  Ref gx(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref gw(fresh(1, &weights, type)), gb(fresh(1, &weights, type));
  if (!gx || !gw || !gb) return nullptr;
  const bool centred = args[7] == Py_True;
  {
    Unlocked unlocked(r.rows * r.m > kUnlock);
    const auto go = [&](auto zero) {
      using T = decltype(zero);
      backward(r, g.as<T>(), in.as<T>(), w.as<T>(), mean.as<T>(), rstd.as<T>(), data<T>(gx),
               data<T>(gw), data<T>(gb), centred);
    };
    type == NPY_FLOAT ? go(float()) : go(double());
  }
  return three(std::move(gx), std::move(gw), std::move(gb));
}

}  // namespace shmtensor
