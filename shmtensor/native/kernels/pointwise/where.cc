// Operands are broadcast by strides; rows go to the level's kernel where they lie in order.
#include "kernels/pointwise/where.h"

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kUnlock = 8192;

// Condition, x, y and the result, with merged dimensions; the result lies in order.
struct Rows {
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS];
  npy_intp steps[3][NPY_MAXDIMS];
};

// false: the shapes do not broadcast.
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

void merge(PyArrayObject* const* in, int nd, const npy_intp* dims, Rows* r) {
  for (int d = 0; d < nd; ++d) {
    if (dims[d] == 1) continue;
    npy_intp steps[3];
    bool continues = r->nd > 0;
    for (int i = 0; i < 3; ++i) {
      const int at = d - (nd - PyArray_NDIM(in[i]));
      steps[i] = at < 0 || PyArray_DIM(in[i], at) == 1 ? 0 : PyArray_STRIDE(in[i], at);
      continues = continues && r->steps[i][r->nd - 1] == steps[i] * dims[d];
    }
    if (!continues) {
      r->dims[r->nd++] = 1;
    }
    r->dims[r->nd - 1] *= dims[d];
    for (int i = 0; i < 3; ++i) r->steps[i][r->nd - 1] = steps[i];
  }
  if (r->nd == 0) {
    r->nd = 1;
    r->dims[0] = 1;
    r->steps[0][0] = r->steps[1][0] = r->steps[2][0] = 0;
  }
}

template <class T>
void run(const Rows& r, const char* const* data, T* out) {
  const int last = r.nd - 1;
  const int64_t inner = r.dims[last];
  int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= r.dims[i];
  const npy_intp cs = r.steps[0][last], xs = r.steps[1][last], ys = r.steps[2][last];
  constexpr npy_intp item = sizeof(T);
  const bool in_order = (cs == 1 || inner == 1) && (xs == item || xs == 0) && (ys == item || ys == 0);
  const auto kernel = folds<T>().choose;
  const auto part = [&](int64_t row, int64_t start, int64_t stop) {
    const char* p[3] = {data[0], data[1], data[2]};
    int64_t rest = row;
    for (int i = last - 1; i >= 0; --i) {
      const int64_t at = rest % r.dims[i];
      rest /= r.dims[i];
      for (int k = 0; k < 3; ++k) p[k] += at * r.steps[k][i];
    }
    for (int k = 0; k < 3; ++k) p[k] += start * r.steps[k][last];
    T* to = out + row * inner + start;
    const int64_t n = stop - start;
    if (in_order) {
      kernel(reinterpret_cast<const uint8_t*>(p[0]), reinterpret_cast<const T*>(p[1]), xs != 0,
             reinterpret_cast<const T*>(p[2]), ys != 0, to, n);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      to[i] = *reinterpret_cast<const T*>(p[0][i * cs] ? p[1] + i * xs : p[2] + i * ys);
    }
  };
  if (outer == 1) return ranges(inner, kGrain, [&](int64_t i, int64_t j) { part(0, i, j); });
  const int64_t grain = inner >= kGrain ? 1 : kGrain / inner;
  ranges(outer, grain, [&](int64_t i, int64_t j) {
    for (; i < j; ++i) part(i, 0, inner);
  });
}

PyObject* by_numpy(PyObject* const* args) {
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
  if (count_arguments("where", n, 3, 3) < 0) return nullptr;
  PyObject* lead = PyArray_CheckExact(args[1]) ? args[1] : args[2];
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(lead) ||
      PyArray_TYPE(as_array(args[0])) != NPY_BOOL) {
    return by_numpy(args);
  }
  const int type = PyArray_TYPE(as_array(lead));
  if (type >= NPY_OBJECT && type != NPY_HALF) return by_numpy(args);
  Ref held[2];
  PyArrayObject* in[3] = {as_array(args[0]), nullptr, nullptr};
  for (int i = 1; i < 3; ++i) {
    if (is_number(args[i])) {
      // What NumPy would give another dtype (a float beside integers), NumPy does.
      if (PyFloat_CheckExact(args[i]) && type <= NPY_ULONGLONG) return by_numpy(args);
      if (!PyBool_Check(args[i]) && type == NPY_BOOL) return by_numpy(args);
      held[i - 1] = Ref(PyArray_FromAny(args[i], PyArray_DescrFromType(type), 0, 0,
                                        NPY_ARRAY_FORCECAST, nullptr));
      if (!held[i - 1]) {
        PyErr_Clear();  // it does not fit: NumPy says so
        return by_numpy(args);
      }
      in[i] = held[i - 1].array();
    } else if (PyArray_CheckExact(args[i]) && PyArray_TYPE(as_array(args[i])) == type) {
      in[i] = as_array(args[i]);
    } else {
      return by_numpy(args);
    }
  }
  int nd;
  npy_intp dims[NPY_MAXDIMS];
  for (PyArrayObject* a : in) {
    if (!is_plain(a)) return by_numpy(args);
  }
  if (!broadcast(in, &nd, dims)) return by_numpy(args);
  Ref out(fresh(nd, dims, type));
  if (!out) return nullptr;
  const int64_t total = PyArray_SIZE(out.array());
  if (total == 0) return out.release();
  Rows rows;
  merge(in, nd, dims, &rows);
  const char* from[3] = {PyArray_BYTES(in[0]), PyArray_BYTES(in[1]), PyArray_BYTES(in[2])};
  bool done;
  {
    Unlocked unlocked(total > kUnlock);
    done = with_size(PyArray_ITEMSIZE(out.array()), [&](auto zero) {
      run(rows, from, data<decltype(zero)>(out));
    });
  }
  return done ? out.release() : by_numpy(args);
}

}  // namespace shmtensor
