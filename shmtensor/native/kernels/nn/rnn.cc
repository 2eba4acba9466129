// Recurrent layers over a packed batch: at step t the first sizes[t] sequences of the batch go on, so
// that the rows of a step lie together and those of a sequence do not:
//
//     x   | step 0: sizes[0] rows | step 1: sizes[1] rows | ...     sizes never increase
//
// x holds the input's share of all gates (one product, made by the caller). A step is a product of the
// states before it with the weight, and the gates in one pass over it (rnn_gates.simd.h). Backwards a step is
// the gates' gradient, and a product that takes it to the states before; the weights' gradients are
// products over all steps, which the caller makes of what is returned.
//
// Where a direction goes from the end to the beginning, sequences that end at a step start there:
// their state before is the initial one, that of the others is the step's after it (`pieces`).
#include "kernels/nn/rnn.h"

#include <vector>

#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 4096;  // elements of gates, of all steps
constexpr int64_t kGrain = 8192;   // elements of gates that are worth a thread

enum class Kind { kLstm, kGru, kTanh, kRelu };

bool kind_of(PyObject* name, Kind* out) {
  const char* names[] = {"lstm", "gru", "tanh", "relu"};
  for (int i = 0; i < 4; ++i) {
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
      *out = static_cast<Kind>(i);
      return true;
    }
  }
  return false;
}

// A layer's sizes: h is the width of a state, n that of a cell, which a projection makes smaller.
struct Shape {
  Kind kind;
  bool reverse;
  int64_t steps, batch, rows, n, h;
  const int64_t* sizes;
  std::vector<int64_t> starts;  // the first row of each step

  int64_t gates() const { return (kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1) * n; }
  int64_t kept() const { return kind == Kind::kLstm || kind == Kind::kGru ? 4 * n : 0; }
  bool projected() const { return h != n; }
  int64_t grain() const { return kGrain / gates() + 1; }
  int64_t step(int64_t i) const { return reverse ? steps - 1 - i : i; }  // of the i-th in time

  // sizes never increase, and sum to `rows`; the states have `batch` rows.
  bool read(PyObject* given) {
    if (!PyArray_CheckExact(given) || PyArray_TYPE(as_array(given)) != NPY_INT64 ||
        PyArray_NDIM(as_array(given)) != 1 || !PyArray_ISCARRAY_RO(as_array(given)))
      return false;
    sizes = data<int64_t>(as_array(given));
    steps = PyArray_SIZE(as_array(given));
    starts.resize(static_cast<size_t>(steps));
    int64_t sum = 0, before = batch;
    for (int64_t t = 0; t < steps; ++t) {
      if (sizes[t] < 1 || sizes[t] > before) return false;
      starts[t] = sum;
      sum += before = sizes[t];
    }
    return steps && sum == rows && sizes[0] == batch;
  }

  // f(first sequence, how many, the row of their states before this step or -1: the initial ones).
  template <class F>
  void pieces(int64_t t, F f) const {
    if (!reverse) return f(int64_t(0), sizes[t], t ? starts[t - 1] : -1);
    const int64_t more = t + 1 < steps ? sizes[t + 1] : 0;
    if (more) f(int64_t(0), more, starts[t + 1]);
    if (more < sizes[t]) f(more, sizes[t] - more, int64_t(-1));
  }
};

// The states before a piece of a step.
template <class T>
const T* before(const T* initial, const T* all, int64_t first, int64_t row, int64_t width) {
  return row < 0 ? initial + first * width : all + (row + first) * width;
}

// c (m x n) = a (m x k) b + beta c; `turned`: b is (n x k).
template <class T>
void product(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, bool turned, T beta) {
  gemm(Gemm<T>{a, b, c, m, n, k, k, turned ? k : n, n, false, turned, beta});
}

template <class T>
struct Forward {
  const T *x, *h, *c, *w, *b, *w_hr;
  T *out, *cells, *gates, *back, *raw;  // back: a step's product; raw: a step's h before projection

  void run(const Shape& s) const {
    for (int64_t i = 0; i < s.steps; ++i) {
      const int64_t t = s.step(i);
      s.pieces(t, [&](int64_t first, int64_t count, int64_t row) {
        piece(s, s.starts[t] + first, count, before(h, out, first, row, s.h),
              s.kind == Kind::kLstm ? before(c, cells, first, row, s.n) : nullptr);
      });
    }
  }

 private:
  // `at`: the first row; h_before, c_before: the states of its sequences.
  void piece(const Shape& s, int64_t at, int64_t count, const T* h_before, const T* c_before) const {
    const Layers<T>& kernels = layers<T>();
    const int64_t n = s.n, width = s.gates();
    T* y = w_hr ? raw : out + at * n;
    T* sums = s.kind == Kind::kGru ? back : s.kind == Kind::kLstm ? gates + at * width : y;
    product(h_before, w, sums, count, width, s.h, true, T(0));
    ranges(count, s.grain(), [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T* row = x + (at + r) * width;
        switch (s.kind) {
          case Kind::kLstm:
            kernels.lstm_gates(row, sums + r * width, c_before + r * n, cells + (at + r) * n,
                               y + r * n, n);
            break;
          case Kind::kGru:
            kernels.gru_gates(row, sums + r * width, b, h_before + r * n, gates + (at + r) * 4 * n,
                              y + r * n, n);
            break;
          case Kind::kTanh:
            kernels.tanh_gates(row, y + r * n, n);
            break;
          case Kind::kRelu:
            kernels.relu_gates(row, y + r * n, n);
        }
      }
    });
    if (w_hr) product(raw, w_hr, out + at * s.h, count, s.h, n, true, T(0));
  }
};

template <class T>
struct Backward {
  const T *g_out, *g_cells, *h, *c, *w, *w_hr, *out, *cells, *gates;
  T *by_x, *by_back, *by_h, *by_c;  // by_h, by_c: the gradients of the states, carried back in time
  T *totals, *raw;  // the gradient of each step's output, and of a step's h before projection

  void run(const Shape& s) const {
    for (int64_t i = s.steps - 1; i >= 0; --i) {
      const int64_t t = s.step(i), at = s.starts[t], count = s.sizes[t], width = s.gates();
      T* dh = totals + (w_hr ? at * s.h : 0);
      for (int64_t j = 0; j < count * s.h; ++j) dh[j] = g_out[at * s.h + j] + by_h[j];
      if (s.kind == Kind::kLstm) {
        for (int64_t j = 0; j < count * s.n; ++j) by_c[j] += g_cells[at * s.n + j];
      }
      if (w_hr) product(dh, w_hr, raw, count, s.n, s.h, false, T(0));
      s.pieces(t, [&](int64_t first, int64_t n, int64_t row) {
        piece(s, at + first, first, n, (w_hr ? raw : dh) + first * s.n,
              before(h, out, first, row, s.h),
              s.kind == Kind::kLstm ? before(c, cells, first, row, s.n) : nullptr);
      });
      const T* delta = (s.kind == Kind::kGru ? by_back : by_x) + at * width;
      product(delta, w, by_h, count, s.h, width, false, s.kind == Kind::kGru ? T(1) : T(0));
    }
  }

 private:
  // `at`: the first row, `first`: the first sequence; dh: the gradient of its h.
  void piece(const Shape& s, int64_t at, int64_t first, int64_t count, const T* dh,
             const T* h_before, const T* c_before) const {
    const Layers<T>& kernels = layers<T>();
    const int64_t n = s.n, width = s.gates();
    ranges(count, s.grain(), [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        T* delta = by_x + (at + r) * width;
        switch (s.kind) {
          case Kind::kLstm:
            kernels.lstm_slopes(gates + (at + r) * width, c_before + r * n, cells + (at + r) * n,
                                dh + r * n, by_c + (first + r) * n, delta, n);
            break;
          case Kind::kGru:
            kernels.gru_slopes(gates + (at + r) * 4 * n, h_before + r * n, dh + r * n,
                               by_h + (first + r) * n, delta, by_back + (at + r) * width, n);
            break;
          case Kind::kTanh:
            kernels.tanh_slopes(out + (at + r) * n, dh + r * n, delta, n);
            break;
          case Kind::kRelu:
            kernels.relu_slopes(out + (at + r) * n, dh + r * n, delta, n);
        }
      }
    });
  }
};

// The states and weights of a layer.
struct Weights {
  LayerOperand h, c, w, w_hr;
  int type;

  // Sizes go to the shape, all but its steps and rows.
  bool read(PyObject* h_, PyObject* c_, PyObject* w_, PyObject* w_hr_, Shape* s) {
    PyArrayObject* state = real(h_);
    if (!state || PyArray_NDIM(state) != 2) return false;
    type = PyArray_TYPE(state);
    s->batch = PyArray_DIM(state, 0);
    s->h = s->n = PyArray_DIM(state, 1);
    if (s->kind == Kind::kLstm) {
      if (!PyArray_CheckExact(c_) || PyArray_NDIM(as_array(c_)) != 2) return false;
      s->n = PyArray_DIM(as_array(c_), 1);
    }
    return h.read(h_, type, s->batch * s->h) && w.read(w_, type, s->gates() * s->h) &&
           (s->kind != Kind::kLstm || c.read(c_, type, s->batch * s->n)) &&
           (s->projected() ? w_hr.read(w_hr_, type, s->h * s->n) : w_hr_ == Py_None);
  }
};

PyObject* matrix(int64_t rows, int64_t columns, int type) {
  const npy_intp dims[] = {rows, columns};
  return fresh(2, dims, type);
}

PyObject* misfit(const char* where) {
  if (PyErr_Occurred()) return nullptr;
  return raise("TypeError", "%s: the operands do not fit each other", where);
}

}  // namespace

PyObject* rnn_layer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count_arguments("rnn_layer", count, 9, 9) < 0) return nullptr;
  Shape s;
  Weights weights;
  LayerOperand x, b;
  PyArrayObject* given = real(args[1]);
  if (!kind_of(args[0], &s.kind) || !given || !weights.read(args[2], args[3], args[4], args[6], &s))
    return misfit("rnn_layer");
  const int type = weights.type;
  s.reverse = args[8] == Py_True;
  s.rows = PyArray_DIM(given, 0);
  if (!s.read(args[7]) || !x.read(args[1], type, s.rows * s.gates()) ||
      !optional(&b, args[5], type, s.gates()))
    return misfit("rnn_layer");
  const bool lstm = s.kind == Kind::kLstm;
  Ref out(matrix(s.rows, s.h, type)), cells(matrix(lstm ? s.rows : 0, s.n, type));
  Ref gates(matrix(s.kept() ? s.rows : 0, s.kept(), type));
  if (!out || !cells || !gates || !blas_ensure()) return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> back(s.kind == Kind::kGru ? s.batch * s.gates() : 0), none;
    std::vector<T> raw(s.projected() ? s.batch * s.n : 0);
    if (s.kind == Kind::kGru && !b.held) none.resize(s.gates());
    Unlocked unlocked(s.rows * s.gates() > kUnlock);
    Forward<T>{x.as<T>(), weights.h.as<T>(), weights.c.as<T>(), weights.w.as<T>(),
               b.held ? b.as<T>() : none.data(), weights.w_hr.as<T>(), data<T>(out), data<T>(cells),
               data<T>(gates), back.data(), raw.data()}
        .run(s);
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return PyTuple_Pack(3, out.get(), cells.get(), gates.get());
}

PyObject* rnn_layer_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count_arguments("rnn_layer_backward", count, 12, 12) < 0) return nullptr;
  Shape s;
  Weights weights;
  LayerOperand g_out, g_cells, out, cells, gates;
  if (!kind_of(args[0], &s.kind) || !real(args[1]) ||
      !weights.read(args[3], args[4], args[5], args[6], &s))
    return misfit("rnn_layer_backward");
  const int type = weights.type;
  const bool lstm = s.kind == Kind::kLstm, gru = s.kind == Kind::kGru;
  s.reverse = args[11] == Py_True;
  s.rows = PyArray_SIZE(as_array(args[1])) / s.h;
  const int64_t size = s.rows * s.h, cell_size = lstm ? s.rows * s.n : 0;
  if (!s.read(args[10]) || !g_out.read(args[1], type, size) ||
      !g_cells.read(args[2], type, cell_size) || !out.read(args[7], type, size) ||
      !cells.read(args[8], type, cell_size) || !gates.read(args[9], type, s.rows * s.kept()))
    return misfit("rnn_layer_backward");
  Ref by_x(matrix(s.rows, s.gates(), type)), by_h(matrix(s.batch, s.h, type));
  Ref by_back(gru ? matrix(s.rows, s.gates(), type) : nullptr);
  Ref by_c(lstm ? matrix(s.batch, s.n, type) : nullptr);
  Ref totals(matrix(s.projected() ? s.rows : s.batch, s.h, type));
  if (!by_x || !by_h || (gru && !by_back) || (lstm && !by_c) || !totals || !blas_ensure())
    return nullptr;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> raw(s.projected() ? s.batch * s.n : 0);
    for (int64_t i = 0; i < s.batch * s.h; ++i) data<T>(by_h)[i] = 0;
    for (int64_t i = 0; lstm && i < s.batch * s.n; ++i) data<T>(by_c)[i] = 0;
    Unlocked unlocked(s.rows * s.gates() > kUnlock);
    Backward<T>{g_out.as<T>(), g_cells.as<T>(), weights.h.as<T>(), weights.c.as<T>(),
                weights.w.as<T>(), weights.w_hr.as<T>(), out.as<T>(), cells.as<T>(), gates.as<T>(),
                data<T>(by_x), gru ? data<T>(by_back) : nullptr, data<T>(by_h),
                lstm ? data<T>(by_c) : nullptr, data<T>(totals), raw.data()}
        .run(s);
  };
  type == NPY_FLOAT ? go(float()) : go(double());
  return PyTuple_Pack(5, by_x.get(), gru ? by_back.get() : by_x.get(), by_h.get(),
                      lstm ? by_c.get() : Py_None, totals.get());
}

}  // namespace shmtensor
