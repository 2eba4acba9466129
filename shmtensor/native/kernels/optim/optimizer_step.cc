// adam_, sgd_ and the other elementwise optimizers: a step over flat arrays, in one pass.
#include <cmath>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 8192;
constexpr int64_t kUnlock = 4096;

// A 1-D contiguous array of p's dtype and size, writeable if `write`; an optional None becomes nullptr.
bool flat_argument(const char* where, const char* name, PyObject* argument, bool optional, bool write, PyArrayObject* p,
                   PyArrayObject** out) {
  *out = nullptr;
  if (optional && argument == Py_None) return true;
  PyArrayObject* a = array_argument(where, name, argument);
  if (!a) return false;
  const bool dtype_fits =
      p ? PyArray_TYPE(a) == PyArray_TYPE(p) : PyArray_TYPE(a) == NPY_FLOAT || PyArray_TYPE(a) == NPY_DOUBLE;
  if (!dtype_fits)
    return raise("TypeError", "%s: dtype of %s does not match: %s, expected %s", where, name, dtype_text(a).c_str(),
                 p ? dtype_text(p).c_str() : "float32 or float64");
  if (PyArray_NDIM(a) != 1 || (p && PyArray_SIZE(a) != PyArray_SIZE(p)))
    return raise("ValueError", "%s: %s has another shape: %s, expected %s", where, name, shape_text(a).c_str(),
                 p ? shape_text(p).c_str() : "one dimension");
  if (write && !PyArray_ISWRITEABLE(a))
    return raise("ValueError", "%s: %s cannot be written: shape %s, it came read-only; write to a clone()", where, name,
                 shape_text(a).c_str());
  if (!(write ? PyArray_ISCARRAY(a) : PyArray_ISCARRAY_RO(a)))
    return raise("ValueError", "%s: %s is not contiguous%s: strides of %zd bytes", where, name,
                 write ? " and writeable" : "", static_cast<Py_ssize_t>(PyArray_STRIDE(a, 0)));
  *out = a;
  return true;
}

bool float_arguments(PyObject* const* args, int n, double* out) {
  for (int i = 0; i < n; ++i) {
    out[i] = PyFloat_AsDouble(args[i]);
    if (out[i] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

bool bool_arguments(PyObject* const* args, int n, bool* out) {
  for (int i = 0; i < n; ++i) {
    int value = PyObject_IsTrue(args[i]);
    if (value < 0) return false;
    out[i] = value != 0;
  }
  return true;
}

template <class T>
T* data_at(PyArrayObject* a, int64_t i) {
  return a ? data<T>(a) + i : nullptr;
}

template <class T>
void adam_run(PyArrayObject* const* a, const double* v, bool decoupled, bool maximize) {
  const double step = v[0], lr = v[1], beta1 = v[2], beta2 = v[3], eps = v[4], decay = v[5];
  AdamRule<T> rule;
  rule.beta1 = static_cast<T>(beta1);
  rule.beta2 = static_cast<T>(beta2);
  rule.one_minus_beta1 = static_cast<T>(1 - beta1);
  rule.one_minus_beta2 = static_cast<T>(1 - beta2);
  rule.eps = static_cast<T>(eps);
  rule.weight_decay = decoupled ? T(0) : static_cast<T>(decay);
  rule.shrink = decoupled ? static_cast<T>(1 - lr * decay) : T(1);
  rule.step_size = static_cast<T>(lr / (1 - std::pow(beta1, step)));
  rule.inverse_correction2 = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, step)));
  rule.maximize = maximize;
  const auto kernel = kernels<T>().adam;
  const int64_t n = PyArray_SIZE(a[0]);
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t i, int64_t stop) {
    kernel(data_at<T>(a[0], i), data_at<T>(a[1], i), data_at<T>(a[2], i), data_at<T>(a[3], i), data_at<T>(a[4], i), stop - i,
           rule);
  });
}

template <class T>
void sgd_run(PyArrayObject* const* a, const double* v, const bool* f) {
  const SgdRule<T> rule{.lr = static_cast<T>(v[0]),
                        .momentum = static_cast<T>(v[1]),
                        .dampening = static_cast<T>(v[2]),
                        .weight_decay = static_cast<T>(v[3]),
                        .one_minus_dampening = static_cast<T>(1 - v[2]),
                        .nesterov = f[0],
                        .maximize = f[1],
                        .first = f[2]};
  const auto kernel = kernels<T>().sgd;
  const int64_t n = PyArray_SIZE(a[0]);
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t i, int64_t stop) {
    kernel(data_at<T>(a[0], i), data_at<T>(a[1], i), data_at<T>(a[2], i), stop - i, rule);
  });
}

// name(p, g, state..., numbers..., weight_decay, maximize), as in reference_updates.py. State from
// `optional` on may be None.
struct Signature {
  const char* where;
  const char* state[3];
  int states, optional, numbers;
};

template <class T>
void update_run(Update which, PyArrayObject* const* a, const double* numbers, double weight_decay, bool maximize) {
  const auto kernel = kernels<T>().updates[which];
  const int64_t n = PyArray_SIZE(a[0]);
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t i, int64_t stop) {
    T* const state[3] = {data_at<T>(a[2], i), data_at<T>(a[3], i), data_at<T>(a[4], i)};
    kernel(data_at<T>(a[0], i), data_at<T>(a[1], i), state, stop - i, numbers, weight_decay, maximize);
  });
}

PyObject* update(Update which, const Signature& s, PyObject* const* args, Py_ssize_t n) {
  const int first = 2 + s.states, count = first + s.numbers + 2;
  if (!takes(s.where, n, count)) return nullptr;
  PyArrayObject* a[5] = {nullptr, nullptr, nullptr, nullptr, nullptr};
  double v[9];  // the numbers, then weight_decay
  bool maximize;
  if (!flat_argument(s.where, "p", args[0], false, true, nullptr, &a[0]) ||
      !flat_argument(s.where, "g", args[1], false, false, a[0], &a[1])) {
    return nullptr;
  }
  for (int i = 0; i < s.states; ++i) {
    if (!flat_argument(s.where, s.state[i], args[2 + i], i >= s.optional, true, a[0], &a[2 + i])) return nullptr;
  }
  if (!float_arguments(args + first, s.numbers + 1, v) || !bool_arguments(args + count - 1, 1, &maximize)) return nullptr;
  if (PyArray_TYPE(a[0]) == NPY_FLOAT) {
    update_run<float>(which, a, v, v[s.numbers], maximize);
  } else {
    update_run<double>(which, a, v, v[s.numbers], maximize);
  }
  Py_RETURN_NONE;
}

}  // namespace

PyObject* adadelta_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kAdadelta, {"adadelta_", {"square_avg", "acc_delta"}, 2, 2, 4}, args, n);
}
PyObject* adagrad_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kAdagrad, {"adagrad_", {"sum"}, 1, 1, 2}, args, n);
}
PyObject* adamax_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kAdamax, {"adamax_", {"exp_avg", "exp_inf"}, 2, 2, 4}, args, n);
}
PyObject* asgd_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kAsgd, {"asgd_", {"ax"}, 1, 1, 3}, args, n);
}
PyObject* nadam_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kNAdam, {"nadam_", {"exp_avg", "exp_avg_sq"}, 2, 2, 8}, args, n);
}
PyObject* radam_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kRAdam, {"radam_", {"exp_avg", "exp_avg_sq"}, 2, 2, 7}, args, n);
}
PyObject* rmsprop_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kRMSprop, {"rmsprop_", {"square_avg", "momentum_buffer", "grad_avg"}, 3, 1, 5}, args, n);
}
PyObject* rprop_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return update(kRprop, {"rprop_", {"prev", "step_size"}, 2, 2, 4}, args, n);
}

// adam_(p, g, m, v, vmax, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize)
PyObject* adam_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "adam_";
  if (!takes(where, n, 13)) return nullptr;
  PyArrayObject* a[5];
  double v[6];
  bool f[2];
  if (!flat_argument(where, "p", args[0], false, true, nullptr, &a[0]) ||
      !flat_argument(where, "g", args[1], false, false, a[0], &a[1]) ||
      !flat_argument(where, "m", args[2], false, true, a[0], &a[2]) ||
      !flat_argument(where, "v", args[3], false, true, a[0], &a[3]) ||
      !flat_argument(where, "vmax", args[4], true, true, a[0], &a[4]) || !float_arguments(args + 5, 6, v) ||
      !bool_arguments(args + 11, 2, f)) {
    return nullptr;
  }
  if (!(v[0] >= 1)) return raise("ValueError", "adam_: step counts from 1: %g", v[0]);
  if (PyArray_TYPE(a[0]) == NPY_FLOAT) {
    adam_run<float>(a, v, f[0], f[1]);
  } else {
    adam_run<double>(a, v, f[0], f[1]);
  }
  Py_RETURN_NONE;
}

// sgd_(p, g, buf, lr, momentum, dampening, weight_decay, nesterov, maximize, first)
PyObject* sgd_(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "sgd_";
  if (!takes(where, n, 10)) return nullptr;
  PyArrayObject* a[3];
  double v[4];
  bool f[3];
  if (!flat_argument(where, "p", args[0], false, true, nullptr, &a[0]) ||
      !flat_argument(where, "g", args[1], false, false, a[0], &a[1]) ||
      !flat_argument(where, "buf", args[2], true, true, a[0], &a[2]) || !float_arguments(args + 3, 4, v) ||
      !bool_arguments(args + 7, 3, f)) {
    return nullptr;
  }
  if (v[1] != 0 && !a[2]) return raise("ValueError", "sgd_: momentum needs a buffer: %g, got None", v[1]);
  if (v[1] == 0) a[2] = nullptr;
  if (PyArray_TYPE(a[0]) == NPY_FLOAT) {
    sgd_run<float>(a, v, f);
  } else {
    sgd_run<double>(a, v, f);
  }
  Py_RETURN_NONE;
}

}  // namespace shmtensor
