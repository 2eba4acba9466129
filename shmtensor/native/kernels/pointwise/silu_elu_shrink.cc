// Parses arguments and runs the activations of silu_elu_shrink.simd.h in slices.
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
constexpr int64_t kCached = 2048;   // elements that fit in the first-level cache
constexpr int64_t kUnlock = 8192;

template <class T>
void run(Activation function, const Ref& x, const Ref& out, const double* parameters) {
  const T p[3] = {static_cast<T>(parameters[0]), static_cast<T>(parameters[1]),
                  static_cast<T>(parameters[2])};
  const T* from = data<T>(x);
  T* to = data<T>(out);
  const auto f = kernels<T>().activations[function];
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain,
         [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
}

// 16-bit floats; None if x is not in C order or the activation has no kernel for them.
PyObject* run_half_activation(Activation function, PyArrayObject* x, const double* parameters) {
  const int type = PyArray_TYPE(x);
  const auto f = half_kernels().arithmetic[type != NPY_HALF].unary[function];
  if (!f || !PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const float p[3] = {static_cast<float>(parameters[0]), static_cast<float>(parameters[1]),
                      static_cast<float>(parameters[2])};
  const auto* from = data<uint16_t>(x);
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, 8 * kGrain,
         [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
  return out.release();
}

// The result for real floating-point arrays; None for other arrays.
PyObject* run_activation(const char* where, Activation function, PyObject* argument, const double* parameters) {
  if (is_half_array(argument)) {
    PyObject* out = run_half_activation(function, as_array(argument), parameters);
    if (out != Py_None || PyArray_TYPE(as_array(argument)) != NPY_HALF) return out;
    Py_DECREF(out);
  }
  if (!PyArray_CheckExact(argument) || PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(argument))) ||
      PyArray_TYPE(as_array(argument)) == NPY_BOOL)
    Py_RETURN_NONE;
  PyArrayObject* x = as_array(argument);
  Floating type;
  if (!floating(where, x, &type)) return fall_back();
  const DenseView view = dense_view(x);
  Ref in = view.array ? contiguous_as(view.array.array(), type.compute) : Ref();
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(in.array()), type.compute) : nullptr);
  if (!out) return nullptr;
  type.compute == NPY_FLOAT ? run<float>(function, in, out, parameters)
                            : run<double>(function, in, out, parameters);
  return view.restore(Ref(finish(std::move(out), type))).release();
}

// Parses the n parameters after the array; false if they are not n numbers.
bool parse_parameters(PyObject* const* args, Py_ssize_t nargs, int n, double* p) {
  if (nargs != n + 1) return false;
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

template <Activation kCurve, int kNumbers = 0>
PyObject* run_with_parameters(const char* where, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!parse_parameters(args, n, kNumbers, p)) Py_RETURN_NONE;
  return run_activation(where, kCurve, args[0], p);
}

}  // namespace

PyObject* silu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kSilu>("silu", args, n);
}
PyObject* softplus(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kSoftplus, 2>("softplus", args, n);
}
PyObject* logsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kLogSigmoid>("logsigmoid", args, n);
}
PyObject* mish(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kMish>("mish", args, n);
}
PyObject* leaky_relu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kLeakyRelu, 1>("leaky_relu", args, n);
}
PyObject* hardsigmoid(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kHardSigmoid>("hardsigmoid", args, n);
}
PyObject* hardswish(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kHardSwish>("hardswish", args, n);
}
PyObject* hardshrink(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kHardShrink, 1>("hardshrink", args, n);
}
PyObject* threshold(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return run_with_parameters<kThreshold, 2>("threshold", args, n);
}
PyObject* numbers(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const double p[3] = {0, HUGE_VAL, -HUGE_VAL};
  if (n != 1) Py_RETURN_NONE;
  return run_activation("numbers", kNumbers, args[0], p);
}

// elu(x, alpha, scale, input_scale)
PyObject* elu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3];
  if (!parse_parameters(args, n, 3, p) || !(p[2] >= 0)) Py_RETURN_NONE;
  p[0] *= p[1];
  return run_activation("elu", kElu, args[0], p);
}

// hardtanh(x, low, high)
PyObject* hardtanh(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!parse_parameters(args, n, 2, p) || !(p[0] <= p[1])) Py_RETURN_NONE;
  return run_activation("hardtanh", kHardTanh, args[0], p);
}

// softshrink(x, lambd)
PyObject* softshrink(PyObject*, PyObject* const* args, Py_ssize_t n) {
  double p[3] = {0, 0, 0};
  if (!parse_parameters(args, n, 1, p) || !(p[0] >= 0)) Py_RETURN_NONE;
  return run_activation("softshrink", kSoftShrink, args[0], p);
}

namespace {

#define NAME(name, python_name, ...) #python_name,
constexpr const char* kNames[kActivationsWithBackward] = {ACTIVATIONS(NAME)};
#undef NAME

template <class T>
void run_backward(int function, const Ref& g, const Ref& x, const Ref& out, const double* parameters) {
  const T p[3] = {static_cast<T>(parameters[0]), static_cast<T>(parameters[1]),
                  static_cast<T>(parameters[2])};
  const T *a = data<T>(g), *b = data<T>(x);
  T* to = data<T>(out);
  const auto f = kernels<T>().activation_backward[function];
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    f(a + start, b + start, to + start, stop - start, p);
  });
}

}  // namespace

PyObject* activation_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("activation_backward", n, 6)) return nullptr;
  double p[3];
  for (int i = 0; i < 3; ++i) {
    p[i] = PyFloat_AsDouble(args[3 + i]);
    if (PyErr_Occurred()) return fall_back();
  }
  const char* name = PyUnicode_Check(args[2]) ? PyUnicode_AsUTF8(args[2]) : nullptr;
  int function = 0;
  while (name && function < kActivationsWithBackward && strcmp(name, kNames[function])) ++function;
  if (!name || function == kActivationsWithBackward || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
    Py_RETURN_NONE;
  PyArrayObject *g = as_array(args[0]), *x = as_array(args[1]);
  const int type = PyArray_TYPE(g);
  if (PyArray_TYPE(x) != type || !PyArray_SAMESHAPE(g, x) ||
      (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF))
    Py_RETURN_NONE;
  if (function == kElu) {
    if (!(p[2] >= 0)) Py_RETURN_NONE;
    p[0] *= p[1];
  }
  const Floating dtypes = {type == NPY_DOUBLE ? NPY_DOUBLE : NPY_FLOAT, type};
  Ref a = contiguous_as(g, dtypes.compute);
  Ref b = a ? contiguous_as(x, dtypes.compute) : Ref();
  Ref out(b ? new_array(PyArray_NDIM(g), PyArray_DIMS(g), dtypes.compute) : nullptr);
  if (!out) return nullptr;
  dtypes.compute == NPY_FLOAT ? run_backward<float>(function, a, b, out, p)
                            : run_backward<double>(function, a, b, out, p);
  return finish(std::move(out), dtypes);
}

namespace {

// x is (outer, 2, half) around the dimension that is split; body(offset in the result, offset in x, elements) for runs
// of contiguous elements.
template <class F>
void for_half_rows(int64_t outer, int64_t half, F&& body) {
  ranges(outer * half, kGrain, [&](int64_t i, int64_t stop) {
    while (i < stop) {
      const int64_t row = i / half, end = (row + 1) * half < stop ? (row + 1) * half : stop;
      body(i, i + row * half, end - i);
      i = end;
    }
  });
}

struct GluShape {
  int64_t outer = 1, half = 1;
  npy_intp dims[NPY_MAXDIMS];  // the shape of one half
};

// False if there is no kernel for x and dim.
bool parse_glu(PyObject* x, PyObject* dim, GluShape* out) {
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
  if (!takes("glu", n, 2)) return nullptr;
  GluShape h;
  if (!parse_glu(args[0], args[1], &h)) return fall_back();
  PyArrayObject* x = as_array(args[0]);
  Ref in = contiguous(x);
  Ref out(in ? new_array(PyArray_NDIM(x), h.dims, PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(in);
    T* to = data<T>(out);
    const T p[3] = {0, 0, 1};
    Unlocked unlocked(h.outer * h.half > kUnlock);
    for_half_rows(h.outer, h.half, [&](int64_t i, int64_t at, int64_t count) {
      kernels<T>().losses[kGlu].value(from + at, from + at + h.half, to + i, count, p);
    });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

// glu_backward(g, x, dim)
PyObject* glu_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("glu_backward", n, 3)) return nullptr;
  GluShape h;
  if (!parse_glu(args[1], args[2], &h) || !PyArray_CheckExact(args[0])) return fall_back();
  PyArrayObject *g = as_array(args[0]), *x = as_array(args[1]);
  if (PyArray_TYPE(g) != PyArray_TYPE(x) || PyArray_NDIM(g) != PyArray_NDIM(x) ||
      !PyArray_CompareLists(PyArray_DIMS(g), h.dims, PyArray_NDIM(g)))
    Py_RETURN_NONE;
  Ref in = contiguous(x);
  Ref gradient = in ? contiguous(g) : Ref();
  Ref out(gradient ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const T *from = data<T>(in), *factor = data<T>(gradient);
    T* to = data<T>(out);
    const T p[3] = {0, 0, 1};
    Unlocked unlocked(h.outer * h.half > kUnlock);
    for_half_rows(h.outer, h.half, [&](int64_t i, int64_t at, int64_t count) {
      for (int64_t start = 0; start < count; start += kCached) {
        const int64_t n = count - start < kCached ? count - start : kCached, k = at + start;
        for (int side = 0; side < 2; ++side) {
          T* half = to + k + side * h.half;
          kernels<T>().losses[kGlu].derivatives[side](from + k, from + k + h.half, half, n, p);
          kernels<T>().multiply(factor + i + start, half, n);
        }
      }
    });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

}  // namespace shmtensor
