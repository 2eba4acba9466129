// Parses arguments, handles dtypes and runs the fused elementwise kernels in slices.
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "half/half.h"
#include "kernels/arguments.h"
#include "kernels/pointwise/incoming_gradient.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kMemoryBoundGrain = 16384;  // elements per slice of memory-bound kernels
constexpr int64_t kComputeBoundGrain = 8192;    // and of kernels with exp
constexpr int64_t kUnlock = 8192;

template <class T>
using Unary = void (*)(const T*, T*, int64_t);
template <class T>
using Binary = void (*)(const T*, const T*, T*, int64_t);

template <class T>
void run(Unary<T> f, const Ref& x, const Ref& out, int64_t grain) {
  const T* from = data<T>(x);
  T* to = data<T>(out);
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, grain, [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start); });
}

template <class T>
void run(Binary<T> f, const IncomingGradient& g, const Ref& y, const Ref& out, int64_t grain) {
  const T* b = data<T>(y);
  T* to = data<T>(out);
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  g.ranges<T>(n, grain, [&](const T* a, int64_t start, int64_t stop) { f(a, b + start, to + start, stop - start); });
}

// Contiguous 16-bit floats, cast to float32 and rounded in the first-level cache; of a unary kernel y is null.
template <class F>
PyObject* run_halves(F f, PyArrayObject* x, PyArrayObject* y, int64_t grain) {
  constexpr int64_t kTile = 2048;
  const int type = PyArray_TYPE(x), format = type != NPY_HALF;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const auto *a = data<uint16_t>(x), *b = y ? data<uint16_t>(y) : nullptr;
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, grain, [&](int64_t at, int64_t stop) {
    float tiles[3][kTile];
    for (; at < stop; at += kTile) {
      const int64_t count = stop - at < kTile ? stop - at : kTile;
      half_kernels().widen[format](a + at, tiles[0], count);
      if constexpr (std::is_same<F, Binary<float>>::value) {
        half_kernels().widen[format](b + at, tiles[1], count);
        f(tiles[0], tiles[1], tiles[2], count);
      } else {
        f(tiles[0], tiles[2], count);
      }
      half_kernels().narrow[format](tiles[2], to + at, count);
    }
  });
  return out.release();
}

PyObject* unary(const char* where, PyObject* argument, Unary<float> f, Unary<double> d, int64_t grain) {
  PyArrayObject* x = array_argument(where, "input", argument);
  if (x && is_half(PyArray_TYPE(x)) && PyArray_ISCARRAY_RO(x)) return run_halves(f, x, nullptr, grain);
  Floating type;
  if (!x || !floating(where, x, &type)) return nullptr;
  const DenseView view = dense_view(x);
  Ref in = view.array ? contiguous_as(view.array.array(), type.compute) : Ref();
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(in.array()), type.compute) : nullptr);
  if (!out) return nullptr;
  if (type.compute == NPY_FLOAT) {
    run(f, in, out, grain);
  } else {
    run(d, in, out, grain);
  }
  return view.restore(Ref(finish(std::move(out), type))).release();
}

// g and y of one shape; the result has g's dtype.
PyObject* binary(const char* where, PyObject* first, PyObject* second, Binary<float> f, Binary<double> d, int64_t grain) {
  PyArrayObject* g = array_argument(where, "g", first);
  PyArrayObject* y = g ? array_argument(where, "input", second) : nullptr;
  if (y && is_half(PyArray_TYPE(g)) && PyArray_TYPE(g) == PyArray_TYPE(y) && PyArray_ISCARRAY_RO(g) &&
      PyArray_ISCARRAY_RO(y) && PyArray_SAMESHAPE(g, y)) {
    return run_halves(f, g, y, grain);
  }
  Floating type;
  if (!y || !floating(where, g, &type) || !same_shape(where, "g", g, "input", y)) return nullptr;
  IncomingGradient a;
  Ref b = a.read(g, type.compute) ? contiguous_as(y, type.compute) : Ref();
  Ref out(b ? new_array(PyArray_NDIM(g), PyArray_DIMS(g), type.compute) : nullptr);
  if (!out) return nullptr;
  if (type.compute == NPY_FLOAT) {
    run(f, a, b, out, grain);
  } else {
    run(d, a, b, out, grain);
  }
  return finish(std::move(out), type);
}

}  // namespace

PyObject* relu(PyObject*, PyObject* x) {
  return unary("relu", x, kernels<float>().relu, kernels<double>().relu, kMemoryBoundGrain);
}

PyObject* sigmoid(PyObject*, PyObject* x) {
  return unary("sigmoid", x, kernels<float>().sigmoid, kernels<double>().sigmoid, kComputeBoundGrain);
}

PyObject* gelu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("gelu", n, 1, 2)) return nullptr;
  int tanh = n > 1 ? PyObject_IsTrue(args[1]) : 0;
  if (tanh < 0) return nullptr;
  return tanh ? unary("gelu", args[0], kernels<float>().gelu_tanh, kernels<double>().gelu_tanh, kComputeBoundGrain)
              : unary("gelu", args[0], kernels<float>().gelu, kernels<double>().gelu, kComputeBoundGrain);
}

PyObject* relu_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("relu_backward", n, 2)) return nullptr;
  return binary("relu_backward", args[0], args[1], kernels<float>().relu_backward, kernels<double>().relu_backward,
                kMemoryBoundGrain);
}

PyObject* sigmoid_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sigmoid_backward", n, 2)) return nullptr;
  return binary("sigmoid_backward", args[0], args[1], kernels<float>().sigmoid_backward, kernels<double>().sigmoid_backward,
                kMemoryBoundGrain);
}

PyObject* tanh_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("tanh_backward", n, 2)) return nullptr;
  return binary("tanh_backward", args[0], args[1], kernels<float>().tanh_backward, kernels<double>().tanh_backward,
                kMemoryBoundGrain);
}

PyObject* gelu_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("gelu_backward", n, 2, 3)) return nullptr;
  int tanh = n > 2 ? PyObject_IsTrue(args[2]) : 0;
  if (tanh < 0) return nullptr;
  return tanh ? binary("gelu_backward", args[0], args[1], kernels<float>().gelu_tanh_backward,
                       kernels<double>().gelu_tanh_backward, kComputeBoundGrain)
              : binary("gelu_backward", args[0], args[1], kernels<float>().gelu_backward, kernels<double>().gelu_backward,
                       kComputeBoundGrain);
}

namespace {

template <class T>
void run_dropout(const Ref& x, const Ref& out, const Ref& mask, double p, uint64_t seed, uint64_t offset) {
  const T* from = data<T>(x);
  T* to = data<T>(out);
  auto* mask_data = data<uint8_t>(mask);
  const double scaled_p = std::ldexp(p, 32);
  const auto threshold = static_cast<uint32_t>(scaled_p < 4294967295.0 ? scaled_p : 4294967295.0);
  const T scale = static_cast<T>(1 / (1 - p));
  const auto kernel = kernels<T>().dropout;
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kComputeBoundGrain, [&](int64_t start, int64_t stop) {
    kernel(from + start, to + start, mask_data + start, stop - start, scale, threshold, seed,
           offset + static_cast<uint64_t>(start / 4));
  });
}

}  // namespace

PyObject* dropout(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("dropout", n, 4)) return nullptr;
  PyArrayObject* x = array_argument("dropout", "input", args[0]);
  if (!x) return nullptr;
  const double p = PyFloat_AsDouble(args[1]);
  if (p == -1 && PyErr_Occurred()) return nullptr;
  if (!(p >= 0 && p <= 1)) return raise("RuntimeError", "dropout: p is not a probability: %g", p);
  const uint64_t seed = PyLong_AsUnsignedLongLongMask(args[2]), offset = PyLong_AsUnsignedLongLongMask(args[3]);
  Floating type;
  if (PyErr_Occurred() || !floating("dropout", x, &type)) return nullptr;
  Ref in = contiguous_as(x, type.compute);
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type.compute) : nullptr);
  Ref mask(out ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), NPY_BOOL) : nullptr);
  if (!mask) return nullptr;
  if (p == 1) {  // all elements are dropped; 1 / (1 - p) is undefined
    memset(PyArray_DATA(out.array()), 0, static_cast<size_t>(PyArray_NBYTES(out.array())));
    memset(PyArray_DATA(mask.array()), 0, static_cast<size_t>(PyArray_NBYTES(mask.array())));
  } else if (type.compute == NPY_FLOAT) {
    run_dropout<float>(in, out, mask, p, seed, offset);
  } else {
    run_dropout<double>(in, out, mask, p, seed, offset);
  }
  Ref result(finish(std::move(out), type));
  return result ? PyTuple_Pack(2, result.get(), mask.get()) : nullptr;
}

}  // namespace shmtensor
