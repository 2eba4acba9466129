// Parses arguments, runs the losses of pointwise/loss.simd.h in slices, and sums them.
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
constexpr int64_t kChunk = 2048;   // elements whose losses fit in the first-level cache
constexpr int64_t kUnlock = 8192;

#define NAME(name, python_name, ...) #python_name,
constexpr const char* kNames[kGlu] = {POINTWISE_LOSSES(NAME)};
#undef NAME

enum class Reduction { None, Mean, Sum };

struct LossArguments {
  int loss;
  Reduction reduction;
  int type;
  Ref x, y;
  double p[2];
  int64_t n() const { return PyArray_SIZE(x.array()); }
};

// The index of a string in a list of names, or -1.
template <int n>
int index_of(PyObject* p, const char* const (&names)[n]) {
  const char* text = PyUnicode_Check(p) ? PyUnicode_AsUTF8(p) : nullptr;
  for (int i = 0; text && i < n; ++i) {
    if (!strcmp(text, names[i])) return i;
  }
  return -1;
}

// False if there is no kernel for the arguments.
bool read(PyObject* x, PyObject* y, PyObject* name, PyObject* reduction, PyObject* const* numbers, LossArguments* out) {
  constexpr const char* kReductions[] = {"none", "mean", "sum"};
  out->loss = index_of(name, kNames);
  const int reduction_index = index_of(reduction, kReductions);
  for (int i = 0; i < 2; ++i) out->p[i] = PyFloat_AsDouble(numbers[i]);
  if (out->loss < 0 || reduction_index < 0 || PyErr_Occurred() || !PyArray_CheckExact(x) || !PyArray_CheckExact(y) ||
      !PyArray_SAMESHAPE(as_array(x), as_array(y)))
    return false;
  out->reduction = static_cast<Reduction>(reduction_index);
  out->type = PyArray_TYPE(as_array(x));
  if ((out->type != NPY_FLOAT && out->type != NPY_DOUBLE) || PyArray_TYPE(as_array(y)) != out->type) return false;
  out->x = contiguous(as_array(x));
  out->y = out->x ? contiguous(as_array(y)) : Ref();
  return static_cast<bool>(out->y);
}

// Is an element outside of [0, 1]? NaN is not.
template <class T>
bool any_outside_unit_interval(const T* x, int64_t n) {
  bool outside = false;
  for (int64_t i = 0; i < n; ++i) outside |= (x[i] < 0) | (x[i] > 1);
  return outside;
}

// Writes the losses to out, or their sum to total; false if an x or y must be a probability and is not. Slices are
// added in order.
template <class T>
bool compute_losses(const LossArguments& m, T* out, double* total) {
  const T p[3] = {static_cast<T>(m.p[0]), static_cast<T>(m.p[1]), 1};
  const T *x = data<T>(m.x), *y = data<T>(m.y);
  const auto f = kernels<T>().losses[m.loss].value;
  const auto add = kernels<T>().sum;
  const bool must_check = m.loss == kBce;
  const int64_t n = m.n();
  std::vector<double> partial_sums(static_cast<size_t>((n + kGrain - 1) / kGrain));
  std::vector<char> is_invalid(partial_sums.size());
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    T losses[kChunk];
    double partial_sum = 0;
    bool invalid = false;
    for (int64_t at = start; at < stop; at += kChunk) {
      const int64_t count = stop - at < kChunk ? stop - at : kChunk;
      T* to = out ? out + at : losses;
      f(x + at, y + at, to, count, p);
      if (must_check) invalid |= any_outside_unit_interval(x + at, count) || any_outside_unit_interval(y + at, count);
      if (total) partial_sum += add(to, count);
    }
    const auto i = static_cast<size_t>(start / kGrain);
    partial_sums[i] = partial_sum;
    is_invalid[i] = invalid;
  });
  bool valid = true;
  double sum = 0;
  for (size_t i = 0; i < partial_sums.size(); ++i) {
    sum += partial_sums[i];
    valid = valid && !is_invalid[i];
  }
  if (total) *total = sum;
  return valid;
}

template <class T>
bool compute_reduced_loss(const LossArguments& m, const Ref& out) {
  if (m.reduction == Reduction::None) return compute_losses<T>(m, data<T>(out), nullptr);
  double total;
  if (!compute_losses<T>(m, nullptr, &total)) return false;
  if (m.reduction == Reduction::Mean) total /= static_cast<double>(m.n());  // of nothing: NaN
  *data<T>(out) = static_cast<T>(total);
  return true;
}

// g has one element, or one for each loss.
template <class T>
void compute_gradients(const LossArguments& m, int side, const Ref& g, const Ref& out) {
  const bool per_element = m.reduction == Reduction::None;
  const T *from = data<T>(g), *x = data<T>(m.x), *y = data<T>(m.y);
  const int64_t n = m.n();
  T factor = per_element ? T(1) : *from;
  if (m.reduction == Reduction::Mean) factor /= static_cast<T>(n);
  const T p[3] = {static_cast<T>(m.p[0]), static_cast<T>(m.p[1]), factor};
  T* to = data<T>(out);
  const auto f = kernels<T>().losses[m.loss].derivatives[side];
  const auto multiply = kernels<T>().multiply;
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) {
    for (int64_t at = start; at < stop; at += kChunk) {
      const int64_t count = stop - at < kChunk ? stop - at : kChunk;
      f(x + at, y + at, to + at, count, p);
      if (per_element) multiply(from + at, to + at, count);
    }
  });
}

}  // namespace

PyObject* pointwise_loss(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("pointwise_loss", n, 6)) return nullptr;
  LossArguments m;
  if (!read(args[0], args[1], args[2], args[3], args + 4, &m)) return fall_back();
  const bool per_element = m.reduction == Reduction::None;
  Ref out(new_array(per_element ? PyArray_NDIM(m.x.array()) : 0, PyArray_DIMS(m.x.array()), m.type));
  if (!out) return nullptr;
  const bool valid = m.type == NPY_FLOAT ? compute_reduced_loss<float>(m, out) : compute_reduced_loss<double>(m, out);
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

PyObject* pointwise_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("pointwise_loss_backward", n, 8)) return nullptr;
  LossArguments m;
  const long side = PyLong_AsLong(args[4]);
  if (!read(args[1], args[2], args[3], args[5], args + 6, &m) || side < 0 || side > 1 || !PyArray_CheckExact(args[0]) ||
      PyArray_TYPE(as_array(args[0])) != m.type)
    return fall_back();
  PyArrayObject* x = m.x.array();
  const bool fits =
      m.reduction == Reduction::None ? PyArray_SAMESHAPE(as_array(args[0]), x) : PyArray_SIZE(as_array(args[0])) == 1;
  if (!fits) Py_RETURN_NONE;
  Ref g = contiguous(as_array(args[0]));
  Ref out(g ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), m.type) : nullptr);
  if (!out) return nullptr;
  m.type == NPY_FLOAT ? compute_gradients<float>(m, static_cast<int>(side), g, out)
                      : compute_gradients<double>(m, static_cast<int>(side), g, out);
  return out.release();
}

}  // namespace shmtensor
