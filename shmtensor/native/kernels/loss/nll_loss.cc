// Gathers one weighted element for each class index, and computes their mean or sum in the same pass.
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 8192;  // class indices per slice
constexpr int64_t kUnlock = 4096;

// The class indices (n, d) of x (n, classes, d).
struct Targets {
  int64_t n = 1, classes = 1, d = 1, ignore = 0;
  Ref target, weight;
  bool mean = false, per_sample = false;
  int64_t count() const { return n * d; }
};

// False if there is no kernel for the arguments.
bool parse_targets(int nd, const npy_intp* dims, int type, PyObject* target, PyObject* weight, PyObject* ignore,
                   PyObject* reduction, Targets* out) {
  if (nd < 1 || !PyArray_CheckExact(target) || !PyUnicode_Check(reduction)) return false;
  PyArrayObject* t = as_array(target);
  if (PyArray_NDIM(t) != nd - 1) return false;
  out->classes = dims[nd > 1];
  if (nd > 1) {
    out->n = dims[0];
    if (PyArray_DIM(t, 0) != dims[0]) return false;
  }
  for (int i = 2; i < nd; ++i) {
    if (PyArray_DIM(t, i - 1) != dims[i]) return false;
    out->d *= dims[i];
  }
  out->target = int64_indices(target);
  out->ignore = PyLong_AsLongLong(ignore);
  const char* reduction_name = PyUnicode_AsUTF8(reduction);
  if (!out->target || !reduction_name || PyErr_Occurred()) return false;
  out->mean = !strcmp(reduction_name, "mean");
  out->per_sample = !strcmp(reduction_name, "none");
  if (!out->mean && !out->per_sample && strcmp(reduction_name, "sum")) return false;
  if (weight == Py_None) return true;
  if (!PyArray_CheckExact(weight) || PyArray_TYPE(as_array(weight)) != type || PyArray_NDIM(as_array(weight)) != 1 ||
      PyArray_SIZE(as_array(weight)) != out->classes)
    return false;
  out->weight = contiguous(as_array(weight));
  return static_cast<bool>(out->weight);
}

// The sums of a slice.
struct Sums {
  double losses = 0, weights = 0;
};

// Sums of the losses and weights; slices are added in order. x may be null (only the weights are summed), and so may
// out. False if a class index is out of range.
template <class T>
bool sum_losses(const Targets& c, const T* x, T* out, Sums* total) {
  const auto* target = data<int64_t>(c.target);
  const T* weight = c.weight ? data<T>(c.weight) : nullptr;
  std::vector<Sums> partials(static_cast<size_t>((c.count() + kGrain - 1) / kGrain));
  std::atomic<bool> valid{true};
  ranges(c.count(), kGrain, [&](int64_t start, int64_t stop) {
    Sums partial;
    int64_t outer = start / c.d, inner = start % c.d;
    for (int64_t i = start; i < stop; ++i) {
      const int64_t t = load_once(target + i);
      const bool is_counted = t != c.ignore;
      if (is_counted && (t < 0 || t >= c.classes)) {
        valid = false;
        return;
      }
      const T w = !is_counted ? T(0) : weight ? weight[t] : T(1);
      T loss = 0;
      if (x && is_counted) loss = -(x[(outer * c.classes + t) * c.d + inner] * w);
      partial.losses += static_cast<double>(loss);
      partial.weights += static_cast<double>(w);
      if (out) out[i] = loss;
      if (++inner == c.d) {
        inner = 0;
        ++outer;
      }
    }
    partials[static_cast<size_t>(start / kGrain)] = partial;
  });
  for (const Sums& partial : partials) {
    total->losses += partial.losses;
    total->weights += partial.weights;
  }
  return valid;
}

template <class T>
bool forward(const Targets& c, const T* x, T* out) {
  Unlocked unlocked(c.count() > kUnlock);
  Sums total;
  if (!sum_losses(c, x, c.per_sample ? out : nullptr, &total)) return false;
  if (!c.per_sample) *out = static_cast<T>(c.mean ? total.losses / total.weights : total.losses);
  return true;
}

template <class T>
bool backward(const Targets& c, const T* g, T* out) {
  Unlocked unlocked(c.count() * c.classes > kUnlock);
  Sums total;
  if (!sum_losses<T>(c, nullptr, nullptr, &total)) return false;
  const T factor = c.per_sample ? T(0) : c.mean ? static_cast<T>(*g / total.weights) : *g;
  const auto* target = data<int64_t>(c.target);
  const T* weight = c.weight ? data<T>(c.weight) : nullptr;
  const int64_t block = c.classes * c.d;
  std::atomic<bool> valid{true};  // checked again: Note [Memory that others change] in index/indices.h
  ranges(c.n, block >= kGrain ? 1 : kGrain / (block ? block : 1), [&](int64_t i, int64_t stop) {
    memset(static_cast<void*>(out + i * block), 0, sizeof(T) * static_cast<size_t>((stop - i) * block));
    for (; i < stop; ++i) {
      for (int64_t j = 0; j < c.d; ++j) {
        const int64_t t = load_once(target + i * c.d + j);
        if (t == c.ignore) continue;
        if (!in_range(t, c.classes)) {
          valid = false;
          return;
        }
        const T value = c.per_sample ? g[i * c.d + j] : factor;
        out[i * block + t * c.d + j] = weight ? -value * weight[t] : -value;
      }
    }
  });
  return valid;
}

// A float32 or float64 array.
PyArrayObject* floating_array(PyObject* p) {
  if (!PyArray_CheckExact(p)) return nullptr;
  const int type = PyArray_TYPE(as_array(p));
  return type == NPY_FLOAT || type == NPY_DOUBLE ? as_array(p) : nullptr;
}

}  // namespace

PyObject* nll_loss(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("nll_loss", n, 5)) return nullptr;
  PyArrayObject* x = floating_array(args[0]);
  Targets c;
  if (!x || !parse_targets(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x), args[1], args[2], args[3], args[4], &c))
    return fall_back();
  Ref in = contiguous(x);
  PyArrayObject* target = c.target.array();
  Ref out(in ? new_array(c.per_sample ? PyArray_NDIM(target) : 0, PyArray_DIMS(target), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const bool valid = PyArray_TYPE(x) == NPY_FLOAT ? forward(c, data<float>(in), data<float>(out))
                                                  : forward(c, data<double>(in), data<double>(out));
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

PyObject* nll_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("nll_loss_backward", n, 6)) return nullptr;
  PyArrayObject* g = floating_array(args[0]);
  npy_intp dims[NPY_MAXDIMS];
  const int nd = g && PyTuple_Check(args[3]) && PyTuple_GET_SIZE(args[3]) <= NPY_MAXDIMS
                     ? static_cast<int>(PyTuple_GET_SIZE(args[3]))
                     : 0;
  for (int i = 0; i < nd; ++i) dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[3], i));
  Targets c;
  if (!nd || PyErr_Occurred() || !parse_targets(nd, dims, PyArray_TYPE(g), args[1], args[2], args[4], args[5], &c) ||
      PyArray_SIZE(g) != (c.per_sample ? c.count() : 1))
    return fall_back();
  Ref from = contiguous(g);
  Ref out(from ? new_array(nd, dims, PyArray_TYPE(g)) : nullptr);
  if (!out) return nullptr;
  const bool valid = PyArray_TYPE(g) == NPY_FLOAT ? backward(c, data<float>(from), data<float>(out))
                                                  : backward(c, data<double>(from), data<double>(out));
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
