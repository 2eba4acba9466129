// Arguments and slices of the activations that silu_elu_shrink.h computes.
#include "kernels/pointwise/silu_elu_shrink.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "half/half.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 8192;  // elements per slice
constexpr int64_t kSome = 2048;   // elements that stay in the first-level cache
constexpr int64_t kUnlock = 8192;

template <class T>
void run(Curve which, const Ref& x, const Ref& out, const double* numbers) {
  const T p[3] = {static_cast<T>(numbers[0]), static_cast<T>(numbers[1]),
                  static_cast<T>(numbers[2])};
  const T* from = data<T>(x);
  T* to = data<T>(out);
  const auto f = kernels<T>().curves[which];
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain,
         [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
}

// Of 16-bit floats in C order; None: they are not so, or the curve has no kernel of them.
PyObject* drawn_halves(Curve which, PyArrayObject* x, const double* numbers) {
  const int type = PyArray_TYPE(x);
  const auto f = kernels_of_halves().arithmetic[type != NPY_HALF].unary[which];
  if (!f || !PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  Ref out(fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const float p[3] = {static_cast<float>(numbers[0]), static_cast<float>(numbers[1]),
                      static_cast<float>(numbers[2])};
  const auto* from = data<uint16_t>(x);
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, 8 * kGrain,
         [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
  return out.release();
}

// The result for real floating-point arrays; None for all others.
PyObject* drawn(const char* where, Curve which, PyObject* argument, const double* numbers) {
  if (is_half_array(argument)) {
    PyObject* out = drawn_halves(which, as_array(argument), numbers);
    if (out != Py_None || PyArray_TYPE(as_array(argument)) != NPY_HALF) return out;
    Py_DECREF(out);
  }
  if (!PyArray_CheckExact(argument) || PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(argument))) ||
      PyArray_TYPE(as_array(argument)) == NPY_BOOL)
    Py_RETURN_NONE;
  PyArrayObject* x = as_array(argument);
  Floating type;
  if (!floating(where, x, &type)) return left_to_caller();
  const Turned view = turned(x);
  Ref in = view.array ? contiguous_as(view.array.array(), type.compute) : Ref();
  Ref out(in ? fresh(PyArray_NDIM(x), PyArray_DIMS(in.array()), type.compute) : nullptr);
  if (!out) return nullptr;
  type.compute == NPY_FLOAT ? run<float>(which, in, out, numbers)
                            : run<double>(which, in, out, numbers);
  return view.back(Ref(finish(std::move(out), type))).release();
}

// The array and its n numbers; false: leave it to the caller.
bool numbers_of(PyObject* const* args, Py_ssize_t given, int n, double* p) {
  if (given != n + 1) return false;
  for (int i = 0; i < n; ++i) {
    if (!PyFloat_CheckExact(args[i + 1]) && !PyLong_CheckExact(args[i + 1])) return false;
    p[i] = PyFloat_AsDouble(args[i + 1]);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

template <Curve kCurve, int kNumbers = 0>
PyObject* plain(const char* where, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!numbers_of(args, n, kNumbers, p)) Py_RETURN_NONE;
  return drawn(where, kCurve, args[0], p);
}

}  // namespace

PyObject* silu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kSilu>("silu", args, n);
}
PyObject* softplus(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kSoftplus, 2>("softplus", args, n);
}
PyObject* logsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kLogSigmoid>("logsigmoid", args, n);
}
PyObject* mish(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kMish>("mish", args, n);
}
PyObject* leaky_relu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kLeakyRelu, 1>("leaky_relu", args, n);
}
PyObject* hardsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kHardSigmoid>("hardsigmoid", args, n);
}
PyObject* hardswish(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kHardSwish>("hardswish", args, n);
}
PyObject* hardshrink(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kHardShrink, 1>("hardshrink", args, n);
}
PyObject* threshold(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return plain<kThreshold, 2>("threshold", args, n);
}
PyObject* numbers(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const double p[3] = {0, HUGE_VAL, -HUGE_VAL};
  if (n != 1) Py_RETURN_NONE;
  return drawn("numbers", kNumbers, args[0], p);
}

// elu(x, alpha, scale, input_scale)
PyObject* elu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3];
  if (!numbers_of(args, n, 3, p) || !(p[2] >= 0)) Py_RETURN_NONE;
  p[0] *= p[1];
  return drawn("elu", kElu, args[0], p);
}

// hardtanh(x, low, high)
PyObject* hardtanh(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!numbers_of(args, n, 2, p) || !(p[0] <= p[1])) Py_RETURN_NONE;
  return drawn("hardtanh", kHardTanh, args[0], p);
}

// softshrink(x, lambd)
PyObject* softshrink(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!numbers_of(args, n, 1, p) || !(p[0] >= 0)) Py_RETURN_NONE;
  return drawn("softshrink", kSoftShrink, args[0], p);
}

namespace {

constexpr const char* kNames[kSlopes] = {
    "silu",        "softplus",  "logsigmoid", "mish",       "leaky_relu", "elu", "hardtanh",
    "hardsigmoid", "hardswish", "hardshrink", "softshrink", "threshold"};

template <class T>
void run_back(int which, const Ref& g, const Ref& x, const Ref& out, const double* numbers) {
  const T p[3] = {static_cast<T>(numbers[0]), static_cast<T>(numbers[1]),
                  static_cast<T>(numbers[2])};
  const T *a = data<T>(g), *b = data<T>(x);
  T* to = data<T>(out);
  const auto f = kernels<T>().slopes[which];
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    f(a + start, b + start, to + start, stop - start, p);
  });
}

}  // namespace

PyObject* activation_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("activation_backward", n, 6, 6) < 0) return nullptr;
  double p[3];
  for (int i = 0; i < 3; ++i) {
    p[i] = PyFloat_AsDouble(args[3 + i]);
    if (PyErr_Occurred()) return left_to_caller();
  }
  const char* name = PyUnicode_Check(args[2]) ? PyUnicode_AsUTF8(args[2]) : nullptr;
  int which = 0;
  while (name && which < kSlopes && strcmp(name, kNames[which])) ++which;
  if (!name || which == kSlopes || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
    Py_RETURN_NONE;
  PyArrayObject *g = as_array(args[0]), *x = as_array(args[1]);
  const int type = PyArray_TYPE(g);
  if (PyArray_TYPE(x) != type || !PyArray_SAMESHAPE(g, x) ||
      (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF))
    Py_RETURN_NONE;
  if (which == kElu) {
    if (!(p[2] >= 0)) Py_RETURN_NONE;
    p[0] *= p[1];
  }
  const Floating kind = {type == NPY_DOUBLE ? NPY_DOUBLE : NPY_FLOAT, type};
  Ref a = contiguous_as(g, kind.compute);
  Ref b = a ? contiguous_as(x, kind.compute) : Ref();
  Ref out(b ? fresh(PyArray_NDIM(g), PyArray_DIMS(g), kind.compute) : nullptr);
  if (!out) return nullptr;
  kind.compute == NPY_FLOAT ? run_back<float>(which, a, b, out, p)
                            : run_back<double>(which, a, b, out, p);
  return finish(std::move(out), kind);
}

namespace {

// x is (outer, 2, half) around the dimension whose halves are meant; body(first element of the run in
// the result, in x, elements) for runs of neighbours.
template <class F>
void each_run(int64_t outer, int64_t half, F&& body) {
  ranges(outer * half, kGrain, [&](int64_t i, int64_t stop) {
    while (i < stop) {
      const int64_t row = i / half, end = (row + 1) * half < stop ? (row + 1) * half : stop;
      body(i, i + row * half, end - i);
      i = end;
    }
  });
}

struct Gate {
  int64_t outer = 1, half = 1;
  npy_intp dims[NPY_MAXDIMS];  // of one half
};

// False: leave it to the caller.
bool gate_of(PyObject* x, PyObject* dim, Gate* out) {
  if (!PyArray_CheckExact(x)) return false;
  PyArrayObject* a = as_array(x);
  const int type = PyArray_TYPE(a), nd = PyArray_NDIM(a);
  const long d = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -1;
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || d < 0 || d >= nd) return false;
  if (PyArray_DIM(a, static_cast<int>(d)) % 2) return false;
  for (int i = 0; i < nd; ++i) {
    out->dims[i] = i == d ? PyArray_DIM(a, i) / 2 : PyArray_DIM(a, i);
    (i < d ? out->outer : out->half) *= out->dims[i];
  }
  return true;
}

}  // namespace

PyObject* glu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("glu", n, 2, 2) < 0) return nullptr;
  Gate h;
  if (!gate_of(args[0], args[1], &h)) return left_to_caller();
  PyArrayObject* x = as_array(args[0]);
  Ref in = contiguous(x);
  Ref out(in ? fresh(PyArray_NDIM(x), h.dims, PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(in);
    T* to = data<T>(out);
    const T p[3] = {0, 0, 1};
    Unlocked unlocked(h.outer * h.half > kUnlock);
    each_run(h.outer, h.half, [&](int64_t i, int64_t at, int64_t count) {
      kernels<T>().measures[kGated].value(from + at, from + at + h.half, to + i, count, p);
    });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

// glu_backward(g, x, dim)
PyObject* glu_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("glu_backward", n, 3, 3) < 0) return nullptr;
  Gate h;
  if (!gate_of(args[1], args[2], &h) || !PyArray_CheckExact(args[0])) return left_to_caller();
  PyArrayObject *g = as_array(args[0]), *x = as_array(args[1]);
  if (PyArray_TYPE(g) != PyArray_TYPE(x) || PyArray_NDIM(g) != PyArray_NDIM(x) ||
      !PyArray_CompareLists(PyArray_DIMS(g), h.dims, PyArray_NDIM(g)))
    Py_RETURN_NONE;
  Ref in = contiguous(x);
  Ref incoming = in ? contiguous(g) : Ref();
  Ref out(incoming ? fresh(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    const T *from = data<T>(in), *factor = data<T>(incoming);
    T* to = data<T>(out);
    const T p[3] = {0, 0, 1};
    Unlocked unlocked(h.outer * h.half > kUnlock);
    each_run(h.outer, h.half, [&](int64_t i, int64_t at, int64_t count) {
      for (int64_t start = 0; start < count; start += kSome) {
        const int64_t here = count - start < kSome ? count - start : kSome, k = at + start;
        for (int side = 0; side < 2; ++side) {
          T* half = to + k + side * h.half;
          kernels<T>().measures[kGated].slopes[side](from + k, from + k + h.half, half, here, p);
          kernels<T>().multiply(factor + i + start, half, here);
        }
      }
    });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

}  // namespace shmtensor
