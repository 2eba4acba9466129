// Casts arrays of 16-bit floats to float32 and back, on the thread pool.
#include "kernels/arguments.h"
#include "kernels/dtypes.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "half/half.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 65536;
constexpr int64_t kUnlock = 8192;

int format_of(int type) { return type == NPY_HALF ? 0 : 1; }

// Do both arrays have the same strides, in elements?
bool same_layout(PyArrayObject* a, PyArrayObject* b) {
  const npy_intp m = PyArray_ITEMSIZE(a), n = PyArray_ITEMSIZE(b);
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    if (PyArray_DIM(a, i) > 1 && PyArray_STRIDE(a, i) / m != PyArray_STRIDE(b, i) / n) return false;
    if (PyArray_STRIDE(a, i) % m) return false;
  }
  return true;
}

Ref new_array_like(PyArrayObject* x, int type) {
  return Ref(PyArray_NewLikeArray(x, NPY_KEEPORDER, PyArray_DescrFromType(type), 0));
}

}  // namespace

PyObject* widen_array(PyArrayObject* x) {
  Ref out = new_array_like(x, NPY_FLOAT);
  return out && widen_into(x, out.array()) ? out.release() : nullptr;
}

bool widen_into(PyArrayObject* x, PyArrayObject* out) {
  if (!is_plain(out)) return PyArray_CopyInto(out, x) == 0;
  Ref dense;
  if (!is_plain(x) || !same_layout(out, x)) {  // gaps, or broadcast: copy to dense memory first
    dense = Ref(PyArray_NewLikeArray(out, NPY_KEEPORDER, PyArray_DescrFromType(PyArray_TYPE(x)), 0));
    if (!dense || PyArray_CopyInto(dense.array(), x) < 0) return false;
    x = dense.array();
  }
  const int64_t n = PyArray_SIZE(x);
  const auto kernel = half_kernels().widen[format_of(PyArray_TYPE(x))];
  const auto* from = data<uint16_t>(x);
  auto* to = data<float>(out);
  Unlocked unlocked(n > kUnlock);
  ranges(n, kGrain, [&](int64_t start, int64_t stop) { kernel(from + start, to + start, stop - start); });
  return true;
}

bool narrow_into(PyArrayObject* x, PyArrayObject* out) {
  Ref dense;
  PyArrayObject* target = out;
  if (!is_plain(out) || !is_plain(x) || !same_layout(x, out)) {
    dense = new_array_like(x, PyArray_TYPE(out));
    if (!dense) return false;
    target = dense.array();
    if (!is_plain(x) || !same_layout(x, target)) {  // gaps in x
      Ref contiguous_x = new_array_like(x, NPY_FLOAT);
      if (!contiguous_x || PyArray_CopyInto(contiguous_x.array(), x) < 0) return false;
      return narrow_into(contiguous_x.array(), out);
    }
  }
  const int64_t n = PyArray_SIZE(x);
  const auto kernel = half_kernels().narrow[format_of(PyArray_TYPE(out))];
  const auto* from = data<float>(x);
  auto* to = data<uint16_t>(target);
  {
    Unlocked unlocked(n > kUnlock);
    ranges(n, kGrain, [&](int64_t start, int64_t stop) { kernel(from + start, to + start, stop - start); });
  }
  return target == out || PyArray_CopyInto(out, target) == 0;
}

PyObject* narrow_array(PyArrayObject* x, int type) {
  Ref out = new_array_like(x, type);
  return out && narrow_into(x, out.array()) ? out.release() : nullptr;
}

}  // namespace shmtensor
