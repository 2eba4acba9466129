// LAPACK reads and writes matrices in column-major order, and so are the results, as in PyTorch: arrays of shape
// (..., m, n) are views of memory in the order (..., n, m).
#include <climits>
#include <cstring>
#include <string>

#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "threading/scratch.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 16384, kSlice = 65536, kTiny = 4096;  // multiply-adds

// LAPACK's functions. Sizes are int in this library; the lengths of strings are the last arguments.
using Getrf = void (*)(const int* m, const int* n, void* a, const int* lda, int* pivots, int* info);
using Sytrf = void (*)(const char* uplo, const int* n, void* a, const int* lda, int* pivots, void* work, const int* lwork,
                       int* info, size_t);
using Sytrs = void (*)(const char* uplo, const int* n, const int* nrhs, const void* a, const int* lda, const int* pivots,
                       void* b, const int* ldb, int* info, size_t);

// LAPACK's function of that name (getrf, sytrf, ...) for the dtype of x. False: a Python exception is set.
template <class F>
bool lapack_function(const char* name, PyArrayObject* x, F* out) {
  const int type = PyArray_TYPE(x);
  const char* prefix = type == NPY_FLOAT     ? "s"
                       : type == NPY_DOUBLE  ? "d"
                       : type == NPY_CFLOAT  ? "c"
                       : type == NPY_CDOUBLE ? "z"
                                             : nullptr;
  if (!prefix) return raise("TypeError", "%s: the dtype is not one of LAPACK's: %s", name, dtype_text(x).c_str());
  *out = reinterpret_cast<F>(blas_function((std::string("scipy_") + prefix + name + "_").c_str()));
  return *out != nullptr;
}

// An array of matrices, or nullptr with an exception.
PyArrayObject* matrices_argument(const char* where, const char* name, PyObject* p) {
  PyArrayObject* x = array_argument(where, name, p);
  const int nd = x ? PyArray_NDIM(x) : 0;
  if (x && (nd < 2 || PyArray_DIM(x, nd - 2) > INT_MAX || PyArray_DIM(x, nd - 1) > INT_MAX))
    return raise("RuntimeError", "%s: expected matrices of sizes below 2 ** 31: %s", where, shape_text(x).c_str());
  return x;
}

Ref transpose(PyArrayObject* x) { return Ref(PyArray_SwapAxes(x, PyArray_NDIM(x) - 2, PyArray_NDIM(x) - 1)); }

// A copy of x in the order (..., n, m), in native byte order.
Ref column_major_copy(PyArrayObject* x) {
  Ref view = transpose(x);
  if (!view) return view;
  if (!is_plain(x)) return contiguous(view.array());
  PyObject* argument = view.get();
  return Ref(contiguous(nullptr, &argument, 1));
}

// The number of matrices of x, and their sizes.
struct Batch {
  explicit Batch(PyArrayObject* x)
      : m(static_cast<int>(PyArray_DIM(x, PyArray_NDIM(x) - 2))),
        n(static_cast<int>(PyArray_DIM(x, PyArray_NDIM(x) - 1))),
        nbytes(PyArray_ITEMSIZE(x) * static_cast<int64_t>(m) * n) {
    for (int i = 0; i < PyArray_NDIM(x) - 2; ++i) count *= PyArray_DIM(x, i);
  }
  int m, n;
  int64_t nbytes, count = 1;
};

// body(i) for each matrix of a batch, on the thread pool; a matrix takes `work` multiply-adds. Tiny matrices run on one
// thread: OpenBLAS takes a lock in each call, on which threads would wait.
template <class F>
void for_matrices(int64_t count, int64_t work, F&& body) {
  Unlocked unlocked(count * work > kUnlock);
  const int64_t grain = 1 + (work < kTiny ? count : kSlice / work);
  ranges(count, grain, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) body(i);
  });
}

// (factors, pivots, info) of each matrix: factor(a, pivots, info) writes them, in place.
template <class F>
PyObject* factorize(PyArrayObject* x, const Batch& batch, F&& factor) {
  const int nd = PyArray_NDIM(x), k = batch.m < batch.n ? batch.m : batch.n;
  npy_intp dims[NPY_MAXDIMS];
  for (int i = 0; i < nd - 2; ++i) dims[i] = PyArray_DIM(x, i);
  dims[nd - 2] = k;
  Ref a = column_major_copy(x), pivots(new_array(nd - 1, dims, NPY_INT)), info(new_array(nd - 2, dims, NPY_INT));
  if (!a || !pivots || !info) return nullptr;
  memset(data<int>(info), 0, sizeof(int) * static_cast<size_t>(batch.count));
  if (k) {  // LAPACK rejects the leading dimension 0
    for_matrices(batch.count, static_cast<int64_t>(batch.m) * batch.n * k, [&](int64_t i) {
      factor(data<char>(a) + i * batch.nbytes, data<int>(pivots) + i * k, data<int>(info) + i);
    });
  }
  Ref out = transpose(a.array());
  return out ? PyTuple_Pack(3, out.get(), pivots.get(), info.get()) : nullptr;
}

// Are these pivots that sytrf can have written: rows from 1 to n, negative ones in equal pairs? Others would make
// LAPACK read and write out of bounds.
bool are_valid_pivots(const int* pivots, int n) {
  for (int k = 0; k < n; ++k) {
    const int p = pivots[k];
    if (p == 0 || p > n || p < -n) return false;
    if (p < 0 && (++k == n || pivots[k] != p)) return false;
  }
  return true;
}

}  // namespace

// lu_factor(x)
PyObject* lu_factor(PyObject*, PyObject* p) {
  PyArrayObject* x = matrices_argument("lu_factor", "x", p);
  Getrf getrf;
  if (!x || !lapack_function("getrf", x, &getrf)) return nullptr;
  const Batch batch(x);
  return factorize(x, batch, [&](char* a, int* pivots, int* info) { getrf(&batch.m, &batch.n, a, &batch.m, pivots, info); });
}

// ldl_factor(x, hermitian): only the lower triangles are read
PyObject* ldl_factor(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("ldl_factor", n, 2)) return nullptr;
  PyArrayObject* x = matrices_argument("ldl_factor", "x", args[0]);
  if (!x) return nullptr;
  const Batch batch(x);
  if (batch.m != batch.n) {
    return raise("RuntimeError", "ldl_factor: expected square matrices: %s", shape_text(x).c_str());
  }
  const bool hermitian = args[1] == Py_True && PyArray_ISCOMPLEX(x);
  Sytrf sytrf;
  if (!lapack_function(hermitian ? "hetrf" : "sytrf", x, &sytrf)) return nullptr;
  const int64_t size = PyArray_ITEMSIZE(x);
  const int lwork = 64 * batch.n;  // 64 columns at once
  return factorize(x, batch, [&](char* a, int* pivots, int* info) {
    void* work = scratch.get<char>(size * lwork);
    sytrf("L", &batch.n, a, &batch.n, pivots, work, &lwork, info, 1);
    for (int64_t j = 1; j < batch.n; ++j) memset(a + j * batch.n * size, 0, static_cast<size_t>(j * size));
  });
}

// ldl_solve(LD, pivots, b, hermitian): b has as many matrices as LD
PyObject* ldl_solve(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("ldl_solve", n, 4)) return nullptr;
  PyArrayObject* x = matrices_argument("ldl_solve", "LD", args[0]);
  PyArrayObject* pivots_array = x ? array_argument("ldl_solve", "pivots", args[1]) : nullptr;
  PyArrayObject* y = pivots_array ? matrices_argument("ldl_solve", "b", args[2]) : nullptr;
  if (!y) return nullptr;
  const Batch factors(x), rhs(y);
  if (factors.m != factors.n || factors.m != rhs.m || factors.count != rhs.count || PyArray_TYPE(x) != PyArray_TYPE(y) ||
      PyArray_SIZE(pivots_array) != factors.count * factors.n) {
    return raise("RuntimeError", "ldl_solve: shapes or dtypes of LD, pivots and b do not match: %s %s, %s, %s %s",
                 shape_text(x).c_str(), dtype_text(x).c_str(), shape_text(pivots_array).c_str(), shape_text(y).c_str(),
                 dtype_text(y).c_str());
  }
  Sytrs sytrs;
  if (!lapack_function(args[3] == Py_True && PyArray_ISCOMPLEX(x) ? "hetrs" : "sytrs", x, &sytrs)) return nullptr;
  Ref view = transpose(x), pivots = private_copy_as(pivots_array, NPY_INT), b = column_major_copy(y);
  Ref a = view ? contiguous(view.array()) : Ref();
  if (!a || !pivots || !b) return nullptr;
  for (int64_t i = 0; i < factors.count; ++i) {
    if (!are_valid_pivots(data<int>(pivots) + i * factors.n, factors.n)) {
      return raise("RuntimeError", "ldl_solve: pivots are not those of ldl_factor: matrix %lld", static_cast<long long>(i));
    }
  }
  if (factors.n && rhs.n) {
    for_matrices(factors.count, static_cast<int64_t>(factors.n) * factors.n * rhs.n, [&](int64_t i) {
      int info;
      sytrs("L", &factors.n, &rhs.n, data<char>(a) + i * factors.nbytes, &factors.n, data<int>(pivots) + i * factors.n,
            data<char>(b) + i * rhs.nbytes, &factors.n, &info, 1);
    });
  }
  return transpose(b.array()).release();
}

}  // namespace shmtensor
