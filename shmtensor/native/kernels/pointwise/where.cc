// Operands are broadcast by strides; contiguous rows are computed by the kernel of the instruction-set level.
#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kUnlock = 8192;

// The broadcast condition, x and y with merged dimensions; the result is contiguous.
struct BroadcastRows {
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS];
  npy_intp strides[3][NPY_MAXDIMS];
};

// False if the shapes do not broadcast.
bool broadcast(PyArrayObject* const* in, int* nd, npy_intp* dims) {
  *nd = 0;
  for (int i = 0; i < 3; ++i) {
    if (PyArray_NDIM(in[i]) > *nd) *nd = PyArray_NDIM(in[i]);
  }
  for (int d = 0; d < *nd; ++d) {
    dims[d] = 1;
    for (int i = 0; i < 3; ++i) {
      const int at = d - (*nd - PyArray_NDIM(in[i]));
      const npy_intp n = at < 0 ? 1 : PyArray_DIM(in[i], at);
      if (n == 1 || n == dims[d]) continue;
      if (dims[d] != 1) return false;
      dims[d] = n;
    }
  }
  return true;
}

void merge_dims(PyArrayObject* const* in, int nd, const npy_intp* dims, BroadcastRows* r) {
  for (int d = 0; d < nd; ++d) {
    if (dims[d] == 1) continue;
    npy_intp strides[3];
    bool is_contiguous_with_previous = r->nd > 0;
    for (int i = 0; i < 3; ++i) {
      const int at = d - (nd - PyArray_NDIM(in[i]));
      strides[i] = at < 0 || PyArray_DIM(in[i], at) == 1 ? 0 : PyArray_STRIDE(in[i], at);
      is_contiguous_with_previous = is_contiguous_with_previous && r->strides[i][r->nd - 1] == strides[i] * dims[d];
    }
    if (!is_contiguous_with_previous) {
      r->dims[r->nd++] = 1;
    }
    r->dims[r->nd - 1] *= dims[d];
    for (int i = 0; i < 3; ++i) r->strides[i][r->nd - 1] = strides[i];
  }
  if (r->nd == 0) {
    r->nd = 1;
    r->dims[0] = 1;
    r->strides[0][0] = r->strides[1][0] = r->strides[2][0] = 0;
  }
}

template <class T>
void run(const BroadcastRows& r, const char* const* data, T* out) {
  const int last = r.nd - 1;
  const int64_t inner = r.dims[last];
  int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= r.dims[i];
  const npy_intp cs = r.strides[0][last], xs = r.strides[1][last], ys = r.strides[2][last];
  constexpr npy_intp item = sizeof(T);
  const bool is_contiguous = (cs == 1 || inner == 1) && (xs == item || xs == 0) && (ys == item || ys == 0);
  const auto kernel = folds<T>().where;
  const auto run_row = [&](int64_t row, int64_t start, int64_t stop) {
    const char* p[3] = {data[0], data[1], data[2]};
    int64_t row_index = row;
    for (int i = last - 1; i >= 0; --i) {
      const int64_t at = row_index % r.dims[i];
      row_index /= r.dims[i];
      for (int k = 0; k < 3; ++k) p[k] += at * r.strides[k][i];
    }
    for (int k = 0; k < 3; ++k) p[k] += start * r.strides[k][last];
    T* to = out + row * inner + start;
    const int64_t n = stop - start;
    if (is_contiguous) {
      kernel(reinterpret_cast<const uint8_t*>(p[0]), reinterpret_cast<const T*>(p[1]), xs != 0,
             reinterpret_cast<const T*>(p[2]), ys != 0, to, n);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      to[i] = *reinterpret_cast<const T*>(p[0][i * cs] ? p[1] + i * xs : p[2] + i * ys);
    }
  };
  if (outer == 1) return ranges(inner, kGrain, [&](int64_t i, int64_t j) { run_row(0, i, j); });
  const int64_t grain = inner >= kGrain ? 1 : kGrain / inner;
  ranges(outer, grain, [&](int64_t i, int64_t j) {
    for (; i < j; ++i) run_row(i, 0, inner);
  });
}

PyObject* call_numpy(PyObject* const* args) {
  static PyObject* where = nullptr;
  if (!where) {
    Ref numpy(PyImport_ImportModule("numpy"));
    where = numpy ? PyObject_GetAttrString(numpy.get(), "where") : nullptr;
    if (!where) return nullptr;
  }
  return PyObject_Vectorcall(where, args, 3, nullptr);
}

bool is_number(PyObject* p) { return PyFloat_CheckExact(p) || PyLong_CheckExact(p) || PyBool_Check(p); }

}  // namespace

// where(condition, x, y): as numpy.where; x or y may be a Python number.
PyObject* where(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("where", n, 3)) return nullptr;
  PyObject* array_operand = PyArray_CheckExact(args[1]) ? args[1] : args[2];
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(array_operand) || PyArray_TYPE(as_array(args[0])) != NPY_BOOL) {
    return call_numpy(args);
  }
  const int type = PyArray_TYPE(as_array(array_operand));
  if (type >= NPY_OBJECT && type != NPY_HALF) return call_numpy(args);
  Ref converted[2];
  PyArrayObject* in[3] = {as_array(args[0]), nullptr, nullptr};
  for (int i = 1; i < 3; ++i) {
    if (is_number(args[i])) {
      // A number that changes the result's dtype (a float beside integers) is left to NumPy.
      if (PyFloat_CheckExact(args[i]) && type <= NPY_ULONGLONG) return call_numpy(args);
      if (!PyBool_Check(args[i]) && type == NPY_BOOL) return call_numpy(args);
      converted[i - 1] = Ref(PyArray_FromAny(args[i], PyArray_DescrFromType(type), 0, 0, NPY_ARRAY_FORCECAST, nullptr));
      if (!converted[i - 1]) {
        PyErr_Clear();  // out of range: NumPy raises
        return call_numpy(args);
      }
      in[i] = converted[i - 1].array();
    } else if (PyArray_CheckExact(args[i]) && PyArray_TYPE(as_array(args[i])) == type) {
      in[i] = as_array(args[i]);
    } else {
      return call_numpy(args);
    }
  }
  int nd;
  npy_intp dims[NPY_MAXDIMS];
  for (PyArrayObject* a : in) {
    if (!is_plain(a)) return call_numpy(args);
  }
  if (!broadcast(in, &nd, dims)) return call_numpy(args);
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  const int64_t total = PyArray_SIZE(out.array());
  if (total == 0) return out.release();
  BroadcastRows rows;
  merge_dims(in, nd, dims, &rows);
  const char* from[3] = {PyArray_BYTES(in[0]), PyArray_BYTES(in[1]), PyArray_BYTES(in[2])};
  bool has_kernel;
  {
    Unlocked unlocked(total > kUnlock);
    has_kernel = with_size(PyArray_ITEMSIZE(out.array()), [&](auto zero) { run(rows, from, data<decltype(zero)>(out)); });
  }
  return has_kernel ? out.release() : call_numpy(args);
}

}  // namespace shmtensor
