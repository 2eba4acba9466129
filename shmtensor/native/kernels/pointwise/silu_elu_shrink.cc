// Parses arguments and runs the activations of silu_elu_shrink.simd.h in slices.
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "half/half.h"
#include "kernels/pointwise/incoming_gradient.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 8192;  // elements per slice
constexpr int64_t kCached = 2048;   // elements that fit in the first-level cache
constexpr int64_t kUnlock = 8192;

template <class T>
void run(const Activation& activation, const Ref& x, const Ref& out, const double* parameters) {
  const T p[3] = {static_cast<T>(parameters[0]), static_cast<T>(parameters[1]), static_cast<T>(parameters[2])};
  const T* from = data<T>(x);
  T* to = data<T>(out);
  const auto f = activation.kernels<T>().value;
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
}

// 16-bit floats; None if x is not in C order or the activation has no kernel for them.
PyObject* run_half_activation(const Activation& activation, PyArrayObject* x, const double* parameters) {
  const int type = PyArray_TYPE(x);
  const auto f = activation.in_halves[type != NPY_HALF];
  if (!f || !PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const float p[3] = {static_cast<float>(parameters[0]), static_cast<float>(parameters[1]),
                      static_cast<float>(parameters[2])};
  const auto* from = data<uint16_t>(x);
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, 8 * kGrain, [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
  return out.release();
}

// The result for real floating-point arrays; None for other arrays.
PyObject* run_activation(const Activation& activation, PyObject* argument, const double* parameters) {
  if (is_half_array(argument)) {
    PyObject* out = run_half_activation(activation, as_array(argument), parameters);
    if (out != Py_None || PyArray_TYPE(as_array(argument)) != NPY_HALF) return out;
    Py_DECREF(out);
  }
  if (!PyArray_CheckExact(argument) || PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(argument))) ||
      PyArray_TYPE(as_array(argument)) == NPY_BOOL)
    Py_RETURN_NONE;
  PyArrayObject* x = as_array(argument);
  Floating type;
  if (!floating(activation.name, x, &type)) return fall_back();
  const DenseView view = dense_view(x);
  Ref in = view.array ? contiguous_as(view.array.array(), type.compute) : Ref();
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(in.array()), type.compute) : nullptr);
  if (!out) return nullptr;
  type.compute == NPY_FLOAT ? run<float>(activation, in, out, parameters) : run<double>(activation, in, out, parameters);
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

constexpr const char* kCapsule = "shmtensor.native.activation";

// The function of Python: self is a capsule of the Activation.
PyObject* call_activation(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const auto& activation = *static_cast<const Activation*>(PyCapsule_GetPointer(self, kCapsule));
  double p[3] = {0, 0, 0};
  if (!parse_parameters(args, n, activation.parameters, p) || !activation.accept(p)) Py_RETURN_NONE;
  return run_activation(activation, args[0], p);
}

}  // namespace

// activation(name): the function of x and the parameters; None of calls that it does not take
PyObject* activation(PyObject*, PyObject* argument) {
  const char* name = PyUnicode_AsUTF8(argument);
  if (!name) return nullptr;
  const Activation* found = find_activation(name);
  if (!found) return raise("ValueError", "activation: unknown function: %s", name);
  Ref capsule(PyCapsule_New(const_cast<Activation*>(found), kCapsule, nullptr));
  if (!capsule) return nullptr;
  // Never freed: functions live as long as the process.
  auto* definition = new PyMethodDef(method(found->name, call_activation, "The kernel of an activation."));
  return PyCFunction_New(definition, capsule.get());
}

const Activation* activation_of(PyObject* kernel) {
  if (!PyCFunction_CheckExact(kernel)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(kernel);
  if (!self || !PyCapsule_IsValid(self, kCapsule)) return nullptr;
  return static_cast<const Activation*>(PyCapsule_GetPointer(self, kCapsule));
}

namespace {

template <class T>
void run_backward(const Activation& activation, const IncomingGradient& g, const Ref& x, const Ref& out,
                  const double* parameters) {
  const T p[3] = {static_cast<T>(parameters[0]), static_cast<T>(parameters[1]), static_cast<T>(parameters[2])};
  const T* b = data<T>(x);
  T* to = data<T>(out);
  const auto f = activation.kernels<T>().backward;
  const int64_t n = PyArray_SIZE(out.array());
  Unlocked unlocked(n > kUnlock);
  g.ranges<T>(n, kGrain, [&](const T* a, int64_t start, int64_t stop) { f(a, b + start, to + start, stop - start, p); });
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
  const Activation* activation = name ? find_activation(name) : nullptr;
  if (!activation || !activation->in_float32.backward || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
    return fall_back();
  PyArrayObject *g = as_array(args[0]), *x = as_array(args[1]);
  const int type = PyArray_TYPE(g);
  if (PyArray_TYPE(x) != type || !PyArray_SAMESHAPE(g, x) || (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF))
    Py_RETURN_NONE;
  if (!activation->accept(p)) Py_RETURN_NONE;
  const Floating dtypes = {type == NPY_DOUBLE ? NPY_DOUBLE : NPY_FLOAT, type};
  IncomingGradient a;
  Ref b = a.read(g, dtypes.compute) ? contiguous_as(x, dtypes.compute) : Ref();
  Ref out(b ? new_array(PyArray_NDIM(g), PyArray_DIMS(g), dtypes.compute) : nullptr);
  if (!out) return nullptr;
  dtypes.compute == NPY_FLOAT ? run_backward<float>(*activation, a, b, out, p)
                              : run_backward<double>(*activation, a, b, out, p);
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
