// The cosines of pairs of rows, and their gradients by both rows. The passes over a row are those of layer_norm.
//
// A square of a float32 above 2e19 overflows, and one below 1e-19 is subnormal: where a norm is not in kSmallest to
// kLargest, a row is computed again in long double, element by element.
#include <cmath>
#include <limits>

#include "kernels/arguments.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;

// The norms whose squares, and the products of two of them, are normal numbers of T with some bits to spare.
template <class T>
bool is_moderate(double norm) {
  const int exponent = std::numeric_limits<T>::max_exponent / 2 - 8;
  return norm > std::ldexp(1.0, -exponent) && norm < std::ldexp(1.0, exponent);
}

// What x is divided by.
long double divisor(long double squares, double eps, bool is_added) {
  if (is_added) return std::sqrt(squares + static_cast<long double>(eps));
  const long double norm = std::sqrt(squares);
  return norm < static_cast<long double>(eps) ? static_cast<long double>(eps) : norm;
}

template <class T>
void forward_row(const T* x, const T* y, int64_t m, double eps, bool is_added, T* out, T* x_norm, T* y_norm) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  double sums[2];
  kernels_.dots(x, y, nullptr, m, T(0), sums);
  const double xx = kernels_.sum_of_squared_deviations(x, m, T(0)), yy = kernels_.sum_of_squared_deviations(y, m, T(0));
  long double product = static_cast<long double>(sums[1]), x_squares = static_cast<long double>(xx),
              y_squares = static_cast<long double>(yy);
  if (!is_moderate<T>(std::sqrt(xx)) || !is_moderate<T>(std::sqrt(yy))) {
    product = x_squares = y_squares = 0;
    for (int64_t i = 0; i < m; ++i) {
      const long double v = static_cast<long double>(x[i]), w = static_cast<long double>(y[i]);
      product += v * w;
      x_squares += v * v;
      y_squares += w * w;
    }
  }
  const long double n = divisor(x_squares, eps, is_added), o = divisor(y_squares, eps, is_added);
  *out = static_cast<T>(product / n / o);
  *x_norm = static_cast<T>(n);
  *y_norm = static_cast<T>(o);
}

// gx = g (y / |y| - cosine x / |x|) / |x|, and the same with x and y exchanged for gy; `cosine` is 0 where |x| is eps,
// which does not depend on x.
template <class T>
void backward_row(T g, const T* x, const T* y, int64_t m, double cosine, double x_norm, double y_norm, T* gx) {
  if (is_moderate<T>(x_norm) && is_moderate<T>(y_norm)) {
    const double scale = static_cast<double>(g) / x_norm;
    return nn_kernels<T>().norm_backward(y, x, nullptr, gx, m, T(0), static_cast<T>(scale / y_norm), T(0),
                                         static_cast<T>(scale * cosine / x_norm));
  }
  for (int64_t i = 0; i < m; ++i) {
    const long double u = static_cast<long double>(x[i]) / static_cast<long double>(x_norm);
    const long double v = static_cast<long double>(y[i]) / static_cast<long double>(y_norm);
    gx[i] = static_cast<T>(static_cast<long double>(g) * (v - static_cast<long double>(cosine) * u) /
                           static_cast<long double>(x_norm));
  }
}

bool is_same_shape(PyArrayObject* x, PyObject* y) {
  if (!PyArray_CheckExact(y) || PyArray_NDIM(as_array(y)) != PyArray_NDIM(x)) return false;
  return PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(as_array(y)), PyArray_NDIM(x));
}

}  // namespace

// cosine_similarity(x, y, eps, is_added): (..., M) twice -> (cosines, norms of x, norms of y), each (...)
PyObject* cosine_similarity(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cosine_similarity", n, 4)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  if (!x || PyArray_NDIM(x) < 1 || !is_same_shape(x, args[1])) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[2]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  const bool is_added = args[3] == Py_True;
  LayerOperand a, b;
  if (!a.read(args[0], type, PyArray_SIZE(x)) || !b.read(args[1], type, PyArray_SIZE(x)))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const int64_t m = PyArray_DIM(x, nd - 1), rows = PyArray_SIZE(x) / m;
  Ref out(new_array(nd - 1, PyArray_DIMS(x), type)), x_norms(new_array(nd - 1, PyArray_DIMS(x), type)),
      y_norms(new_array(nd - 1, PyArray_DIMS(x), type));
  if (!out || !x_norms || !y_norms) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    Unlocked unlocked(rows * m > kUnlock);
    ranges(rows, 1 + kPiece / m, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i)
        forward_row(a.as<T>() + i * m, b.as<T>() + i * m, m, eps, is_added, data<T>(out) + i, data<T>(x_norms) + i,
                    data<T>(y_norms) + i);
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return pack_tuple3(std::move(out), std::move(x_norms), std::move(y_norms));
}

// cosine_similarity_backward(g, x, y, cosines, norms of x, norms of y, eps, is_added) -> (gx, gy)
PyObject* cosine_similarity_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cosine_similarity_backward", n, 8)) return nullptr;
  PyArrayObject* x = real_array(args[1]);
  if (!x || PyArray_NDIM(x) < 1 || !is_same_shape(x, args[2])) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  const int64_t m = PyArray_DIM(x, nd - 1), rows = PyArray_SIZE(x) / m;
  const double eps = PyFloat_AsDouble(args[6]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  const bool is_added = args[7] == Py_True;
  LayerOperand g, a, b, cosines, x_norms, y_norms;
  if (!g.read(args[0], type, rows) || !a.read(args[1], type, rows * m) || !b.read(args[2], type, rows * m) ||
      !cosines.read(args[3], type, rows) || !x_norms.read(args[4], type, rows) || !y_norms.read(args[5], type, rows))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  Ref gx(new_array(nd, PyArray_DIMS(x), type)), gy(new_array(nd, PyArray_DIMS(x), type));
  if (!gx || !gy) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const T limit = static_cast<T>(eps);
    Unlocked unlocked(rows * m > kUnlock);
    ranges(rows, 1 + kPiece / m, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const T x_norm = x_norms.as<T>()[i], y_norm = y_norms.as<T>()[i], upstream = g.as<T>()[i];
        const double cosine = static_cast<double>(cosines.as<T>()[i]);
        const T *x_row = a.as<T>() + i * m, *y_row = b.as<T>() + i * m;
        backward_row(upstream, x_row, y_row, m, is_added || x_norm > limit ? cosine : 0, static_cast<double>(x_norm),
                     static_cast<double>(y_norm), data<T>(gx) + i * m);
        backward_row(upstream, y_row, x_row, m, is_added || y_norm > limit ? cosine : 0, static_cast<double>(y_norm),
                     static_cast<double>(x_norm), data<T>(gy) + i * m);
      }
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(2, gx.get(), gy.get());
}

}  // namespace shmtensor
