// Connectionist temporal classification (Graves, Fernandez, Gomez and Schmidhuber 2006): a sample on
// a thread.
//
// The states of a sample with S labels are S + 1 blanks and S labels between them. A row holds them
// apart, so that a step is vector code:
//
//     alpha   | blank 0 ... blank S | -inf | label 0 ... label S - 1 |
//     beta    | blank 0 ... blank S | label 0 ... label S - 1 | -inf |
//
// alpha[t] is the logarithm of what all beginnings of alignments amount to that are in a state at t,
// beta[t] the same of all ends. Only states that can be reached by t and can still come to an end
// are worked on; the others are -infinity.
#include "kernels/loss/ctc_loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 2048;  // states of all steps

struct Batch {
  int64_t steps, samples, classes, most, blank;  // most: labels of a sample
  const int64_t *targets, *lengths, *labels;     // labels: how many each sample has
  int64_t width() const { return 2 * most + 2; }
  int64_t states() const { return steps * samples * width(); }
};

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

// One sample: what both directions need at a step.
template <class T>
struct Sample {
  Sample(const Batch& batch, const T* x, int64_t i)
      : target(batch.targets + i * batch.most),
        length(batch.lengths[i]),
        count(batch.labels[i]),
        blank(batch.blank),
        x_(x + i * batch.classes),
        stride_(batch.samples * batch.classes),
        jump(static_cast<size_t>(count) + 1, kNone<T>),
        y(static_cast<size_t>(count) + 1) {
    for (int64_t k = 1; k < count; ++k) jump[k] = target[k] != target[k - 1] ? T(0) : kNone<T>;
  }
  const T* row(int64_t t) const { return x_ + t * stride_; }
  int64_t first(int64_t t) const { return count > length - t ? count - (length - t) : 0; }
  int64_t last(int64_t t) const { return t < count ? t : count; }  // the last blank
  // The log-probabilities of the labels from `lo` to `hi`.
  void look(int64_t t, int64_t lo, int64_t hi) {
    const T* from = row(t);
    for (int64_t k = lo; k < hi; ++k) y[k] = from[target[k]];
  }

  const int64_t* target;
  int64_t length, count, blank;

 private:
  const T* x_;
  int64_t stride_;

 public:
  std::vector<T> jump, y;  // jump[k]: 0 where label k may follow label k - 1 without a blank
};

template <class T>
void fill(T* out, int64_t from, int64_t to, T value) {
  for (int64_t i = from; i < to; ++i) out[i] = value;
}

// What is not in [lo, hi) of n.
template <class T>
void close(T* out, int64_t lo, int64_t hi, int64_t n) {
  fill(out, 0, lo, kNone<T>);
  fill(out, hi, n, kNone<T>);
}

// The loss of a sample; alpha has a row for each of the batch's steps.
template <class T>
T forward(const Batch& batch, Sample<T>& s, T* alpha) {
  const int64_t n = s.count, width = batch.width();
  std::vector<T> start(static_cast<size_t>(2 * n + 2), kNone<T>);
  start[0] = 0;
  const T *blanks = start.data(), *labels = start.data() + n + 2;
  for (int64_t t = 0; t < s.length; ++t) {
    T *out = alpha + t * width, *named = out + n + 2;
    const int64_t lo = s.first(t), hi = s.last(t) + 1, end = hi < n ? hi : n;
    out[n + 1] = kNone<T>;
    close(out, lo, hi, n + 1);
    close(named, lo, end, n);
    if (lo < hi)
      layers<T>().ctc_blanks(blanks + lo, labels + lo - 1, s.row(t)[s.blank], out + lo, hi - lo);
    if (lo < end) {
      s.look(t, lo, end);
      layers<T>().ctc_labels(labels + lo, blanks + lo, labels + lo - 1, s.jump.data() + lo,
                             s.y.data() + lo, named + lo, end - lo);
    }
    blanks = out;
    labels = named;
  }
  const T a = blanks[n], b = n ? labels[n - 1] : kNone<T>, top = a > b ? a : b;
  if (top == kNone<T> && a == a && b == b) return -kNone<T>;
  return -(top + std::log(std::exp(a - top) + std::exp(b - top)));
}

// The probabilities of a step less those of the alignments, times g.
template <class T>
void slope_of_step(const T* x, T* share, T* out, int64_t classes, T g) {
  T top = kNone<T>;
  for (int64_t c = 0; c < classes; ++c) top = x[c] > top ? x[c] : top;
  if (top <= 80) {
    layers<T>().exp_row(x, out, classes);
  } else {
    for (int64_t c = 0; c < classes; ++c) out[c] = std::exp(x[c]);
  }
  for (int64_t c = 0; c < classes; ++c) out[c] = (out[c] - share[c]) * g;
}

template <class T>
void backward(const Batch& batch, Sample<T>& s, const T* alpha, T loss, T g, bool zero, T* out) {
  const int64_t n = s.count, width = batch.width(), stride = batch.samples * batch.classes;
  const bool still = zero && loss == -kNone<T>;
  for (int64_t t = still ? 0 : s.length; t < batch.steps; ++t)
    fill(out + t * stride, 0, batch.classes, T(0));
  if (still) return;
  const size_t size = static_cast<size_t>(2 * n + 2);
  std::vector<T> now(size, kNone<T>), before(size, kNone<T>), part(static_cast<size_t>(n) + 1);
  std::vector<T> share(static_cast<size_t>(batch.classes)), even(static_cast<size_t>(n) + 1);
  before[n] = 0;
  for (int64_t t = s.length - 1; t >= 0; --t) {
    const T *blanks = before.data(), *labels = blanks + n + 1, *x = s.row(t);
    T *out_blanks = now.data(), *out_labels = out_blanks + n + 1;
    const T* reached = alpha + t * width;
    const int64_t lo = s.first(t), hi = s.last(t) + 1, end = hi < n ? hi : n;
    close(out_blanks, lo, hi, n + 1);
    close(out_labels, lo, end, n);
    fill(share.data(), 0, batch.classes, loss == -kNone<T> ? std::numeric_limits<T>::quiet_NaN() : 0);
    if (lo < hi) {
      const T y = x[s.blank];
      layers<T>().ctc_blanks(blanks + lo, labels + lo, y, out_blanks + lo, hi - lo);
      fill(even.data(), lo, hi, y);
      layers<T>().ctc_shares(reached + lo, out_blanks + lo, even.data() + lo, part.data() + lo, hi - lo,
                             loss);
      T total = 0;
      for (int64_t k = lo; k < hi; ++k) total += part[k];
      share[s.blank] += total;
    }
    if (lo < end) {
      s.look(t, lo, end);
      layers<T>().ctc_labels(labels + lo, blanks + lo + 1, labels + lo + 1, s.jump.data() + lo + 1,
                             s.y.data() + lo, out_labels + lo, end - lo);
      layers<T>().ctc_shares(reached + n + 2 + lo, out_labels + lo, s.y.data() + lo, part.data() + lo,
                             end - lo, loss);
      for (int64_t k = lo; k < end; ++k) share[s.target[k]] += part[k];
    }
    slope_of_step(x, share.data(), out + t * stride, batch.classes, g);
    now.swap(before);
  }
}

// Lengths that fit their arrays, and labels that there are.
bool sound(const Batch& b) {
  for (int64_t i = 0; i < b.samples; ++i) {
    if (b.lengths[i] < 0 || b.lengths[i] > b.steps || b.labels[i] < 0 || b.labels[i] > b.most)
      return false;
    for (int64_t k = 0; k < b.labels[i]; ++k) {
      const int64_t label = b.targets[i * b.most + k];
      if (label < 0 || label >= b.classes) return false;
    }
  }
  return b.blank >= 0 && b.blank < b.classes;
}

// x, targets, lengths and blank, held for as long as this lives.
struct Given {
  LayerOperand targets, lengths, labels;
  Ref x;
  Batch batch;
  bool read(PyArrayObject* given, PyObject* where, PyObject* input, PyObject* target, PyObject* blank) {
    long nothing;
    if (!given || PyArray_NDIM(given) != 3 || !number(blank, &nothing) || !PyArray_CheckExact(where) ||
        PyArray_NDIM(as_array(where)) != 2)
      return false;
    const npy_intp *dims = PyArray_DIMS(given), *rows = PyArray_DIMS(as_array(where));
    batch = {dims[0], dims[1], dims[2], rows[1], nothing, nullptr, nullptr, nullptr};
    if (rows[0] != dims[1] || !targets.read(where, NPY_INT64, dims[1] * rows[1]) ||
        !lengths.read(input, NPY_INT64, dims[1]) || !labels.read(target, NPY_INT64, dims[1]))
      return false;
    batch.targets = targets.as<int64_t>();
    batch.lengths = lengths.as<int64_t>();
    batch.labels = labels.as<int64_t>();
    x = contiguous(given);
    return x && sound(batch);
  }
};

}  // namespace

PyObject* ctc_loss(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("ctc_loss", n, 5, 5) < 0) return nullptr;
  PyArrayObject* x = real(args[0]);
  Given given;
  if (!given.read(x, args[1], args[2], args[3], args[4])) return left_to_caller();
  const Batch& b = given.batch;
  const int type = PyArray_TYPE(x);
  const npy_intp dims[] = {b.samples, b.steps, b.width()};
  Ref loss(fresh(1, dims, type)), alpha(fresh(3, dims, type));
  if (!loss || !alpha) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    Unlocked unlocked(b.states() > kUnlock);
    slices(b.samples, [&](int64_t i) {
      Sample<T> sample(b, data<T>(given.x), i);
      data<T>(loss)[i] = forward(b, sample, data<T>(alpha) + i * b.steps * b.width());
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return PyTuple_Pack(2, loss.get(), alpha.get());
}

PyObject* ctc_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("ctc_loss_backward", n, 9, 9) < 0) return nullptr;
  PyArrayObject* x = real(args[1]);
  Given given;
  if (!given.read(x, args[2], args[5], args[6], args[7])) return left_to_caller();
  const Batch& b = given.batch;
  const int type = PyArray_TYPE(x);
  LayerOperand g, loss, alpha;
  if (!g.read(args[0], type, b.samples) || !loss.read(args[3], type, b.samples) ||
      !alpha.read(args[4], type, b.states()))
    return left_to_caller();
  Ref out(fresh(3, PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const bool zero = args[8] == Py_True;
  const auto go = [&](auto nothing) {
    using T = decltype(nothing);
    Unlocked unlocked(b.states() > kUnlock);
    slices(b.samples, [&](int64_t i) {
      Sample<T> sample(b, data<T>(given.x), i);
      backward(b, sample, alpha.as<T>() + i * b.steps * b.width(), loss.as<T>()[i], g.as<T>()[i], zero,
               data<T>(out) + i * b.classes);
    });
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

}  // namespace shmtensor
