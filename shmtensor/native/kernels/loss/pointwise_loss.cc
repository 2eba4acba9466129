// Arguments, slices and sums of the losses that pointwise/loss.simd.h computes.
#include "kernels/loss/pointwise_loss.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;  // elements per slice
constexpr int64_t kChunk = 2048;   // elements whose losses stay in the first-level cache
constexpr int64_t kUnlock = 8192;

constexpr const char* kNames[kGated] = {"mse", "l1", "huber", "bce", "bce_with_logits", "soft_margin",
                                           "kl_div", "kl_div_log_target", "poisson_nll"};

enum class Reduction { None, Mean, Sum };

struct Measured {
  int which;
  Reduction reduction;
  int type;
  Ref x, y;
  double p[2];
  int64_t n() const { return PyArray_SIZE(x.array()); }
};

// The place of a text in a list of them, or -1.
template <int n>
int place(PyObject* p, const char* const (&names)[n]) {
  const char* text = PyUnicode_Check(p) ? PyUnicode_AsUTF8(p) : nullptr;
  for (int i = 0; text && i < n; ++i) {
    if (!strcmp(text, names[i])) return i;
  }
  return -1;
}

// False: leave it to the caller.
bool read(PyObject* x, PyObject* y, PyObject* name, PyObject* reduction, PyObject* const* numbers,
          Measured* out) {
  constexpr const char* kReductions[] = {"none", "mean", "sum"};
  out->which = place(name, kNames);
  const int how = place(reduction, kReductions);
  for (int i = 0; i < 2; ++i) out->p[i] = PyFloat_AsDouble(numbers[i]);
  if (out->which < 0 || how < 0 || PyErr_Occurred() || !PyArray_CheckExact(x) ||
      !PyArray_CheckExact(y) || !PyArray_SAMESHAPE(as_array(x), as_array(y)))
    return false;
  out->reduction = static_cast<Reduction>(how);
  out->type = PyArray_TYPE(as_array(x));
  if ((out->type != NPY_FLOAT && out->type != NPY_DOUBLE) ||
      PyArray_TYPE(as_array(y)) != out->type)
    return false;
  out->x = contiguous(as_array(x));
  out->y = out->x ? contiguous(as_array(y)) : Ref();
  return static_cast<bool>(out->y);
}

// A probability lies in [0, 1]; NaN is let through.
template <class T>
bool outside(const T* x, int64_t n) {
  bool found = false;
  for (int64_t i = 0; i < n; ++i) found |= (x[i] < 0) | (x[i] > 1);
  return found;
}

// The losses to out, or their total; false: an x or y is no probability. Slices are added in order.
template <class T>
bool values(const Measured& m, T* out, double* total) {
  const T p[3] = {static_cast<T>(m.p[0]), static_cast<T>(m.p[1]), 1};
  const T *x = data<T>(m.x), *y = data<T>(m.y);
  const auto f = kernels<T>().measures[m.which].value;
  const auto add = kernels<T>().sum;
  const bool checked = m.which == kEntropy;
  const int64_t n = m.n();
  std::vector<double> parts(static_cast<size_t>((n + kGrain - 1) / kGrain));
  std::vector<char> wrong(parts.size());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    T losses[kChunk];
    double part = 0;
    bool bad = false;
    for (int64_t at = start; at < stop; at += kChunk) {
      const int64_t count = stop - at < kChunk ? stop - at : kChunk;
      T* to = out ? out + at : losses;
      f(x + at, y + at, to, count, p);
      if (checked) bad |= outside(x + at, count) || outside(y + at, count);
      if (total) part += add(to, count);
    }
    const auto i = static_cast<size_t>(start / kGrain);
    parts[i] = part;
    wrong[i] = bad;
  });
  bool good = true;
  double sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    good = good && !wrong[i];
  }
  if (total) *total = sum;
  return good;
}

template <class T>
bool write(const Measured& m, const Ref& out) {
  if (m.reduction == Reduction::None) return values<T>(m, data<T>(out), nullptr);
  double total;
  if (!values<T>(m, nullptr, &total)) return false;
  if (m.reduction == Reduction::Mean) total /= static_cast<double>(m.n());  // of nothing: NaN
  *data<T>(out) = static_cast<T>(total);
  return true;
}

// g has one element, or one for each loss.
template <class T>
void gradients(const Measured& m, int side, const Ref& g, const Ref& out) {
  const bool each = m.reduction == Reduction::None;
  const T *from = data<T>(g), *x = data<T>(m.x), *y = data<T>(m.y);
  const int64_t n = m.n();
  T factor = each ? T(1) : *from;
  if (m.reduction == Reduction::Mean) factor /= static_cast<T>(n);
  const T p[3] = {static_cast<T>(m.p[0]), static_cast<T>(m.p[1]), factor};
  T* to = data<T>(out);
  const auto f = kernels<T>().measures[m.which].slopes[side];
  const auto multiply = kernels<T>().multiply;
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    for (int64_t at = start; at < stop; at += kChunk) {
      const int64_t count = stop - at < kChunk ? stop - at : kChunk;
      f(x + at, y + at, to + at, count, p);
      if (each) multiply(from + at, to + at, count);
    }
  });
}

}  // namespace

PyObject* pointwise_loss(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("pointwise_loss", n, 6, 6) < 0) return nullptr;
  Measured m;
  if (!read(args[0], args[1], args[2], args[3], args + 4, &m)) return left_to_caller();
  const bool each = m.reduction == Reduction::None;
  Ref out(fresh(each ? PyArray_NDIM(m.x.array()) : 0, PyArray_DIMS(m.x.array()), m.type));
  if (!out) return nullptr;
  const bool good = m.type == NPY_FLOAT ? write<float>(m, out) : write<double>(m, out);
  if (!good) Py_RETURN_NONE;
  return out.release();
}

PyObject* pointwise_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("pointwise_loss_backward", n, 8, 8) < 0) return nullptr;
  Measured m;
  const long side = PyLong_AsLong(args[4]);
  if (!read(args[1], args[2], args[3], args[5], args + 6, &m) || side < 0 || side > 1 ||
      !PyArray_CheckExact(args[0]) || PyArray_TYPE(as_array(args[0])) != m.type)
    return left_to_caller();
  PyArrayObject* x = m.x.array();
  const bool fits = m.reduction == Reduction::None ? PyArray_SAMESHAPE(as_array(args[0]), x)
                                                   : PyArray_SIZE(as_array(args[0])) == 1;
  if (!fits) Py_RETURN_NONE;
  Ref g = contiguous(as_array(args[0]));
  Ref out(g ? fresh(PyArray_NDIM(x), PyArray_DIMS(x), m.type) : nullptr);
  if (!out) return nullptr;
  m.type == NPY_FLOAT ? gradients<float>(m, static_cast<int>(side), g, out)
                      : gradients<double>(m, static_cast<int>(side), g, out);
  return out.release();
}

}  // namespace shmtensor
