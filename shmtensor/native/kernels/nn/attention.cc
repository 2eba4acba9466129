// scaled_dot_product_attention without the matrix of scores: blocks of queries by blocks of keys (Dao et al. 2022).
//
//              keys   | j0 .. j0 + kKeys |                 forward: a slice is a block of queries of one head; it keeps
//     queries         |------------------|                 the largest score and the sum of each row over the blocks of
//     i0 .. + queries |  scores, weights | ...             keys so far, and scales its results when the largest grows.
//
// Saved is one number a query: the logarithm of the sum of its exponentials, +inf if it may attend to no key. From it
// the backward computes the weights again. A slice there is a head of keys with all its queries, in a fixed order; if
// there are few heads, blocks of keys and then blocks of queries. All depends on shapes alone, and so do the bits.
//
// Dropout: a row of weights takes its random numbers from ceil(keys / 4) counters of its own, so forward and backward
// draw the same ones for any block.
#include <cmath>
#include <cstring>
#include <vector>

#include "gil.h"
#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "kernels/linalg/openblas.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "simd/kernel_table.h"
#include "threading/scratch.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kQueries = 128, kKeys = 256;  // of a block: its scores take 128 KB of float32
constexpr int64_t kCausalQueries = 64;          // a narrower block reaches fewer keys after its first query
constexpr int64_t kManyHeads = 16;              // from this number on a head is a slice of the backward

// Matrices in a batch: contiguous rows, `row` elements apart; `starts`: where the matrix of each head of queries begins.
struct Matrices {
  Ref array;
  int64_t rows = 0, columns = 0, row = 0;
  std::vector<int64_t> starts;

  // `heads`: the batch of queries. Dimension -3 may be a divisor of the batch's, each head then serves `group` in turn.
  // A mask may be broadcast to the batch.
  bool read(PyObject* p, int type, const std::vector<npy_intp>& heads, bool is_mask) {
    if (!PyArray_CheckExact(p) || PyArray_TYPE(as_array(p)) != type || PyArray_NDIM(as_array(p)) < 2) return false;
    const auto size = PyArray_ITEMSIZE(as_array(p));
    const int nd = PyArray_NDIM(as_array(p)), batch = nd - 2;
    const npy_intp* strides = PyArray_STRIDES(as_array(p));
    bool is_usable = PyArray_ISALIGNED(as_array(p)) && PyArray_ISNOTSWAPPED(as_array(p));
    for (int i = 0; i < nd; ++i) is_usable = is_usable && strides[i] >= 0 && strides[i] % size == 0;
    is_usable = is_usable && strides[nd - 1] == size && strides[nd - 2] >= size * PyArray_DIM(as_array(p), nd - 1);
    if (is_usable) {
      Py_INCREF(p);
      array = Ref(p);
    } else {
      array = contiguous(as_array(p));
      if (!array) return false;
    }
    const npy_intp* dims = PyArray_DIMS(array.array());
    strides = PyArray_STRIDES(array.array());
    rows = dims[nd - 2], columns = dims[nd - 1], row = strides[nd - 2] / size;
    const int missing = static_cast<int>(heads.size()) - batch;
    if (missing < 0 || (missing && !is_mask)) return false;
    int64_t count = 1;
    for (npy_intp n : heads) count *= n;
    starts.assign(static_cast<size_t>(count), 0);
    int64_t inner = 1;  // heads in the dimensions after this one
    for (int i = static_cast<int>(heads.size()) - 1; i >= missing; --i) {
      const npy_intp n = heads[i], own = dims[i - missing];
      const bool is_grouped = !is_mask && i + 1 == static_cast<int>(heads.size());
      if (own != n && !(is_mask && own == 1) && !(is_grouped && own && n % own == 0)) return false;
      const int64_t group = is_grouped ? n / own : 1, step = is_mask && own == 1 ? 0 : strides[i - missing] / size;
      for (int64_t h = 0; h < count; ++h) starts[h] += h / inner % n / group * step;
      inner *= n;
    }
    return true;
  }
  template <class T>
  const T* at(int64_t head, int64_t first_row) const {
    return data<T>(array) + starts[head] + first_row * row;
  }
};

struct Attention {
  int type;
  std::vector<npy_intp> heads;  // the batch of queries
  Matrices query, key, value, mask;
  int64_t count = 1, group = 1;  // heads of queries; of them for each head of keys
  bool has_bias = false, has_allowed = false, is_causal = false;
  double scale = 1, p = 0;
  uint64_t seed = 0, offset = 0;

  // query, key, value, mask or None, scale, is_causal, p, seed, offset. False: not supported, or with an exception.
  bool read(PyObject* const* args) {
    if (!real_array(args[0])) return false;
    type = PyArray_TYPE(as_array(args[0]));
    const int nd = PyArray_NDIM(as_array(args[0]));
    if (nd < 2) return false;
    heads.assign(PyArray_DIMS(as_array(args[0])), PyArray_DIMS(as_array(args[0])) + nd - 2);
    if (!query.read(args[0], type, heads, false) || !key.read(args[1], type, heads, false) ||
        !value.read(args[2], type, heads, false))
      return false;
    for (npy_intp n : heads) count *= n;
    if (key.columns != query.columns || value.rows != key.rows || key.rows == 0 || value.columns == 0) return false;
    if (nd > 2) {
      const npy_intp kv_heads = PyArray_DIM(key.array.array(), nd - 3);
      if (kv_heads != PyArray_DIM(value.array.array(), nd - 3)) return false;
      group = heads.back() / kv_heads;
    }
    if (args[3] != Py_None) {
      if (!PyArray_CheckExact(args[3])) return false;
      has_allowed = PyArray_TYPE(as_array(args[3])) == NPY_BOOL;
      has_bias = !has_allowed;
      if (!mask.read(args[3], has_allowed ? int(NPY_BOOL) : type, heads, true) || mask.columns != key.rows) return false;
      if (mask.rows == 1) mask.row = 0;
      if (mask.rows != 1 && mask.rows != query.rows) return false;
    }
    scale = PyFloat_AsDouble(args[4]);
    is_causal = args[5] == Py_True;
    p = PyFloat_AsDouble(args[6]);
    seed = PyLong_AsUnsignedLongLongMask(args[7]), offset = PyLong_AsUnsignedLongLongMask(args[8]);
    return !PyErr_Occurred() && p >= 0 && p < 1;
  }
  int64_t queries() const { return is_causal ? kCausalQueries : kQueries; }  // of a block
  int64_t query_blocks() const { return (query.rows + queries() - 1) / queries(); }
  int64_t key_blocks() const { return (key.rows + kKeys - 1) / kKeys; }
  int64_t kv_heads() const { return count / group; }
};

// A block of scores: of the queries [i0, i0 + m) and the keys [j0, j0 + n) of a head.
struct Block {
  int64_t head, i0, m, j0, n;
};

template <class T>
struct Compute {
  const Attention& a;
  const Kernels<T>& kernels;
  T scale, keep_scale;
  uint32_t threshold;

  explicit Compute(const Attention& attention) : a(attention), kernels(shmtensor::kernels<T>()) {
    scale = static_cast<T>(a.scale);
    keep_scale = static_cast<T>(1 / (1 - a.p));
    const double scaled_p = std::ldexp(a.p, 32);
    threshold = static_cast<uint32_t>(scaled_p < 4294967295.0 ? scaled_p : 4294967295.0);
  }

  // The keys of a block to which its row r may attend are the first ones.
  int64_t visible(const Block& b, int64_t r) const {
    if (!a.is_causal) return b.n;
    const int64_t n = b.i0 + r + 1 - b.j0;
    return n < 0 ? 0 : n < b.n ? n : b.n;
  }
  void multiply_scores(const Block& b, T* s) const {
    blas_gemm(Gemm<T>{a.query.at<T>(b.head, b.i0), a.key.at<T>(b.head, b.j0), s, b.m, b.n, a.query.columns, a.query.row,
                      a.key.row, b.n, false, true, T(0)});
  }
  // c (m x n, dense) = x (m x k, or transposed) y (k x n), plus c with `add`.
  static void multiply(const T* x, int64_t x_row, bool transposed, const T* y, int64_t y_row, T* c, int64_t m, int64_t n,
                       int64_t k, bool add) {
    if (n % kTileWidth == 0) {
      multiply_tiles(x, transposed ? 1 : x_row, transposed ? x_row : 1, y, y_row, c, n, m, n, k, add);
    } else {
      blas_gemm(Gemm<T>{x, y, c, m, n, k, x_row, y_row, n, transposed, false, T(add)});
    }
  }
  // Row r of the block, scaled and masked; the largest score.
  T mask_scores(const Block& b, int64_t r, T* row) const {
    const T* bias = a.has_bias ? a.mask.at<T>(b.head, b.i0 + r) + b.j0 : nullptr;
    const uint8_t* allowed = a.has_allowed ? a.mask.at<uint8_t>(b.head, b.i0 + r) + b.j0 : nullptr;
    return kernels.attention_scores(row, bias, allowed, visible(b, r), scale);
  }
  void drop(const Block& b, int64_t r, const T* x, T* out, uint8_t* kept) const {
    const int64_t row = b.head * a.query.rows + b.i0 + r, counters = (a.key.rows + 3) / 4;
    kernels.dropout(x, out, kept, visible(b, r), keep_scale, threshold, a.seed,
                    a.offset + static_cast<uint64_t>(row * counters + b.j0 / 4));
  }
  static void fill_zero(T* row, int64_t start, int64_t stop) {
    if (start < stop) memset(row + start, 0, static_cast<size_t>(stop - start) * sizeof(T));
  }

  void forward(int64_t head, int64_t i0, T* out, T* logsumexp) const {
    const int64_t m = std::min(a.queries(), a.query.rows - i0), width = a.value.columns;
    T* s = scratch.get<T>(m * kKeys + 2 * m);
    T *max = s + m * kKeys, *sum = max + m;
    uint8_t kept[kKeys];
    for (int64_t r = 0; r < m; ++r) max[r] = -HUGE_VAL, sum[r] = 0;
    out += (head * a.query.rows + i0) * width;
    const int64_t end = a.is_causal ? std::min(a.key.rows, i0 + m) : a.key.rows;
    for (int64_t j0 = 0; j0 < end; j0 += kKeys) {
      const Block b{head, i0, m, j0, std::min(kKeys, end - j0)};
      multiply_scores(b, s);
      for (int64_t r = 0; r < m; ++r) {
        T* row = s + r * b.n;
        const int64_t n = visible(b, r);
        const T old_max = max[r], new_max = std::max(old_max, mask_scores(b, r, row));
        fill_zero(row, n, b.n);
        const T factor = new_max == old_max ? T(1) : std::exp(old_max - new_max);
        // Where all keys so far are masked the largest is -inf, and the weights are 0.
        sum[r] = sum[r] * factor + kernels.attention_weights(row, n, new_max == -HUGE_VAL ? T(0) : new_max);
        max[r] = new_max;
        for (int64_t k = 0; j0 && factor != T(1) && k < width; ++k) out[r * width + k] *= factor;
        if (a.p > 0) drop(b, r, row, row, kept);
      }
      multiply(s, b.n, false, a.value.at<T>(head, j0), a.value.row, out, m, width, b.n, j0 > 0);
    }
    for (int64_t r = 0; r < m; ++r) {
      logsumexp[head * a.query.rows + i0 + r] = sum[r] == 0 ? T(HUGE_VAL) : max[r] + std::log(sum[r]);
      const T factor = 1 / sum[r];
      for (int64_t k = 0; k < width; ++k) out[r * width + k] = sum[r] == 0 ? T(0) : out[r * width + k] * factor;
    }
  }

  struct Gradients {
    const T *g, *out, *logsumexp;
    T *dots, *query, *key, *value;  // dots: of each row of g and out
  };

  // Adds what a block contributes to the gradients by its queries, and by its keys and values.
  void backward(Block b, const Gradients& x, bool for_queries, bool for_keys) const {
    const int64_t width = a.value.columns, depth = a.query.columns, first = b.head * a.query.rows + b.i0;
    const int64_t first_key = b.head / a.group * a.key.rows + b.j0;
    if (a.is_causal) b.n = std::min(b.n, b.i0 + b.m - b.j0);
    if (b.n <= 0) return;
    T* p = scratch.get<T>(2 * b.m * b.n + kKeys);
    T *dp = p + b.m * b.n, *dropped = dp + b.m * b.n;
    uint8_t kept[kKeys];
    multiply_scores(b, p);
    blas_gemm(Gemm<T>{x.g + first * width, a.value.at<T>(b.head, b.j0), dp, b.m, b.n, width, width, a.value.row, b.n, false,
                      true, T(0)});
    for (int64_t r = 0; r < b.m; ++r) {
      T *row = p + r * b.n, *d_row = dp + r * b.n;
      const int64_t n = visible(b, r);
      mask_scores(b, r, row);
      kernels.attention_weights(row, n, x.logsumexp[first + r]);
      fill_zero(row, n, b.n);
      if (a.p > 0) {
        drop(b, r, row, dropped, kept);
        kernels.masked_scale(d_row, kept, d_row, n, keep_scale);
      }
      kernels.attention_backward(row, d_row, n, x.dots[first + r], scale);
      fill_zero(d_row, n, b.n);
      if (a.p > 0) memcpy(row, dropped, static_cast<size_t>(n) * sizeof(T));
    }
    if (for_keys) {
      multiply(p, b.n, true, x.g + first * width, width, x.value + first_key * width, b.n, width, b.m, true);
      multiply(dp, b.n, true, a.query.at<T>(b.head, b.i0), a.query.row, x.key + first_key * depth, b.n, depth, b.m, true);
    }
    if (for_queries) {
      multiply(dp, b.n, false, a.key.at<T>(b.head, b.j0), a.key.row, x.query + first * depth, b.m, depth, b.n, true);
    }
  }

  // f(block) for the blocks of a head with keys from j0 on or queries from i0 on; -1: all.
  template <class F>
  void for_blocks(int64_t head, int64_t only_i0, int64_t only_j0, F f) const {
    for (int64_t j0 = std::max<int64_t>(only_j0, 0); j0 < a.key.rows; j0 += kKeys) {
      for (int64_t i0 = std::max<int64_t>(only_i0, 0); i0 < a.query.rows; i0 += a.queries()) {
        f(Block{head, i0, std::min(a.queries(), a.query.rows - i0), j0, std::min(kKeys, a.key.rows - j0)});
        if (only_i0 >= 0) break;
      }
      if (only_j0 >= 0) break;
    }
  }

  void backward(const Gradients& x) const {
    const int64_t width = a.value.columns, rows = a.count * a.query.rows, kv_heads = a.kv_heads();
    ranges(rows, 1 + 16384 / width, [&](int64_t r, int64_t stop) {
      for (; r < stop; ++r) x.dots[r] = kernels.attention_dot(x.g + r * width, x.out + r * width, width);
    });
    memset(x.query, 0, static_cast<size_t>(rows * a.query.columns) * sizeof(T));
    memset(x.key, 0, static_cast<size_t>(kv_heads * a.key.rows * a.key.columns) * sizeof(T));
    memset(x.value, 0, static_cast<size_t>(kv_heads * a.key.rows * width) * sizeof(T));
    if (kv_heads >= kManyHeads) {
      slices(kv_heads, [&](int64_t h) {
        for (int64_t head = h * a.group; head < (h + 1) * a.group; ++head)
          for_blocks(head, -1, -1, [&](const Block& b) { backward(b, x, true, true); });
      });
      return;
    }
    slices(kv_heads * a.key_blocks(), [&](int64_t i) {
      const int64_t h = i / a.key_blocks(), j0 = i % a.key_blocks() * kKeys;
      for (int64_t head = h * a.group; head < (h + 1) * a.group; ++head)
        for_blocks(head, -1, j0, [&](const Block& b) { backward(b, x, false, true); });
    });
    slices(a.count * a.query_blocks(), [&](int64_t i) {
      for_blocks(i / a.query_blocks(), i % a.query_blocks() * a.queries(), -1,
                 [&](const Block& b) { backward(b, x, true, false); });
    });
  }
};

// An array of the batch's shape with the last dimensions (rows, columns); columns of 0: without that dimension.
PyObject* new_like(PyArrayObject* like, int type, int64_t columns) {
  npy_intp dims[NPY_MAXDIMS];
  const int nd = PyArray_NDIM(like);
  for (int i = 0; i < nd; ++i) dims[i] = PyArray_DIM(like, i);
  dims[nd - 1] = columns;
  return new_array(columns ? nd : nd - 1, dims, type);
}

}  // namespace

PyObject* attention(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("attention", count, 9)) return nullptr;
  Attention a;
  if (!a.read(args)) return fall_back();
  Ref out(new_like(a.query.array.array(), a.type, a.value.columns)), logsumexp(new_like(a.query.array.array(), a.type, 0));
  if (!out || !logsumexp || !blas_ensure()) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    const Compute<T> kernel(a);
    Unlocked unlocked;
    slices(a.count * a.query_blocks(), [&](int64_t i) {
      kernel.forward(i / a.query_blocks(), i % a.query_blocks() * a.queries(), data<T>(out), data<T>(logsumexp));
    });
  };
  a.type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(2, out.get(), logsumexp.get());
}

PyObject* attention_backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("attention_backward", count, 12)) return nullptr;
  Attention a;
  LayerOperand g, out, logsumexp;
  if (!a.read(args + 3)) return fall_back();
  const int64_t rows = a.count * a.query.rows, size = rows * a.value.columns;
  if (!g.read(args[0], a.type, size) || !out.read(args[1], a.type, size) || !logsumexp.read(args[2], a.type, rows))
    return fall_back();
  Ref query(new_like(a.query.array.array(), a.type, a.query.columns)),
      key(new_like(a.key.array.array(), a.type, a.key.columns));
  Ref value(new_like(a.value.array.array(), a.type, a.value.columns));
  if (!query || !key || !value || !blas_ensure()) return nullptr;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    Buffer<T> dots(rows);
    Unlocked unlocked;
    Compute<T>(a).backward(
        {g.as<T>(), out.as<T>(), logsumexp.as<T>(), dots.get(), data<T>(query), data<T>(key), data<T>(value)});
  };
  a.type == NPY_FLOAT ? compute(float()) : compute(double());
  return PyTuple_Pack(3, query.get(), key.get(), value.get());
}

}  // namespace shmtensor
