// The arguments of the three functions; conv_algorithm.cc chooses the algorithm.
#include "kernels/nn/convolution.h"

#include <new>

#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/nn/images.h"
#include "kernels/operand.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlockWork = 4096;

void spatial_sizes(PyArrayObject* x, int64_t* out) {
  const int nd = PyArray_NDIM(x) - 2;
  for (int i = 0; i < 3; ++i) out[i] = i < 3 - nd ? 1 : PyArray_DIM(x, i + nd - 1);
}

// Parses stride, padding, dilation and groups; false if they are invalid.
bool parse_parameters(PyObject* const* args, int nd, Convolution* v) {
  if (!parse_longs(args[0], nd, 1, 0, v->stride) || !parse_longs(args[1], nd, 0, 0, v->padding) ||
      !parse_longs(args[2], nd, 1, 0, v->dilation))
    return false;
  long groups;
  if (!parse_long(args[3], &groups) || groups < 1) return false;
  v->groups = groups;
  for (int i = 0; i < 3; ++i) {
    if (v->stride[i] < 1 || v->dilation[i] < 1) return false;
  }
  return true;
}

// Do all windows fit in the padded image?
bool is_valid(const Convolution& v) {
  for (int i = 0; i < 3; ++i) {
    const int64_t span = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    if (v.out_size[i] < 1 || v.size[i] < 1 || v.kernel[i] < 1 || span < 0 || (v.out_size[i] - 1) * v.stride[i] > span)
      return false;
  }
  return v.c % v.groups == 0 && v.k % v.groups == 0 && v.n > 0 && v.c > 0 && v.k > 0;
}

bool same_rank_and_dtype(PyArrayObject* a, PyArrayObject* b) {
  const int nd = PyArray_NDIM(a);
  return nd >= 3 && nd <= 5 && PyArray_NDIM(b) == nd && PyArray_TYPE(a) == PyArray_TYPE(b);
}

// Runs f(float()) or f(double()) without the GIL; false with MemoryError.
template <class F>
bool run_unlocked(int type, int64_t work, F f) {
  bool has_memory = true;
  {
    Unlocked unlocked(work > kUnlockWork);
    try {
      type == NPY_FLOAT ? f(float()) : f(double());
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
  }
  if (!has_memory) PyErr_NoMemory();
  return has_memory;
}

// Images as a kernel reads them: (N, C, *size) or, channels last, (N, *size, C). Null: out of memory.
Ref images_in_order(PyArrayObject* x, bool channels_last) {
  Ref view = channels_last ? move_channels(x, true) : Ref(Py_NewRef(x));
  return view ? contiguous(view.array()) : Ref();
}

// New images (N, channels, *size) in such memory; result_images gives it these dimensions.
Ref new_images(int nd, int64_t n, int64_t channels, const int64_t* size, int type, bool channels_last) {
  npy_intp dims[5] = {n};
  for (int i = 0; i < nd - 2; ++i) dims[i + (channels_last ? 1 : 2)] = size[5 - nd + i];
  dims[channels_last ? nd - 1 : 1] = channels;
  return Ref(new_array(nd, dims, type));
}
PyObject* result_images(Ref memory, bool channels_last) {
  return (channels_last ? move_channels(memory.array(), false) : std::move(memory)).release();
}

}  // namespace

PyObject* convolution(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("convolution", n, 7)) return nullptr;
  PyArrayObject *x = real_array(args[0]), *w = real_array(args[1]);
  Convolution v;
  if (!x || !w || !same_rank_and_dtype(x, w) || !parse_parameters(args + 3, PyArray_NDIM(x) - 2, &v)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(w, 0);
  spatial_sizes(x, v.size);
  spatial_sizes(w, v.kernel);
  if (PyArray_DIM(w, 1) * v.groups != v.c) Py_RETURN_NONE;
  for (int i = 0; i < 3; ++i) {
    const int64_t span = v.size[i] + 2 * v.padding[i] - v.dilation[i] * (v.kernel[i] - 1) - 1;
    v.out_size[i] = span < 0 ? 0 : span / v.stride[i] + 1;
  }
  LayerOperand bias;
  if (!is_valid(v)) Py_RETURN_NONE;
  if (!read_optional(&bias, args[2], type, v.k)) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  if (!blas_ensure()) return nullptr;
  const bool is_last = is_pointwise(v) && has_channels_last(x);
  Ref a = images_in_order(x, is_last), b = contiguous(w);
  Ref out = new_images(nd, v.n, v.k, v.out_size, type, is_last);
  if (!a || !b || !out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    const auto compute = is_last ? pointwise_forward<T> : conv_forward<T>;
    compute(v, data<T>(a), data<T>(b), bias.as<T>(), data<T>(out));
  });
  return ok ? result_images(std::move(out), is_last) : nullptr;
}

PyObject* conv_transpose(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("conv_transpose", n, 7)) return nullptr;
  PyArrayObject *y = real_array(args[0]), *w = real_array(args[1]);
  Convolution v;
  if (!y || !w || !same_rank_and_dtype(y, w)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(y), type = PyArray_TYPE(y);
  if (!parse_longs(args[2], nd - 2, 1, 0, v.size) || !parse_parameters(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(y, 0);
  v.k = PyArray_DIM(y, 1);
  v.c = PyArray_DIM(w, 1) * v.groups;
  spatial_sizes(y, v.out_size);
  spatial_sizes(w, v.kernel);
  if (PyArray_DIM(w, 0) != v.k || !is_valid(v)) Py_RETURN_NONE;
  if (!blas_ensure()) return nullptr;
  const bool is_last = is_pointwise(v) && has_channels_last(y);
  Ref a = images_in_order(y, is_last), b = contiguous(w);
  Ref out = new_images(nd, v.n, v.c, v.size, type, is_last);
  if (!a || !b || !out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    const auto compute = is_last ? pointwise_backward_input<T> : conv_backward_input<T>;
    compute(v, data<T>(a), data<T>(b), data<T>(out));
  });
  return ok ? result_images(std::move(out), is_last) : nullptr;
}

PyObject* convolution_backward_weight(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("convolution_backward_weight", n, 7)) return nullptr;
  PyArrayObject *x = real_array(args[0]), *y = real_array(args[1]);
  Convolution v;
  if (!x || !y || !same_rank_and_dtype(x, y)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (!parse_longs(args[2], nd - 2, 1, 0, v.kernel) || !parse_parameters(args + 3, nd - 2, &v)) Py_RETURN_NONE;
  v.n = PyArray_DIM(x, 0);
  v.c = PyArray_DIM(x, 1);
  v.k = PyArray_DIM(y, 1);
  spatial_sizes(x, v.size);
  spatial_sizes(y, v.out_size);
  if (PyArray_DIM(y, 0) != v.n || !is_valid(v)) Py_RETURN_NONE;
  if (!blas_ensure()) return nullptr;
  const bool is_last = is_pointwise(v) && (has_channels_last(x) || has_channels_last(y));
  Ref a = images_in_order(x, is_last), b = images_in_order(y, is_last);
  Ref out = new_images(nd, v.k, v.c / v.groups, v.kernel, type, false);
  if (!a || !b || !out) return nullptr;
  const bool ok = run_unlocked(type, v.n * v.k * v.outputs() * v.taps(), [&](auto zero) {
    using T = decltype(zero);
    const auto compute = is_last ? pointwise_backward_weight<T> : conv_backward_weight<T>;
    compute(v, data<T>(a), data<T>(b), data<T>(out));
  });
  return ok ? out.release() : nullptr;
}

}  // namespace shmtensor
