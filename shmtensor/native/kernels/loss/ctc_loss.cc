// Connectionist temporal classification (Graves, Fernandez, Gomez and Schmidhuber 2006): one sample per thread.
//
// The states of a sample with S labels are S + 1 blanks and S labels between them. A row stores blanks and labels
// separately, so that a step is vector code:
//
//     alpha   | blank 0 ... blank S | -inf | label 0 ... label S - 1 |
//     beta    | blank 0 ... blank S | label 0 ... label S - 1 | -inf |
//
// alpha[t] is the logarithm of the total probability of all prefixes of alignments that are in a state at t, beta[t]
// that of all suffixes. Only states that are reachable at t and from which the end is reachable are computed; the
// others are -infinity.
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
  int64_t steps, samples, classes, max_labels, blank;  // max_labels: columns of targets
  const int64_t *targets, *input_lengths, *target_lengths;     // target_lengths: labels of each sample
  int64_t width() const { return 2 * max_labels + 2; }
  int64_t states() const { return steps * samples * width(); }
};

template <class T>
constexpr T kNegativeInfinity = -std::numeric_limits<T>::infinity();

// One sample, for both directions.
template <class T>
struct Sample {
  Sample(const Batch& batch, const T* x, int64_t i)
      : target(batch.targets + i * batch.max_labels),
        input_length(batch.input_lengths[i]),
        label_count(batch.target_lengths[i]),
        blank(batch.blank),
        x_(x + i * batch.classes),
        stride_(batch.samples * batch.classes),
        jump(static_cast<size_t>(label_count) + 1, kNegativeInfinity<T>),
        label_log_probs(static_cast<size_t>(label_count) + 1) {
    for (int64_t k = 1; k < label_count; ++k) jump[k] = target[k] != target[k - 1] ? T(0) : kNegativeInfinity<T>;
  }
  const T* row(int64_t t) const { return x_ + t * stride_; }
  int64_t first(int64_t t) const { return label_count > input_length - t ? label_count - (input_length - t) : 0; }
  int64_t last(int64_t t) const { return t < label_count ? t : label_count; }  // the last blank
  // Loads the log-probabilities of the labels from `first_state` to `end_state`.
  void load_labels(int64_t t, int64_t first, int64_t stop) {
    const T* from = row(t);
    for (int64_t k = first; k < stop; ++k) label_log_probs[k] = from[target[k]];
  }

  const int64_t* target;
  int64_t input_length, label_count, blank;

 private:
  const T* x_;
  int64_t stride_;

 public:
  std::vector<T> jump, label_log_probs;  // jump[k]: 0 where label k may follow label k - 1 without a blank
};

template <class T>
void fill(T* out, int64_t from, int64_t to, T value) {
  for (int64_t i = from; i < to; ++i) out[i] = value;
}

// Fills [0, n) outside of [first_state, end_state) with -infinity.
template <class T>
void fill_outside(T* out, int64_t first, int64_t stop, int64_t n) {
  fill(out, 0, first, kNegativeInfinity<T>);
  fill(out, stop, n, kNegativeInfinity<T>);
}

// The loss of a sample; alpha has a row for each step of the batch.
template <class T>
T forward(const Batch& batch, Sample<T>& s, T* alpha) {
  const int64_t n = s.label_count, width = batch.width();
  std::vector<T> start(static_cast<size_t>(2 * n + 2), kNegativeInfinity<T>);
  start[0] = 0;
  const T *blanks = start.data(), *labels = start.data() + n + 2;
  for (int64_t t = 0; t < s.input_length; ++t) {
    T *out = alpha + t * width, *out_labels = out + n + 2;
    const int64_t first = s.first(t), stop = s.last(t) + 1, label_stop = stop < n ? stop : n;
    out[n + 1] = kNegativeInfinity<T>;
    fill_outside(out, first, stop, n + 1);
    fill_outside(out_labels, first, label_stop, n);
    if (first < stop)
      nn_kernels<T>().ctc_blanks(blanks + first, labels + first - 1, s.row(t)[s.blank], out + first, stop - first);
    if (first < label_stop) {
      s.load_labels(t, first, label_stop);
      nn_kernels<T>().ctc_labels(labels + first, blanks + first, labels + first - 1, s.jump.data() + first,
                                 s.label_log_probs.data() + first, out_labels + first, label_stop - first);
    }
    blanks = out;
    labels = out_labels;
  }
  const T a = blanks[n], b = n ? labels[n - 1] : kNegativeInfinity<T>, max_value = a > b ? a : b;
  if (max_value == kNegativeInfinity<T> && a == a && b == b) return -kNegativeInfinity<T>;
  return -(max_value + std::log(std::exp(a - max_value) + std::exp(b - max_value)));
}

// The gradient of a step: the probabilities minus the posteriors of the alignments, times g.
template <class T>
void step_gradient(const T* x, T* posteriors, T* out, int64_t classes, T g) {
  T max_value = kNegativeInfinity<T>;
  for (int64_t c = 0; c < classes; ++c) max_value = x[c] > max_value ? x[c] : max_value;
  if (max_value <= 80) {
    nn_kernels<T>().exp_row(x, out, classes);
  } else {
    for (int64_t c = 0; c < classes; ++c) out[c] = std::exp(x[c]);
  }
  for (int64_t c = 0; c < classes; ++c) out[c] = (out[c] - posteriors[c]) * g;
}

template <class T>
void backward(const Batch& batch, Sample<T>& s, const T* alpha, T loss, T g, bool zero, T* out) {
  const int64_t n = s.label_count, width = batch.width(), stride = batch.samples * batch.classes;
  const bool is_zeroed = zero && loss == -kNegativeInfinity<T>;
  for (int64_t t = is_zeroed ? 0 : s.input_length; t < batch.steps; ++t) fill(out + t * stride, 0, batch.classes, T(0));
  if (is_zeroed) return;
  const size_t size = static_cast<size_t>(2 * n + 2);
  std::vector<T> beta(size, kNegativeInfinity<T>), next_beta(size, kNegativeInfinity<T>), terms(static_cast<size_t>(n) + 1);
  std::vector<T> posteriors(static_cast<size_t>(batch.classes)), blank_log_probs(static_cast<size_t>(n) + 1);
  next_beta[n] = 0;
  for (int64_t t = s.input_length - 1; t >= 0; --t) {
    const T *blanks = next_beta.data(), *labels = blanks + n + 1, *x = s.row(t);
    T *out_blanks = beta.data(), *out_labels = out_blanks + n + 1;
    const T* alpha_row = alpha + t * width;
    const int64_t first = s.first(t), stop = s.last(t) + 1, label_stop = stop < n ? stop : n;
    fill_outside(out_blanks, first, stop, n + 1);
    fill_outside(out_labels, first, label_stop, n);
    fill(posteriors.data(), 0, batch.classes, loss == -kNegativeInfinity<T> ? std::numeric_limits<T>::quiet_NaN() : 0);
    if (first < stop) {
      const T label_log_probs = x[s.blank];
      nn_kernels<T>().ctc_blanks(blanks + first, labels + first, label_log_probs, out_blanks + first, stop - first);
      fill(blank_log_probs.data(), first, stop, label_log_probs);
      nn_kernels<T>().ctc_shares(alpha_row + first, out_blanks + first, blank_log_probs.data() + first, terms.data() + first,
                                 stop - first, loss);
      T total = 0;
      for (int64_t k = first; k < stop; ++k) total += terms[k];
      posteriors[s.blank] += total;
    }
    if (first < label_stop) {
      s.load_labels(t, first, label_stop);
      nn_kernels<T>().ctc_labels(labels + first, blanks + first + 1, labels + first + 1, s.jump.data() + first + 1,
                                 s.label_log_probs.data() + first, out_labels + first, label_stop - first);
      nn_kernels<T>().ctc_shares(alpha_row + n + 2 + first, out_labels + first, s.label_log_probs.data() + first,
                                 terms.data() + first, label_stop - first, loss);
      for (int64_t k = first; k < label_stop; ++k) posteriors[s.target[k]] += terms[k];
    }
    step_gradient(x, posteriors.data(), out + t * stride, batch.classes, g);
    beta.swap(next_beta);
  }
}

// Are the lengths within their arrays, and all labels classes?
bool is_valid(const Batch& b) {
  for (int64_t i = 0; i < b.samples; ++i) {
    if (b.input_lengths[i] < 0 || b.input_lengths[i] > b.steps || b.target_lengths[i] < 0 ||
        b.target_lengths[i] > b.max_labels)
      return false;
    for (int64_t k = 0; k < b.target_lengths[i]; ++k) {
      const int64_t label = b.targets[i * b.max_labels + k];
      if (label < 0 || label >= b.classes) return false;
    }
  }
  return b.blank >= 0 && b.blank < b.classes;
}

// A private copy of an array of int64 with that many elements; false if it is another.
bool read_private(PyObject* p, int64_t size, Ref* out) {
  if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != NPY_INT64 || PyArray_SIZE(as_array(p)) != size) return false;
  *out = private_copy_as(as_array(p), NPY_INT64);
  return static_cast<bool>(*out);
}

// The parsed arguments; keeps the arrays alive. Labels and lengths are private copies, for they are read many times: Note
// [Memory that others change] in index/indices.h.
struct Arguments {
  Ref targets, input_lengths, target_lengths, x;
  Batch batch;
  bool read(PyArrayObject* arguments, PyObject* targets_array, PyObject* input, PyObject* target, PyObject* blank) {
    long blank_index;
    if (!arguments || PyArray_NDIM(arguments) != 3 || !parse_long(blank, &blank_index) ||
        !PyArray_CheckExact(targets_array) || PyArray_NDIM(as_array(targets_array)) != 2)
      return false;
    const npy_intp *dims = PyArray_DIMS(arguments), *rows = PyArray_DIMS(as_array(targets_array));
    batch = {dims[0], dims[1], dims[2], rows[1], blank_index, nullptr, nullptr, nullptr};
    if (rows[0] != dims[1] || !read_private(targets_array, dims[1] * rows[1], &targets) ||
        !read_private(input, dims[1], &input_lengths) || !read_private(target, dims[1], &target_lengths))
      return false;
    batch.targets = data<int64_t>(targets);
    batch.input_lengths = data<int64_t>(input_lengths);
    batch.target_lengths = data<int64_t>(target_lengths);
    x = contiguous(arguments);
    return x && is_valid(batch);
  }
};

}  // namespace

PyObject* ctc_loss(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("ctc_loss", n, 5)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  Arguments arguments;
  if (!arguments.read(x, args[1], args[2], args[3], args[4])) return fall_back();
  const Batch& b = arguments.batch;
  const int type = PyArray_TYPE(x);
  const npy_intp dims[] = {b.samples, b.steps, b.width()};
  Ref loss(new_array(1, dims, type)), alpha(new_array(3, dims, type));
  if (!loss || !alpha) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    Unlocked unlocked(b.states() > kUnlock);
    slices(b.samples, [&](int64_t i) {
      Sample<T> sample(b, data<T>(arguments.x), i);
      data<T>(loss)[i] = forward(b, sample, data<T>(alpha) + i * b.steps * b.width());
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(2, loss.get(), alpha.get());
}

PyObject* ctc_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("ctc_loss_backward", n, 9)) return nullptr;
  PyArrayObject* x = real_array(args[1]);
  Arguments arguments;
  if (!arguments.read(x, args[2], args[5], args[6], args[7])) return fall_back();
  const Batch& b = arguments.batch;
  const int type = PyArray_TYPE(x);
  LayerOperand g, loss, alpha;
  if (!g.read(args[0], type, b.samples) || !loss.read(args[3], type, b.samples) || !alpha.read(args[4], type, b.states()))
    return fall_back();
  Ref out(new_array(3, PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const bool zero = args[8] == Py_True;
  const auto compute = [&](auto blank_index) {
    using T = decltype(blank_index);
    Unlocked unlocked(b.states() > kUnlock);
    slices(b.samples, [&](int64_t i) {
      Sample<T> sample(b, data<T>(arguments.x), i);
      backward(b, sample, alpha.as<T>() + i * b.steps * b.width(), loss.as<T>()[i], g.as<T>()[i], zero,
               data<T>(out) + i * b.classes);
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

}  // namespace shmtensor
