// Products of arrays: converts shapes and strides to what BLAS accepts, without a copy where possible.
//
// If y is broadcast over the batch, the batch becomes the rows of one product; other batches run one product per slice
// on the thread pool. Slices depend on shapes alone, so results do not depend on the number of threads.
#include <complex>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/shape/memcpy.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"
#include "kernels/linalg/bfloat16_gemm.h"
#include "kernels/linalg/integer_matmul.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 64 * 64 * 64;  // multiply-adds above which the GIL is released
constexpr int64_t kTiny = 512;             // below, a plain loop beats the call into BLAS
constexpr int64_t kMaxInt = 2147483647;   // BLAS counts in int

// One operand as a batch of matrices. `ld` is in elements; transposed: the memory holds the transpose.
struct Operand {
  Ref owner;
  const char* data;
  int64_t rows, columns, ld;
  bool transposed;
  int nbatch;
  npy_intp batch[NPY_MAXDIMS], strides[NPY_MAXDIMS];  // strides in bytes
};

// Can BLAS read rows x columns at these strides? Sets ld and transposed.
bool set_leading_dimension(int64_t rows, int64_t columns, npy_intp row, npy_intp column, npy_intp item, Operand* o) {
  const bool has_one_row = rows <= 1, has_one_column = columns <= 1;  // a side of one has no stride
  if ((has_one_column || column == item) && (has_one_row || (row % item == 0 && row >= columns * item))) {
    o->ld = has_one_row ? columns : row / item;
    o->transposed = false;
  } else if ((has_one_row || row == item) && (has_one_column || (column % item == 0 && column >= rows * item))) {
    o->ld = has_one_column ? rows : column / item;
    o->transposed = true;
  } else if (rows * columns == 0) {  // NumPy gives empty arrays any strides; nothing is read
    o->ld = columns;
    o->transposed = false;
  } else {
    return false;
  }
  if (o->ld < 1) o->ld = 1;
  return o->ld <= kMaxInt;
}

bool read_operand(PyArrayObject* a, bool is_left, bool transpose, Operand* o) {
  Py_INCREF(a);
  o->owner = Ref(a);
  const npy_intp item = PyArray_ITEMSIZE(a);
  for (int attempt = 0;; ++attempt) {
    PyArrayObject* x = o->owner.array();
    const int nd = PyArray_NDIM(x);
    const npy_intp* dims = PyArray_DIMS(x);
    const npy_intp* strides = PyArray_STRIDES(x);
    npy_intp row, column;
    if (nd == 1) {
      o->rows = is_left ? 1 : dims[0];
      o->columns = is_left ? dims[0] : 1;
      row = column = strides[0];
    } else {
      o->rows = dims[nd - 2];
      o->columns = dims[nd - 1];
      row = strides[nd - 2];
      column = strides[nd - 1];
    }
    if (transpose) {
      int64_t t = o->rows;
      o->rows = o->columns;
      o->columns = t;
      npy_intp s = row;
      row = column;
      column = s;
    }
    const bool empty = PyArray_SIZE(x) == 0;
    if (PyArray_ISALIGNED(x) && PyArray_ISNOTSWAPPED(x) &&
        set_leading_dimension(empty ? 0 : o->rows, o->columns, row, column, item, o)) {
      o->data = PyArray_BYTES(x);
      o->nbatch = nd > 2 ? nd - 2 : 0;
      for (int i = 0; i < o->nbatch; ++i) {
        o->batch[i] = dims[i];
        o->strides[i] = strides[i];
      }
      return true;
    }
    if (attempt) return raise("RuntimeError", "matmul: an operand is too large: %s", shape_text(x).c_str());
    o->owner = Ref(PyArray_FromArray(a, PyArray_DescrFromType(PyArray_TYPE(a)), NPY_ARRAY_CARRAY_RO | NPY_ARRAY_ENSURECOPY));
    if (!o->owner) return false;
  }
}

// Computes the broadcast batch shape in dims, and expands each operand's strides to it.
bool broadcast(Operand* x, Operand* y, int* nbatch, npy_intp* dims) {
  const int n = x->nbatch > y->nbatch ? x->nbatch : y->nbatch;
  for (Operand* o : {x, y}) {
    const int missing = n - o->nbatch;
    if (missing) {
      memmove(o->batch + missing, o->batch, sizeof(npy_intp) * static_cast<size_t>(o->nbatch));
      memmove(o->strides + missing, o->strides, sizeof(npy_intp) * static_cast<size_t>(o->nbatch));
      for (int i = 0; i < missing; ++i) o->batch[i] = 1;
    }
    for (int i = 0; i < n; ++i) {
      if (o->batch[i] == 1) o->strides[i] = 0;
    }
  }
  for (int i = 0; i < n; ++i) {
    if (x->batch[i] == y->batch[i] || y->batch[i] == 1) {
      dims[i] = x->batch[i];
    } else if (x->batch[i] == 1) {
      dims[i] = y->batch[i];
    } else {
      return false;
    }
  }
  *nbatch = n;
  return true;
}

// Does the batch continue the rows, so that the operand is one tall matrix?
bool is_one_matrix(const Operand& x, int nbatch, const npy_intp* dims, npy_intp item) {
  if (x.transposed) return false;
  npy_intp expected = x.rows * x.ld * item;
  for (int i = nbatch - 1; i >= 0; --i) {
    if (dims[i] != 1 && x.strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

template <class T>
void multiply_tiny(const Gemm<T>& g) {
  const int64_t am = g.a_transposed ? 1 : g.lda, ak = g.a_transposed ? g.lda : 1;
  const int64_t bk = g.b_transposed ? 1 : g.ldb, bn = g.b_transposed ? g.ldb : 1;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      const T *a = g.a + i * am, *b = g.b + j * bn;
      decltype(T() * T()) sum(0);  // of bfloat16 in float32
      for (int64_t k = 0; k < g.k; ++k) sum += a[k * ak] * b[k * bk];
      T* c = g.c + i * g.ldc + j;
      *c = T(g.beta == T(0) ? sum : sum + *c);
    }
  }
}

template <class T>
void run(const Operand& x, const Operand& y, T* out, int nbatch, const npy_intp* dims, T beta) {
  Gemm<T> g{reinterpret_cast<const T*>(x.data),
            reinterpret_cast<const T*>(y.data),
            out,
            x.rows,
            y.columns,
            x.columns,
            x.ld,
            y.ld,
            y.columns,
            x.transposed,
            y.transposed,
            beta};
  int64_t count = 1;
  for (int i = 0; i < nbatch; ++i) count *= dims[i];
  const int64_t work = g.m * g.n * g.k;
  if (count * g.m * g.n == 0) return;
  if (g.k == 0) {
    if (beta == T(0)) memset(static_cast<void*>(out), 0, sizeof(T) * static_cast<size_t>(count * g.m * g.n));
    return;
  }
  const bool is_vectorizable = g.n % 4 == 0 && (g.b_transposed ? g.m > 3 && g.k % 4 == 0 : g.m > 1);
  const bool is_tiny = work <= kTiny && !std::is_integral<T>::value && !is_vectorizable;
  Unlocked unlocked(count * work > kUnlock);
  if (count == 1) return is_tiny ? multiply_tiny(g) : gemm(g);
  bool shares_y = true;
  for (int i = 0; i < nbatch; ++i) shares_y = shares_y && (y.strides[i] == 0 || dims[i] == 1);
  if (shares_y && count * g.m <= kMaxInt && is_one_matrix(x, nbatch, dims, sizeof(T))) {
    g.m *= count;
    return gemm(g);
  }
  auto product_at = [&](int64_t index) {
    Gemm<T> h = g;
    h.c += index * g.m * g.n;
    const char *a = x.data, *b = y.data;
    for (int i = nbatch - 1; i >= 0; --i) {
      npy_intp at = index % dims[i];
      index /= dims[i];
      a += at * x.strides[i];
      b += at * y.strides[i];
    }
    h.a = reinterpret_cast<const T*>(a);
    h.b = reinterpret_cast<const T*>(b);
    return h;
  };
  if (work >= 128 * 128 * 128) {  // each is large enough to be divided into tiles itself
    for (int64_t i = 0; i < count; ++i) gemm(product_at(i));
    return;
  }
  const int64_t grain = work >= 65536 ? 1 : (65536 + work - 1) / work;
  ranges(count, grain, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      if (is_tiny) {
        multiply_tiny(product_at(i));
      } else {
        blas_gemm(product_at(i));
      }
    }
  });
}

void run(int type, const Operand& x, const Operand& y, void* out, int nbatch, const npy_intp* dims, bool add) {
  switch (type) {
    case NPY_FLOAT: return run(x, y, static_cast<float*>(out), nbatch, dims, float(add));
    case NPY_DOUBLE: return run(x, y, static_cast<double*>(out), nbatch, dims, double(add));
    case NPY_CFLOAT: return run(x, y, static_cast<std::complex<float>*>(out), nbatch, dims, std::complex<float>(add));
    case NPY_CDOUBLE: return run(x, y, static_cast<std::complex<double>*>(out), nbatch, dims, std::complex<double>(add));
    default:
      if (type == bfloat16_num) {
        return run(x, y, static_cast<Bfloat16*>(out), nbatch, dims, Bfloat16(static_cast<float>(add)));
      }
      with_size(PyArray_ITEMSIZE(x.owner.array()), [&](auto zero) {
        using T = decltype(zero);
        run(x, y, static_cast<T*>(out), nbatch, dims, T(add));
      });
  }
}

bool has_blas(int type) { return type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_CFLOAT || type == NPY_CDOUBLE; }

// Products of bfloat16 by the CPU's instruction; without it they are computed in float32 (half/compute_in_float32.cc).
bool is_bfloat16(int type) { return type == bfloat16_num && has_bfloat16_gemm(); }

bool is_integer(int type) { return type > NPY_BOOL && type <= NPY_ULONGLONG; }

bool has_kernel(int type) { return has_blas(type) || is_integer(type) || is_bfloat16(type); }

// NumPy's matmul for the other dtypes; always an array.
PyObject* call_numpy(PyObject* const* args, Py_ssize_t n) {
  static PyObject* function = nullptr;
  if (!function) {
    Ref numpy(PyImport_ImportModule("numpy"));
    function = numpy ? PyObject_GetAttrString(numpy.get(), "matmul") : nullptr;
    if (!function) return nullptr;
  }
  Ref result(PyObject_Vectorcall(function, args, static_cast<size_t>(n), nullptr));
  if (!result || PyArray_Check(result.get())) return result.release();
  return PyArray_FromAny(result.get(), nullptr, 0, 0, 0, nullptr);
}

PyObject* mismatch(const char* where, PyArrayObject* x, PyArrayObject* y, int64_t k, int64_t y_rows) {
  return raise("RuntimeError", "%s: inner sizes differ: %s @ %s, %lld is not %lld", where, shape_text(x).c_str(),
               shape_text(y).c_str(), static_cast<long long>(k), static_cast<long long>(y_rows));
}

// Can out be written directly? It needs the right dtype, shape and layout, and must not overlap x and y.
bool can_write_to(PyArrayObject* out, int type, int nd, const npy_intp* dims, const Operand& x, const Operand& y) {
  if (PyArray_TYPE(out) != type || !PyArray_ISCARRAY(out) || PyArray_NDIM(out) != nd ||
      !PyArray_CompareLists(PyArray_DIMS(out), dims, nd)) {
    return false;
  }
  return !overlap(out, x.owner.array()) && !overlap(out, y.owner.array());
}

}  // namespace

// Before anything is copied for the product. False with an exception set.
static bool is_allocatable(const char* where, int64_t rows, int64_t columns, int64_t itemsize) {
  int64_t elements, nbytes;
  if (!__builtin_mul_overflow(rows, columns, &elements) && !__builtin_mul_overflow(elements, itemsize, &nbytes)) return true;
  return raise("RuntimeError", "%s: Storage size calculation overflowed with sizes=[%lld, %lld]", where,
               static_cast<long long>(rows), static_cast<long long>(columns));
}

PyObject* matmul(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("matmul", n, 2, 3)) return nullptr;
  PyArrayObject* x = array_argument("matmul", "x", args[0]);
  PyArrayObject* y = x ? array_argument("matmul", "y", args[1]) : nullptr;
  if (!y) return nullptr;
  PyArrayObject* out_argument = nullptr;
  if (n == 3 && args[2] != Py_None) {
    if (!(out_argument = array_argument("matmul", "out", args[2]))) return nullptr;
  }
  const int xd = PyArray_NDIM(x), yd = PyArray_NDIM(y), type = PyArray_TYPE(x);
  if (!xd || !yd) {
    return raise("RuntimeError", "matmul: an operand has no dimensions: %s @ %s, use * for numbers", shape_text(x).c_str(),
                 shape_text(y).c_str());
  }
  const int64_t k = PyArray_DIM(x, xd - 1), y_rows = PyArray_DIM(y, yd > 1 ? yd - 2 : 0);
  if (k != y_rows) return mismatch("matmul", x, y, k, y_rows);
  if (xd > 1 && yd > 1 && !is_allocatable("matmul", PyArray_DIM(x, xd - 2), PyArray_DIM(y, yd - 1), PyArray_ITEMSIZE(x)))
    return nullptr;
  if (type != PyArray_TYPE(y) || !has_kernel(type)) return call_numpy(args, out_argument ? 3 : 2);
  if (has_blas(type) && !blas_ensure()) return nullptr;

  Operand a, b;
  if (!read_operand(x, true, false, &a) || !read_operand(y, false, false, &b)) return nullptr;
  npy_intp dims[NPY_MAXDIMS + 2];
  int nbatch;
  if (!broadcast(&a, &b, &nbatch, dims)) {
    return raise("RuntimeError", "matmul: batch sizes do not broadcast: %s @ %s", shape_text(x).c_str(),
                 shape_text(y).c_str());
  }
  int nd = nbatch;
  if (xd > 1) dims[nd++] = a.rows;
  if (yd > 1) dims[nd++] = b.columns;
  if (out_argument && can_write_to(out_argument, type, nd, dims, a, b)) {
    run(type, a, b, PyArray_DATA(out_argument), nbatch, dims, false);
    Py_INCREF(out_argument);
    return reinterpret_cast<PyObject*>(out_argument);
  }
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  run(type, a, b, PyArray_DATA(out.array()), nbatch, dims, false);
  if (!out_argument) return out.release();
  if (PyArray_NDIM(out_argument) != nd || !PyArray_CompareLists(PyArray_DIMS(out_argument), dims, nd)) {
    return raise("RuntimeError", "matmul: out has another shape: %s, expected %s", shape_text(out_argument).c_str(),
                 shape_text(out.array()).c_str());
  }
  if (PyArray_CopyInto(out_argument, out.array()) < 0) return nullptr;
  Py_INCREF(out_argument);
  return reinterpret_cast<PyObject*>(out_argument);
}

PyObject* linear(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("linear", n, 2, 3)) return nullptr;
  PyArrayObject* x = array_argument("linear", "input", args[0]);
  PyArrayObject* w = x ? array_argument("linear", "weight", args[1]) : nullptr;
  if (!w) return nullptr;
  PyArrayObject* b = nullptr;
  if (n == 3 && args[2] != Py_None && !(b = array_argument("linear", "bias", args[2]))) return nullptr;
  const int xd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (xd < 1 || PyArray_NDIM(w) != 2) {
    return raise("RuntimeError", "linear: expected input (..., in) and weight (out, in): %s, %s", shape_text(x).c_str(),
                 shape_text(w).c_str());
  }
  const int64_t k = PyArray_DIM(x, xd - 1), width = PyArray_DIM(w, 0);
  if (k != PyArray_DIM(w, 1)) {
    return raise("RuntimeError", "linear: sizes differ: input %s, weight %s, %lld is not %lld", shape_text(x).c_str(),
                 shape_text(w).c_str(), static_cast<long long>(k), static_cast<long long>(PyArray_DIM(w, 1)));
  }
  if (!is_allocatable("linear", k ? PyArray_SIZE(x) / k : 0, width, PyArray_ITEMSIZE(x))) return nullptr;
  if (b && (PyArray_NDIM(b) != 1 || PyArray_DIM(b, 0) != width)) {
    return raise("RuntimeError", "linear: the bias does not match the weight: %s, weight %s", shape_text(b).c_str(),
                 shape_text(w).c_str());
  }
  if (type != PyArray_TYPE(w) || (b && type != PyArray_TYPE(b)) || !has_kernel(type)) {
    Ref t(PyArray_Transpose(w, nullptr));
    if (!t) return nullptr;
    PyObject* operands[2] = {args[0], t.get()};
    Ref product(call_numpy(operands, 2));
    if (!product || !b) return product.release();
    Ref sum(PyNumber_Add(product.get(), args[2]));
    return sum ? PyArray_FromAny(sum.get(), nullptr, 0, 0, 0, nullptr) : nullptr;
  }
  if (has_blas(type) && !blas_ensure()) return nullptr;
  Operand a, c;
  if (!read_operand(x, true, false, &a) || !read_operand(w, false, true, &c)) return nullptr;
  Ref bias;
  if (b && !(bias = contiguous(b))) return nullptr;
  npy_intp dims[NPY_MAXDIMS + 2];
  int nbatch;
  broadcast(&a, &c, &nbatch, dims);
  int nd = nbatch;
  if (xd > 1) dims[nd++] = a.rows;
  dims[nd++] = width;
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  if (b && width) {
    const size_t row = static_cast<size_t>(width * PyArray_ITEMSIZE(x));
    char *to = data<char>(out), *from = data<char>(bias);
    const int64_t rows = PyArray_SIZE(out.array()) / width;
    Unlocked unlocked(rows * width > 65536);
    ranges(rows, 1 + 65536 / width, [&](int64_t start, int64_t stop) {
      for (int64_t i = start; i < stop; ++i) copy_run(to + static_cast<size_t>(i) * row, from, row);
    });
  }
  run(type, a, c, PyArray_DATA(out.array()), nbatch, dims, b != nullptr);
  return out.release();
}

}  // namespace shmtensor
