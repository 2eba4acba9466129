// An array is (outer, m, inner) around the dimension; inner = 1 runs row kernels, else column kernels.
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kElements = 4096;  // per slice
constexpr int64_t kUnlock = 8192;

template <class T>
struct ForwardKernels {  // the row kernel and the column kernel of one function
  void (*rows)(const T*, T*, int64_t, int64_t);
  void (*columns)(const T*, T*, int64_t, int64_t, int64_t);
};
template <class T>
struct BackwardKernels {
  void (*rows)(const T*, const T*, T*, int64_t, int64_t);
  void (*columns)(const T*, const T*, T*, int64_t, int64_t, int64_t);
};

// row(first row, rows) or column(offset of the first element, width), in slices of about kElements.
template <class R, class C>
void for_slices(const DimLayout& s, R row, C column) {
  if (s.outer * s.m * s.inner == 0) return;
  Unlocked unlocked(s.outer * s.m * s.inner > kUnlock);
  if (s.inner == 1) {
    const int64_t grain = s.m >= kElements ? 1 : kElements / s.m;
    ranges(s.outer, grain, [&](int64_t start, int64_t stop) { row(start, stop - start); });
    return;
  }
  int64_t width = kElements / s.m / 64 * 64;
  if (width < 64) width = 64;
  if (width > s.inner) width = s.inner;
  const int64_t pieces = (s.inner + width - 1) / width;
  slices(s.outer * pieces, [&](int64_t i) {
    const int64_t o = i / pieces, c = i % pieces * width;
    column(o * s.m * s.inner + c, s.inner - c < width ? s.inner - c : width);
  });
}

template <class T>
void forward(const ForwardKernels<T>& kernels_, const Ref& x, const Ref& out, const DimLayout& s) {
  const T* from = data<T>(x);
  T* to = data<T>(out);
  for_slices(
      s, [&](int64_t r, int64_t n) { kernels_.rows(from + r * s.m, to + r * s.m, n, s.m); },
      [&](int64_t at, int64_t width) { kernels_.columns(from + at, to + at, s.m, width, s.inner); });
}

template <class T>
void backward(const BackwardKernels<T>& kernels_, const Ref& g, const Ref& y, const Ref& out, const DimLayout& s) {
  const T *a = data<T>(g), *b = data<T>(y);
  T* to = data<T>(out);
  for_slices(
      s, [&](int64_t r, int64_t n) { kernels_.rows(a + r * s.m, b + r * s.m, to + r * s.m, n, s.m); },
      [&](int64_t at, int64_t width) { kernels_.columns(a + at, b + at, to + at, s.m, width, s.inner); });
}

PyObject* run_forward(const char* where, PyObject* const* args, Py_ssize_t n, const ForwardKernels<float>& f,
                      const ForwardKernels<double>& d) {
  if (!takes(where, n, 2)) return nullptr;
  PyArrayObject* x = array_argument(where, "input", args[0]);
  Floating type;
  if (!x || !floating(where, x, &type)) return nullptr;
  const int dim = dim_argument(where, args[1], PyArray_NDIM(x));
  Ref in = dim < 0 ? Ref() : contiguous_as(x, type.compute);
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type.compute) : nullptr);
  if (!out) return nullptr;
  if (type.compute == NPY_FLOAT) {
    forward(f, in, out, layout_around(x, dim));
  } else {
    forward(d, in, out, layout_around(x, dim));
  }
  return finish(std::move(out), type);
}

PyObject* run_backward(const char* where, PyObject* const* args, Py_ssize_t n, const BackwardKernels<float>& f,
                       const BackwardKernels<double>& d) {
  if (!takes(where, n, 3)) return nullptr;
  PyArrayObject* g = array_argument(where, "g", args[0]);
  PyArrayObject* y = g ? array_argument(where, "out", args[1]) : nullptr;
  Floating type;
  if (!y || !floating(where, g, &type) || !same_shape(where, "g", g, "out", y)) return nullptr;
  const int dim = dim_argument(where, args[2], PyArray_NDIM(g));
  Ref a = dim < 0 ? Ref() : contiguous_as(g, type.compute);
  Ref b = a ? contiguous_as(y, type.compute) : Ref();
  Ref out(b ? new_array(PyArray_NDIM(g), PyArray_DIMS(g), type.compute) : nullptr);
  if (!out) return nullptr;
  if (type.compute == NPY_FLOAT) {
    backward(f, a, b, out, layout_around(g, dim));
  } else {
    backward(d, a, b, out, layout_around(g, dim));
  }
  return finish(std::move(out), type);
}

}  // namespace

PyObject* softmax(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const auto& f = kernels<float>();
  const auto& d = kernels<double>();
  return run_forward("softmax", args, n, {f.softmax, f.softmax_columns}, {d.softmax, d.softmax_columns});
}

PyObject* log_softmax(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const auto& f = kernels<float>();
  const auto& d = kernels<double>();
  return run_forward("log_softmax", args, n, {f.log_softmax, f.log_softmax_columns}, {d.log_softmax, d.log_softmax_columns});
}

PyObject* softmax_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const auto& f = kernels<float>();
  const auto& d = kernels<double>();
  return run_backward("softmax_backward", args, n, {f.softmax_backward, f.softmax_backward_columns},
                      {d.softmax_backward, d.softmax_backward_columns});
}

PyObject* log_softmax_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const auto& f = kernels<float>();
  const auto& d = kernels<double>();
  return run_backward("log_softmax_backward", args, n, {f.log_softmax_backward, f.log_softmax_backward_columns},
                      {d.log_softmax_backward, d.log_softmax_backward_columns});
}

// ---------------------------------------------------------------- cross entropy

namespace {

enum class Reduction { None, Mean, Sum };

bool reduction_argument(const char* where, PyObject* p, Reduction* out) {
  const char* text = PyUnicode_Check(p) ? PyUnicode_AsUTF8(p) : "";
  if (!text) return false;
  if (!strcmp(text, "mean")) *out = Reduction::Mean;
  else if (!strcmp(text, "sum")) *out = Reduction::Sum;
  else if (!strcmp(text, "none")) *out = Reduction::None;
  else return raise("ValueError", "%s: unknown reduction: '%s', expected mean, sum or none", where, text);
  return true;
}

bool raise_target(const char* where, int64_t target, int64_t row, int64_t classes) {
  return raise("IndexError", "%s: target is out of range: %lld at position %lld, expected 0 to %lld", where,
               static_cast<long long>(target), static_cast<long long>(row), static_cast<long long>(classes - 1));
}

// The class indices as int64, checked against [0, classes) and ignore_index; counts those that are not ignored.
bool targets_argument(const char* where, PyArrayObject* target, int64_t rows, int64_t classes, int64_t ignore, Ref* out,
                      int64_t* counted_rows) {
  const int type = PyArray_TYPE(target);
  if (type < NPY_BYTE || type > NPY_ULONGLONG)
    return raise("TypeError", "%s: target is not class indices: %s, expected integers", where, dtype_text(target).c_str());
  *out = contiguous_as(target, NPY_INT64);
  if (!*out) return false;
  const auto* t = data<int64_t>(*out);
  int64_t counted = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t c = load_once(t + i);
    if (c == ignore) continue;
    ++counted;
    if (!in_range(c, classes)) return raise_target(where, c, i, classes);
  }
  *counted_rows = counted;
  return true;
}

struct LossArguments {
  int64_t rows, classes, ignore, counted_rows;
  Reduction reduction;
  const int64_t* target;
  // The class index of a row, or `ignore`; checked again where it is used: Note [Memory that others change] in
  // index/indices.h. False: it is out of range.
  bool read_target(int64_t row, int64_t* out) const {
    *out = load_once(target + row);
    return *out == ignore || in_range(*out, classes);
  }
};

// (N, C) or (C,) logits and (N,) or () targets; args: target, ignore_index, reduction.
bool loss_arguments(const char* where, PyArrayObject* x, PyObject* const* args, Ref* target, LossArguments* out) {
  PyArrayObject* t = array_argument(where, "target", args[0]);
  if (!t) return false;
  const int nd = PyArray_NDIM(x);
  if (nd < 1 || nd > 2 || PyArray_NDIM(t) != nd - 1 || (nd == 2 && PyArray_DIM(t, 0) != PyArray_DIM(x, 0)))
    return raise("ValueError", "%s: sizes differ: logits %s, target %s, expected (N, C) and (N,)", where,
                 shape_text(x).c_str(), shape_text(t).c_str());
  out->rows = nd == 2 ? PyArray_DIM(x, 0) : 1;
  out->classes = PyArray_DIM(x, nd - 1);
  out->ignore = PyLong_AsLongLong(args[1]);
  if (out->ignore == -1 && PyErr_Occurred()) return false;
  if (!reduction_argument(where, args[2], &out->reduction) ||
      !targets_argument(where, t, out->rows, out->classes, out->ignore, target, &out->counted_rows)) {
    return false;
  }
  out->target = data<int64_t>(*target);
  return true;
}

PyObject* raise_changed(const char* where, int64_t row) {
  return raise("IndexError", "%s: target is out of range: it was changed during the call, at position %lld", where,
               static_cast<long long>(row));
}

int64_t row_grain(const LossArguments& l) { return l.classes >= kElements ? 1 : kElements / (l.classes ? l.classes : 1); }

// The row of a target that has changed since it was checked, and is out of range; -1: none.
using ChangedRow = std::atomic<int64_t>;

// The losses of the rows [start, stop), and their sum. Returns the row of such a target, or -1. A separate function, see
// docs/design/native.md, Loops in lambdas.
template <class T>
int64_t row_losses(const LossArguments l, const T* x, T* normalizers, T* out, int64_t start, int64_t stop, double* total) {
  const auto row = kernels<T>().logsumexp_row;
  double sum = 0;
  *total = 0;  // if it ends early
  for (int64_t i = start; i < stop; ++i) {
    int64_t target;
    if (!l.read_target(i, &target)) return i;
    const bool ignored = target == l.ignore;
    T *max_value = normalizers + 2 * i, *log_total = max_value + 1;
    row(x + i * l.classes, l.classes, max_value, log_total);
    const T loss = ignored ? T(0) : *log_total - (x[i * l.classes + target] - *max_value);
    sum += static_cast<double>(loss);
    if (l.reduction == Reduction::None) out[i] = loss;
  }
  *total = sum;
  return -1;
}

// The losses of slices are added in order, so results do not depend on the number of threads.
template <class T>
int64_t compute_losses(const LossArguments& l, const T* x, T* normalizers, T* out) {
  const int64_t grain = row_grain(l), pieces = (l.rows + grain - 1) / grain;
  const Buffer<double> buffer(pieces);
  double* partial_sums = buffer.get();
  ChangedRow changed{-1};
  ranges(l.rows, grain, [&](int64_t start, int64_t stop) {
    const int64_t row = row_losses(l, x, normalizers, out, start, stop, partial_sums + start / grain);
    if (row >= 0) changed = row;
  });
  if (l.reduction != Reduction::None) {
    double sum = 0;
    for (int64_t i = 0; i < pieces; ++i) sum += partial_sums[i];
    if (l.reduction == Reduction::Mean) sum /= static_cast<double>(l.counted_rows);  // all ignored: NaN, as in PyTorch
    *out = static_cast<T>(sum);
  }
  return changed;
}

// The gradients of the rows [start, stop); returns as row_losses.
template <class T>
int64_t row_gradients(const LossArguments l, const T* g, const T* x, const T* normalizers, T* gx, int64_t start,
                      int64_t stop) {
  const auto row = kernels<T>().scaled_softmax_row;
  for (int64_t i = start; i < stop; ++i) {
    T factor = l.reduction == Reduction::None ? g[i] : *g;
    if (l.reduction == Reduction::Mean) factor /= static_cast<T>(l.counted_rows);
    T* to = gx + i * l.classes;
    int64_t target;
    if (!l.read_target(i, &target)) return i;
    if (target == l.ignore) {
      memset(to, 0, sizeof(T) * static_cast<size_t>(l.classes));
      continue;
    }
    row(x + i * l.classes, to, l.classes, normalizers[2 * i], normalizers[2 * i + 1], factor);
    to[target] -= factor;
  }
  return -1;
}

template <class T>
int64_t compute_gradients(const LossArguments& l, const T* g, const T* x, const T* normalizers, T* gx) {
  ChangedRow changed{-1};
  ranges(l.rows, row_grain(l), [&](int64_t start, int64_t stop) {
    const int64_t row = row_gradients(l, g, x, normalizers, gx, start, stop);
    if (row >= 0) changed = row;
  });
  return changed;
}

}  // namespace

// cross_entropy(logits, target, ignore_index, reduction) -> (loss, normalizers): of each row the largest logit, and the
// logarithm of the sum of e^(x - that), in the dtype in which it computes
PyObject* cross_entropy(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "cross_entropy";
  if (!takes(where, n, 4)) return nullptr;
  PyArrayObject* x = array_argument(where, "logits", args[0]);
  Floating type;
  Ref target;
  LossArguments l;
  if (!x || !floating(where, x, &type) || !loss_arguments(where, x, args + 1, &target, &l)) return nullptr;
  Ref in = contiguous_as(x, type.compute);
  npy_intp rows = l.rows, pairs[] = {rows, 2};
  Ref normalizers(in ? new_array(2, pairs, type.compute) : nullptr);
  const int nd = l.reduction == Reduction::None ? PyArray_NDIM(x) - 1 : 0;
  Ref out(normalizers ? new_array(nd, &rows, type.compute) : nullptr);
  if (!out) return nullptr;
  int64_t changed;
  {
    Unlocked unlocked(l.rows * l.classes > kUnlock);
    changed = type.compute == NPY_FLOAT ? compute_losses(l, data<float>(in), data<float>(normalizers), data<float>(out))
                                        : compute_losses(l, data<double>(in), data<double>(normalizers), data<double>(out));
  }
  if (changed >= 0) return raise_changed(where, changed);
  Ref loss(finish(std::move(out), type));
  return loss ? PyTuple_Pack(2, loss.get(), normalizers.get()) : nullptr;
}

// cross_entropy_backward(g, logits, normalizers, target, ignore_index, reduction) -> gradient of the logits
PyObject* cross_entropy_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "cross_entropy_backward";
  if (!takes(where, n, 6)) return nullptr;
  PyArrayObject* g = array_argument(where, "g", args[0]);
  PyArrayObject* x = g ? array_argument(where, "logits", args[1]) : nullptr;
  PyArrayObject* pairs = x ? array_argument(where, "normalizers", args[2]) : nullptr;
  Floating type;
  Ref target;
  LossArguments l;
  if (!pairs || !floating(where, x, &type) || !loss_arguments(where, x, args + 3, &target, &l)) return nullptr;
  if (PyArray_SIZE(pairs) != 2 * l.rows) {
    return raise("ValueError", "%s: normalizers have another size: %s, expected %lld rows of 2", where,
                 shape_text(pairs).c_str(), static_cast<long long>(l.rows));
  }
  const int64_t expected = l.reduction == Reduction::None ? l.rows : 1;
  if (PyArray_SIZE(g) != expected) {
    return raise("ValueError", "%s: g has another size: %s, expected %lld elements", where, shape_text(g).c_str(),
                 static_cast<long long>(expected));
  }
  Ref a = contiguous_as(g, type.compute);
  Ref b = a ? contiguous_as(x, type.compute) : Ref();
  Ref c = b ? contiguous_as(pairs, type.compute) : Ref();
  Ref out(c ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type.compute) : nullptr);
  if (!out) return nullptr;
  int64_t changed;
  {
    Unlocked unlocked(l.rows * l.classes > kUnlock);
    changed = type.compute == NPY_FLOAT
                  ? compute_gradients(l, data<float>(a), data<float>(b), data<float>(c), data<float>(out))
                  : compute_gradients(l, data<double>(a), data<double>(b), data<double>(c), data<double>(out));
  }
  if (changed >= 0) return raise_changed(where, changed);
  return finish(std::move(out), type);
}

}  // namespace shmtensor
