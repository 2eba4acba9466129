// Recurrent layers over a packed batch: at step t the first sizes[t] sequences of the batch continue, so
// the rows of a step are contiguous and those of a sequence are not:
//
//     x   | step 0: sizes[0] rows | step 1: sizes[1] rows | ...     sizes never increase
//
// x holds the input's term of all gates (the caller computes it by one matrix product). A forward step multiplies the
// previous states by the weight and computes the gates in one pass (rnn_gates.simd.h). A backward step computes the
// gates' gradient and multiplies it by the weight to get the gradient of the previous states. The caller computes the
// weights' gradients by products over all steps.
//
// Sequences do not depend on each other. While the weight stays in the caches, a thread takes eight or more of them through
// all steps, and multiplies in register tiles, for which sizes must be multiples of 16 and there is no projection; else each
// product is BLAS's, on all threads. The choice and the blocks depend on the shape alone.
//
// In the reverse direction a sequence starts at its last step: its previous state is the initial one there, while the
// previous state of the other sequences is that of step t + 1 (for_sequence_groups).
#include <vector>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "kernels/linalg/openblas.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 4096;  // elements of gates, of all steps
constexpr int64_t kGrain = 8192;  // elements of gates per slice
constexpr int64_t kRows = 8;  // of a register tile
constexpr int64_t kBlocks = 32;  // of sequences, at most
constexpr int64_t kMinSteps = 4, kMinBatch = 4;  // for which the weight is transposed; BLAS copies none for less than 4 rows
constexpr int64_t kCachedWeight = 1 << 20;  // elements; fitted up to 512 features of an LSTM

enum class Kind { kLstm, kGru, kTanh, kRelu };

bool parse_kind(PyObject* name, Kind* out) {
  const char* names[] = {"lstm", "gru", "tanh", "relu"};
  for (int i = 0; i < 4; ++i) {
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
      *out = static_cast<Kind>(i);
      return true;
    }
  }
  return false;
}

// A layer's sizes: n is the width of a cell, h that of a state; a projection makes h smaller than n.
struct Shape {
  Kind kind;
  bool reverse;
  int64_t steps, batch, rows, n, h;
  const int64_t* sizes;
  std::vector<int64_t> starts;  // the first row of each step

  int64_t gates() const { return (kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1) * n; }
  int64_t saved_gates() const { return kind == Kind::kLstm || kind == Kind::kGru ? 4 * n : 0; }
  bool has_projection() const { return h != n; }
  int64_t grain() const { return kGrain / gates() + 1; }
  int64_t step(int64_t i) const { return reverse ? steps - 1 - i : i; }  // the i-th step in the direction of the layer
  bool uses_tiles() const {
    return !has_projection() && gates() % kTileWidth == 0 && h % kTileWidth == 0 && gates() * h <= kCachedWeight &&
           steps >= kMinSteps && batch >= kMinBatch;
  }
  // f(first, last) for blocks of sequences.
  template <class F>
  void for_blocks(F f) const {
    if (!uses_tiles()) return f(int64_t(0), batch);
    const int64_t even = (batch + kBlocks - 1) / kBlocks;
    ranges(batch, (even + kRows - 1) / kRows * kRows, f);
  }

  // sizes never increase, and sum to `rows`; the states have `batch` rows.
  bool read(PyObject* sizes_array) {
    if (!PyArray_CheckExact(sizes_array) || PyArray_TYPE(as_array(sizes_array)) != NPY_INT64 ||
        PyArray_NDIM(as_array(sizes_array)) != 1 || !PyArray_ISCARRAY_RO(as_array(sizes_array)))
      return false;
    sizes = data<int64_t>(as_array(sizes_array));
    steps = PyArray_SIZE(as_array(sizes_array));
    starts.resize(static_cast<size_t>(steps));
    int64_t sum = 0, previous_state = batch;
    for (int64_t t = 0; t < steps; ++t) {
      if (sizes[t] < 1 || sizes[t] > previous_state) return false;
      starts[t] = sum;
      sum += previous_state = sizes[t];
    }
    return steps && sum == rows && sizes[0] == batch;
  }

  // f(first sequence, number of sequences, row of their previous states, or -1 for the initial states), of the sequences
  // [begin, end) alone.
  template <class F>
  void for_sequence_groups(int64_t t, int64_t begin, int64_t end, F f) const {
    const auto group = [&](int64_t first, int64_t last, int64_t row) {
      if (first < begin) first = begin;
      if (last > end) last = end;
      if (first < last) f(first, last - first, row);
    };
    if (!reverse) return group(0, sizes[t], t ? starts[t - 1] : -1);
    const int64_t continuing = t + 1 < steps ? sizes[t + 1] : 0;
    if (continuing) group(0, continuing, starts[t + 1]);
    group(continuing, sizes[t], -1);
  }
};

// The previous states of a group of sequences.
template <class T>
const T* previous_state(const T* initial, const T* states, int64_t first, int64_t row, int64_t width) {
  return row < 0 ? initial + first * width : states + (row + first) * width;
}

// c (m x n) = a (m x k) b + beta c; b_transposed: b is (n x k).
template <class T>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, bool b_transposed, T beta) {
  gemm(Gemm<T>{a, b, c, m, n, k, k, b_transposed ? k : n, n, false, b_transposed, beta});
}

template <class T>
struct Forward {
  const T *x, *h, *c, *w, *b, *w_hr;
  // h_product: a step's h times w; unprojected_h: a step's h before projection; transposed_w: for tiles, else null
  T *out, *cells, *gates, *h_product, *unprojected_h, *transposed_w;

  void run(const Shape& s) const {
    if (transposed_w) nn_kernels<T>().transpose(w, s.h, s.gates(), s.h, transposed_w, s.gates(), s.gates());
    s.for_blocks([&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < s.steps; ++i) {
        const int64_t t = s.step(i);
        s.for_sequence_groups(t, begin, end, [&](int64_t first, int64_t count, int64_t row) {
          run_group(s, s.starts[t] + first, first, count, previous_state(h, out, first, row, s.h),
                    s.kind == Kind::kLstm ? previous_state(c, cells, first, row, s.n) : nullptr);
        });
      }
    });
  }

 private:
  // first: the group's first sequence; h_before, c_before: the previous states of its sequences.
  void run_group(const Shape& s, int64_t first_row, int64_t first, int64_t count, const T* h_before,
                 const T* c_before) const {
    const NnKernels<T>& kernels = nn_kernels<T>();
    const int64_t n = s.n, width = s.gates();
    T* y = w_hr ? unprojected_h : out + first_row * n;
    T* sums = s.kind == Kind::kGru ? h_product + first * width : s.kind == Kind::kLstm ? gates + first_row * width : y;
    if (transposed_w) {
      multiply_tiles(h_before, s.h, 1, transposed_w, width, sums, width, count, width, s.h, false);
    } else {
      multiply(h_before, w, sums, count, width, s.h, true, T(0));
    }
    ranges(count, s.grain(), [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        const T* row = x + (first_row + r) * width;
        switch (s.kind) {
          case Kind::kLstm:
            kernels.lstm_gates(row, sums + r * width, c_before + r * n, cells + (first_row + r) * n, y + r * n, n);
            break;
          case Kind::kGru:
            kernels.gru_gates(row, sums + r * width, b, h_before + r * n, gates + (first_row + r) * 4 * n, y + r * n, n);
            break;
          case Kind::kTanh: kernels.tanh_gates(row, y + r * n, n); break;
          case Kind::kRelu: kernels.relu_gates(row, y + r * n, n);
        }
      }
    });
    if (w_hr) multiply(unprojected_h, w_hr, out + first_row * s.h, count, s.h, n, true, T(0));
  }
};

template <class T>
struct Backward {
  const T *g_out, *g_cells, *h, *c, *w, *w_hr, *out, *cells, *gates;
  T *grad_x, *grad_h_product, *grad_h, *grad_c;  // grad_h, grad_c: the gradients of the previous states
  T *grad_h_steps, *unprojected_h;  // the gradient of each step's h, and of a step's h before projection

  void run(const Shape& s) const {
    s.for_blocks([&](int64_t begin, int64_t end) {
      for (int64_t i = s.steps - 1; i >= 0; --i)
        run_step(s, s.step(i), begin, s.sizes[s.step(i)] < end ? s.sizes[s.step(i)] : end);
    });
  }

 private:
  // Of the sequences [begin, end), which are in step t.
  void run_step(const Shape& s, int64_t t, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    const int64_t first_row = s.starts[t], width = s.gates(), count = end - begin;
    T* dh = grad_h_steps + (w_hr ? first_row * s.h : 0);
    for (int64_t j = begin * s.h; j < end * s.h; ++j) dh[j] = g_out[first_row * s.h + j] + grad_h[j];
    if (s.kind == Kind::kLstm) {
      for (int64_t j = begin * s.n; j < end * s.n; ++j) grad_c[j] += g_cells[first_row * s.n + j];
    }
    if (w_hr) multiply(dh, w_hr, unprojected_h, count, s.n, s.h, false, T(0));
    s.for_sequence_groups(t, begin, end, [&](int64_t first, int64_t n, int64_t row) {
      run_group(s, first_row + first, first, n, (w_hr ? unprojected_h : dh) + first * s.n,
                previous_state(h, out, first, row, s.h),
                s.kind == Kind::kLstm ? previous_state(c, cells, first, row, s.n) : nullptr);
    });
    const T* grad_gates = (s.kind == Kind::kGru ? grad_h_product : grad_x) + (first_row + begin) * width;
    T* to = grad_h + begin * s.h;
    const bool is_gru = s.kind == Kind::kGru;  // whose gates have added to it
    if (s.uses_tiles()) {
      multiply_tiles(grad_gates, width, 1, w, s.h, to, s.h, count, s.h, width, is_gru);
    } else {
      multiply(grad_gates, w, to, count, s.h, width, false, T(is_gru ? 1 : 0));
    }
  }

  // first: the group's first sequence; dh: the gradient of its h.
  void run_group(const Shape& s, int64_t first_row, int64_t first, int64_t count, const T* dh, const T* h_before,
                 const T* c_before) const {
    const NnKernels<T>& kernels = nn_kernels<T>();
    const int64_t n = s.n, width = s.gates();
    ranges(count, s.grain(), [&](int64_t start, int64_t stop) {
      for (int64_t r = start; r < stop; ++r) {
        T* grad_gates = grad_x + (first_row + r) * width;
        switch (s.kind) {
          case Kind::kLstm:
            kernels.lstm_gates_backward(gates + (first_row + r) * width, c_before + r * n, cells + (first_row + r) * n,
                                        dh + r * n, grad_c + (first + r) * n, grad_gates, n);
            break;
          case Kind::kGru:
            kernels.gru_gates_backward(gates + (first_row + r) * 4 * n, h_before + r * n, dh + r * n,
                                       grad_h + (first + r) * n, grad_gates, grad_h_product + (first_row + r) * width, n);
            break;
          case Kind::kTanh: kernels.tanh_gates_backward(out + (first_row + r) * n, dh + r * n, grad_gates, n); break;
          case Kind::kRelu: kernels.relu_gates_backward(out + (first_row + r) * n, dh + r * n, grad_gates, n);
        }
      }
    });
  }
};

// The states and weights of a layer.
struct Weights {
  LayerOperand h, c, w, w_hr;
  int type;

  // Writes all sizes of the shape but its steps and rows.
  bool read(PyObject* h_, PyObject* c_, PyObject* w_, PyObject* w_hr_, Shape* s) {
    PyArrayObject* state = real_array(h_);
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
           (s->has_projection() ? w_hr.read(w_hr_, type, s->h * s->n) : w_hr_ == Py_None);
  }
};

PyObject* new_matrix(int64_t rows, int64_t columns, int type) {
  const npy_intp dims[] = {rows, columns};
  return new_array(2, dims, type);
}

PyObject* mismatch(const char* where) {
  if (PyErr_Occurred()) return nullptr;
  return raise("TypeError", "%s: the shapes or dtypes of the operands do not match", where);
}

}  // namespace

PyObject* rnn_layer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("rnn_layer", count, 9)) return nullptr;
  Shape s;
  Weights weights;
  LayerOperand x, b;
  PyArrayObject* sizes_array = real_array(args[1]);
  if (!parse_kind(args[0], &s.kind) || !sizes_array || !weights.read(args[2], args[3], args[4], args[6], &s))
    return mismatch("rnn_layer");
  const int type = weights.type;
  s.reverse = args[8] == Py_True;
  s.rows = PyArray_DIM(sizes_array, 0);
  if (!s.read(args[7]) || !x.read(args[1], type, s.rows * s.gates()) || !read_optional(&b, args[5], type, s.gates()))
    return mismatch("rnn_layer");
  const bool lstm = s.kind == Kind::kLstm;
  Ref out(new_matrix(s.rows, s.h, type)), cells(new_matrix(lstm ? s.rows : 0, s.n, type));
  Ref gates(new_matrix(s.saved_gates() ? s.rows : 0, s.saved_gates(), type));
  if (!out || !cells || !gates || !blas_ensure()) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> h_product(s.kind == Kind::kGru ? s.batch * s.gates() : 0), zero_bias;
    std::vector<T> unprojected_h(s.has_projection() ? s.batch * s.n : 0);
    const Buffer<T> transposed_w(s.uses_tiles() ? s.gates() * s.h : 0);
    if (s.kind == Kind::kGru && !b.array) zero_bias.resize(s.gates());
    Unlocked unlocked(s.rows * s.gates() > kUnlock);
    Forward<T>{x.as<T>(),
               weights.h.as<T>(),
               weights.c.as<T>(),
               weights.w.as<T>(),
               b.array ? b.as<T>() : zero_bias.data(),
               weights.w_hr.as<T>(),
               data<T>(out),
               data<T>(cells),
               data<T>(gates),
               h_product.data(),
               unprojected_h.data(),
               transposed_w.get()}
        .run(s);
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(3, out.get(), cells.get(), gates.get());
}

PyObject* rnn_layer_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("rnn_layer_backward", count, 12)) return nullptr;
  Shape s;
  Weights weights;
  LayerOperand g_out, g_cells, out, cells, gates;
  if (!parse_kind(args[0], &s.kind) || !real_array(args[1]) || !weights.read(args[3], args[4], args[5], args[6], &s))
    return mismatch("rnn_layer_backward");
  const int type = weights.type;
  const bool lstm = s.kind == Kind::kLstm, gru = s.kind == Kind::kGru;
  s.reverse = args[11] == Py_True;
  s.rows = PyArray_SIZE(as_array(args[1])) / s.h;
  const int64_t size = s.rows * s.h, cell_size = lstm ? s.rows * s.n : 0;
  if (!s.read(args[10]) || !g_out.read(args[1], type, size) || !g_cells.read(args[2], type, cell_size) ||
      !out.read(args[7], type, size) || !cells.read(args[8], type, cell_size) ||
      !gates.read(args[9], type, s.rows * s.saved_gates()))
    return mismatch("rnn_layer_backward");
  Ref grad_x(new_matrix(s.rows, s.gates(), type)), grad_h(new_matrix(s.batch, s.h, type));
  Ref grad_h_product(gru ? new_matrix(s.rows, s.gates(), type) : nullptr);
  Ref grad_c(lstm ? new_matrix(s.batch, s.n, type) : nullptr);
  Ref grad_h_steps(new_matrix(s.has_projection() ? s.rows : s.batch, s.h, type));
  if (!grad_x || !grad_h || (gru && !grad_h_product) || (lstm && !grad_c) || !grad_h_steps || !blas_ensure()) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> unprojected_h(s.has_projection() ? s.batch * s.n : 0);
    for (int64_t i = 0; i < s.batch * s.h; ++i) data<T>(grad_h)[i] = 0;
    for (int64_t i = 0; lstm && i < s.batch * s.n; ++i) data<T>(grad_c)[i] = 0;
    Unlocked unlocked(s.rows * s.gates() > kUnlock);
    Backward<T>{g_out.as<T>(),
                g_cells.as<T>(),
                weights.h.as<T>(),
                weights.c.as<T>(),
                weights.w.as<T>(),
                weights.w_hr.as<T>(),
                out.as<T>(),
                cells.as<T>(),
                gates.as<T>(),
                data<T>(grad_x),
                gru ? data<T>(grad_h_product) : nullptr,
                data<T>(grad_h),
                lstm ? data<T>(grad_c) : nullptr,
                data<T>(grad_h_steps),
                unprojected_h.data()}
        .run(s);
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(5, grad_x.get(), gru ? grad_h_product.get() : grad_x.get(), grad_h.get(),
                      lstm ? grad_c.get() : Py_None, grad_h_steps.get());
}

}  // namespace shmtensor
