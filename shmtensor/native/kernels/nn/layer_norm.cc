// Statistics are computed in double, elements in their own dtype. Pieces depend on the shape alone, and their sums are
// added in order, so results do not depend on the number of threads.
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows of m elements; element i of the array has weight number (i / segment) % weights.
struct RowLayout {
  int64_t rows = 1, m = 1, segment = 1, weights = 1;
};

bool read_layout(PyArrayObject* x, long n, long groups, RowLayout* layout) {
  const int nd = PyArray_NDIM(x);
  if (groups > 0) {
    if (nd < 2 || PyArray_DIM(x, 1) % groups) return false;
    layout->weights = PyArray_DIM(x, 1);
    layout->rows = PyArray_DIM(x, 0) * groups;
    for (int i = 2; i < nd; ++i) layout->segment *= PyArray_DIM(x, i);
    layout->m = layout->weights / groups * layout->segment;
  } else {
    if (n < 1 || n > nd) return false;
    for (int i = 0; i < nd; ++i) (i < nd - n ? layout->rows : layout->m) *= PyArray_DIM(x, i);
    layout->weights = layout->m;
  }
  return layout->rows > 0 && layout->m > 0;
}

template <class T>
void forward(const RowLayout& layout, const T* x, const T* w, const T* b, T* out, T* means, T* rstds, double eps,
             bool centred) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  const double n = static_cast<double>(layout.m);
  ranges(layout.rows, 1 + kPiece / layout.m, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const T* row = x + i * layout.m;
      T* out_row = out + i * layout.m;
      const T mean = centred ? static_cast<T>(kernels_.sum(row, layout.m) / n) : T(0);
      const T rstd = static_cast<T>(1 / std::sqrt(kernels_.sum_of_squared_deviations(row, layout.m, mean) / n + eps));
      means[i] = mean;
      rstds[i] = rstd;
      if (layout.weights == layout.m && layout.segment == 1) {
        kernels_.norm(row, w, b, out_row, layout.m, mean, rstd);
        continue;
      }
      int64_t c = i * layout.m / layout.segment % layout.weights;
      for (int64_t offset = 0; offset < layout.m; offset += layout.segment, ++c)
        kernels_.affine(row + offset, out_row + offset, layout.segment, mean, w ? rstd * w[c] : rstd, b ? b[c] : T(0));
    }
  });
}

// Without gx, or without gw and gb, where these are null.
template <class T>
void backward(const RowLayout& layout, const T* g, const T* x, const T* w, const T* means, const T* rstds, T* gx, T* gw,
              T* gb, bool centred) {
  const NnKernels<T>& kernels_ = nn_kernels<T>();
  int64_t pieces = layout.rows * layout.m / kPiece;
  pieces = pieces < 1 ? 1 : pieces > 16 ? 16 : pieces;
  pieces = min(pieces, layout.rows);
  const int64_t grain = (layout.rows + pieces - 1) / pieces;
  std::vector<T> partials(static_cast<size_t>(2 * pieces * layout.weights), T(0));
  const double n = static_cast<double>(layout.m);
  slices(pieces, [&](int64_t piece) {
    T* pw = partials.data() + 2 * piece * layout.weights;
    T* pb = pw + layout.weights;
    const int64_t stop = min(layout.rows, (piece + 1) * grain);
    for (int64_t i = piece * grain; i < stop; ++i) {
      const T *gr = g + i * layout.m, *xr = x + i * layout.m, mean = means[i], rstd = rstds[i];
      double sums[2] = {0, 0};
      const bool elementwise_weight = layout.segment == 1 && layout.weights == layout.m;
      const int64_t first = i * layout.m / layout.segment % layout.weights;
      if (elementwise_weight) {
        if (gx) kernels_.dots(gr, xr, w, layout.m, mean, sums);
        if (gw) kernels_.norm_backward_weight(gr, xr, pw, pb, layout.m, mean, rstd);
      } else {
        int64_t c = first;
        for (int64_t offset = 0; offset < layout.m; offset += layout.segment, ++c) {
          double partial[2];
          kernels_.dots(gr + offset, xr + offset, nullptr, layout.segment, mean, partial);
          const double weight = w ? static_cast<double>(w[c]) : 1;
          sums[0] += weight * partial[0];
          sums[1] += weight * partial[1];
          pw[c] += static_cast<T>(partial[1]) * rstd;
          pb[c] += static_cast<T>(partial[0]);
        }
      }
      if (!gx) continue;
      const double s = static_cast<double>(rstd);
      const T a = centred ? static_cast<T>(s * sums[0] / n) : T(0);
      const T q = static_cast<T>(s * s * s * sums[1] / n);
      T* gx_row = gx + i * layout.m;
      if (elementwise_weight) {
        kernels_.norm_backward(gr, xr, w, gx_row, layout.m, mean, rstd, a, q);
        continue;
      }
      int64_t c = first;
      for (int64_t offset = 0; offset < layout.m; offset += layout.segment, ++c)
        kernels_.norm_backward(gr + offset, xr + offset, nullptr, gx_row + offset, layout.segment, mean,
                               w ? rstd * w[c] : rstd, a, q);
    }
  });
  if (!gw) return;
  for (int64_t c = 0; c < layout.weights; ++c) {
    gw[c] = partials[static_cast<size_t>(c)];
    gb[c] = partials[static_cast<size_t>(layout.weights + c)];
  }
  for (int64_t p = 1; p < pieces; ++p) {
    const T* partial = partials.data() + 2 * p * layout.weights;
    for (int64_t c = 0; c < layout.weights; ++c) {
      gw[c] += partial[c];
      gb[c] += partial[layout.weights + c];
    }
  }
}

}  // namespace

PyObject* layer_norm(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("layer_norm", n, 7)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  long normalized_ndim, groups;
  RowLayout layout;
  LayerOperand in, w, b;
  if (!x || !parse_long(args[3], &normalized_ndim) || !parse_long(args[4], &groups) ||
      !read_layout(x, normalized_ndim, groups, &layout))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  const double eps = PyFloat_AsDouble(args[5]);
  if (eps == -1 && PyErr_Occurred()) return fall_back();
  if (!in.read(args[0], type, PyArray_SIZE(x)) || !read_optional(&w, args[1], type, layout.weights) ||
      !read_optional(&b, args[2], type, layout.weights))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp rows = layout.rows;
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  Ref mean(new_array(1, &rows, type)), rstd(new_array(1, &rows, type));
  if (!out || !mean || !rstd) return nullptr;
  const bool centred = args[6] == Py_True;
  {
    Unlocked unlocked(layout.rows * layout.m > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      forward(layout, in.as<T>(), w.as<T>(), b.as<T>(), data<T>(out), data<T>(mean), data<T>(rstd), eps, centred);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  return pack_tuple3(std::move(out), std::move(mean), std::move(rstd));
}

PyObject* layer_norm_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("layer_norm_backward", n, 10)) return nullptr;
  PyArrayObject* x = real_array(args[1]);
  long normalized_ndim, groups;
  RowLayout layout;
  LayerOperand g, in, w, mean, rstd;
  if (!x || !parse_long(args[5], &normalized_ndim) || !parse_long(args[6], &groups) ||
      !read_layout(x, normalized_ndim, groups, &layout))
    Py_RETURN_NONE;
  const int type = PyArray_TYPE(x);
  if (!g.read(args[0], type, PyArray_SIZE(x)) || !in.read(args[1], type, PyArray_SIZE(x)) ||
      !read_optional(&w, args[2], type, layout.weights) || !mean.read(args[3], type, layout.rows) ||
      !rstd.read(args[4], type, layout.rows))
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const npy_intp weights = layout.weights;
  const bool centred = args[7] == Py_True, needs_x = args[8] == Py_True, needs_weights = args[9] == Py_True;
  Ref gx(needs_x ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type) : Py_NewRef(Py_None));
  Ref gw(needs_weights ? new_array(1, &weights, type) : Py_NewRef(Py_None));
  Ref gb(needs_weights ? new_array(1, &weights, type) : Py_NewRef(Py_None));
  if (!gx || !gw || !gb) return nullptr;
  {
    Unlocked unlocked(layout.rows * layout.m > kUnlock);
    const auto compute = [&](auto zero) {
      using T = decltype(zero);
      backward(layout, g.as<T>(), in.as<T>(), w.as<T>(), mean.as<T>(), rstd.as<T>(), needs_x ? data<T>(gx) : nullptr,
               needs_weights ? data<T>(gw) : nullptr, needs_weights ? data<T>(gb) : nullptr, centred);
    };
    type == NPY_FLOAT ? compute(float()) : compute(double());
  }
  return pack_tuple3(std::move(gx), std::move(gw), std::move(gb));
}

}  // namespace shmtensor
