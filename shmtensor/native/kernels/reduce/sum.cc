// Sums in pieces that depend on the shape alone and are added in order, so results do not depend on the number of
// threads: sums along dimensions, and the reduction of several arrays to one.
#include <complex>
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/buffer.h"
#include "half/bfloat16.h"
#include "half/float16.h"
#include "kernels/reduce/strided_sum.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "kernels/reduce/complex_sum.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"
#include "kernels/reduce/prod_count.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 32768;  // elements per slice
constexpr int64_t kChain = 512;    // rows added into one accumulator at most
constexpr int64_t kShortRow = 512;    // elements of a row that is summed with one accumulator a lane
constexpr int64_t kUnlock = 8192;

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// out[o] = sum of x[o, :]
template <class T>
void sum_rows(const T* x, T* out, int64_t outer, int64_t m, int64_t pitch) {
  const auto kernel = kernels<T>().sum;
  if (m <= kPiece) {
    const int64_t grain = m ? (kPiece + m - 1) / m : outer;
    ranges(outer, grain, [&](int64_t start, int64_t stop) {
      const auto rows = kernels<T>().sum_rows;
      if (m <= kShortRow && pitch == m) return rows(x + start * m, out + start, stop - start, m);
      for (int64_t o = start; o < stop; ++o) {
        if (m <= kShortRow) rows(x + o * pitch, out + o, 1, m);
        else out[o] = static_cast<T>(kernel(x + o * pitch, m));
      }
    });
    return;
  }
  const int64_t pieces = (m + kPiece - 1) / kPiece;
  const Buffer<double> buffer(outer * pieces);
  double* partials = buffer.get();
  slices(outer * pieces, [&](int64_t i) {
    const int64_t start = i % pieces * kPiece;
    partials[i] = kernel(x + i / pieces * pitch + start, min(kPiece, m - start));
  });
  for (int64_t o = 0; o < outer; ++o) {
    double total = 0;
    for (int64_t i = 0; i < pieces; ++i) total += partials[o * pieces + i];
    out[o] = static_cast<T>(total);
  }
}

// out[o, c] = sum over k of x[o, k, c]
template <class T>
void sum_columns(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch) {
  const auto kernel = kernels<T>().sum_columns;
  const int64_t width = min(inner, 4096);
  int64_t rows_per_piece = kPiece / width;
  if (rows_per_piece < 8) rows_per_piece = 8;
  if (rows_per_piece > kChain) rows_per_piece = kChain;
  const int64_t pieces = m ? (m + rows_per_piece - 1) / rows_per_piece : 1, strips = (inner + width - 1) / width;
  const Buffer<T> buffer(pieces > 1 ? outer * pieces * inner : 0);
  T* partials = pieces > 1 ? buffer.get() : out;
  const int64_t rows = rows_per_piece < m ? rows_per_piece : m;
  const int64_t grain = rows * width > 0 ? (kPiece / 2 + rows * width - 1) / (rows * width) : 1;
  ranges(outer * pieces * strips, grain, [&](int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; ++i) {
      const int64_t c = i % strips * width, k = i / strips % pieces * rows_per_piece, o = i / strips / pieces;
      T* to = partials + (o * pieces + i / strips % pieces) * inner + c;
      const int64_t n = min(width, inner - c);
      memset(static_cast<void*>(to), 0, sizeof(T) * static_cast<size_t>(n));
      kernel(x + (o * m + k) * pitch + c, to, min(rows_per_piece, m - k), n, pitch);
    }
  });
  if (pieces == 1) return;
  sum_columns(partials, out, outer, pieces, inner, inner);
}

// NumPy's sum, for dtypes without a kernel.
PyObject* reduce_by_numpy(PyArrayObject* x, PyObject* axis, bool keepdim, int type) {
  static PyObject* reduce = nullptr;
  if (!reduce) {
    Ref numpy(PyImport_ImportModule("numpy"));
    Ref add(numpy ? PyObject_GetAttrString(numpy.get(), "add") : nullptr);
    reduce = add ? PyObject_GetAttrString(add.get(), "reduce") : nullptr;
    if (!reduce) return nullptr;
  }
  Ref descr(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type)));
  PyObject* args[5] = {reinterpret_cast<PyObject*>(x), axis, descr.get(), Py_None, keepdim ? Py_True : Py_False};
  Ref out(PyObject_Vectorcall(reduce, args, 5, nullptr));
  if (!out || PyArray_Check(out.get())) return out.release();
  return PyArray_FromAny(out.get(), nullptr, 0, 0, 0, nullptr);
}

// components: 2 for complex numbers, whose parts are columns side by side.
template <class T>
void sum_group(const T* x, T* out, int64_t outer, int64_t m, int64_t inner, int64_t pitch, int components) {
  if (outer * inner == 0) return;
  Unlocked unlocked(outer * m * inner > kUnlock);
  if (inner > 1) {
    sum_columns(x, out, outer, m, inner * components, pitch * components);
  } else if (components > 1) {
    sum_complex_rows(x, out, outer, m);
  } else {
    sum_rows(x, out, outer, m, pitch);
  }
}

// Merges adjacent dimensions that are all reduced or all kept, and reduces the last group first.
PyObject* sum_groups(Ref x, const bool* reduced, const ReducedShape& reduced_shape, StridedRows strided_rows, int type) {
  const int nd = PyArray_NDIM(x.array());
  npy_intp sizes[NPY_MAXDIMS + 1];
  bool is_reduced[NPY_MAXDIMS + 1];
  int groups = 0;
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(x.array(), i);
    if (size == 1) continue;
    if (groups && is_reduced[groups - 1] == reduced[i]) {
      sizes[groups - 1] *= size;
    } else {
      sizes[groups] = size;
      is_reduced[groups++] = reduced[i];
    }
  }
  int groups_left = 0;
  for (int i = 0; i < groups; ++i) groups_left += is_reduced[i];
  if (!groups_left) {  // nothing is reduced: a copy
    sizes[groups] = 1;
    is_reduced[groups++] = true;
    groups_left = 1;
  }
  for (; groups_left; --groups_left) {
    int group = groups - 1;
    while (!is_reduced[group]) --group;
    npy_intp outer = 1, inner = 1;
    for (int i = 0; i < group; ++i) outer *= sizes[i];
    for (int i = group + 1; i < groups; ++i) inner *= sizes[i];
    npy_intp flat = outer * inner;
    Ref out(groups_left == 1 ? new_array(reduced_shape.nd, reduced_shape.dims, type) : new_array(1, &flat, type));
    if (!out) return nullptr;
    const int components = PyTypeNum_ISCOMPLEX(type) ? 2 : 1;
    const bool matches = strided_rows.matches(sizes[group], inner);
    if (!matches) x = contiguous(x.array());
    if (!x) return nullptr;
    const int64_t pitch = matches ? strided_rows.pitch : inner == 1 ? sizes[group] : inner;
    strided_rows = StridedRows();  // the result has no gaps
    if (type == NPY_FLOAT || type == NPY_CFLOAT) {
      sum_group(data<float>(x), data<float>(out), outer, sizes[group], inner, pitch, components);
    } else {
      sum_group(data<double>(x), data<double>(out), outer, sizes[group], inner, pitch, components);
    }
    for (int i = group; i + 1 < groups; ++i) {
      sizes[i] = sizes[i + 1];
      is_reduced[i] = is_reduced[i + 1];
    }
    --groups;
    x = std::move(out);
  }
  const int64_t n = PyArray_SIZE(x.array()) * (PyTypeNum_ISCOMPLEX(type) ? 2 : 1);
  if (type == NPY_FLOAT || type == NPY_CFLOAT) {
    reduced_shape.multiply(data<float>(x), n);
  } else {
    reduced_shape.multiply(data<double>(x), n);
  }
  return reduced_shape.restore(std::move(x));
}

}  // namespace

// sum(x, dim=None, keepdim=False)
PyObject* sum(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sum", n, 1, 3)) return nullptr;
  PyArrayObject* x = array_argument("sum", "input", args[0]);
  if (!x) return nullptr;
  PyObject* dim = n > 1 ? args[1] : Py_None;
  const int keepdim = n > 2 ? PyObject_IsTrue(args[2]) : 0;
  if (keepdim < 0) return nullptr;
  const int type = PyArray_TYPE(x), nd = PyArray_NDIM(x);
  if (dim == Py_None && !keepdim && type == NPY_FLOAT && PyArray_ISCARRAY_RO(x) && PyArray_SIZE(x) <= 4096) {
    PyObject* out = new_array(0, nullptr, type);  // fast path for small arrays
    if (!out) return nullptr;
    *data<float>(as_array(out)) = static_cast<float>(kernels<float>().sum(data<float>(x), PyArray_SIZE(x)));
    return out;
  }
  bool reduced[NPY_MAXDIMS];
  if (!reduced_dims_argument("sum", dim, nd, reduced)) return nullptr;
  if (type <= NPY_ULONGLONG) return reduce_over(x, reduced, keepdim != 0, ReduceOp::Sum);
  if (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF && type != NPY_CFLOAT && type != NPY_CDOUBLE) {
    Ref axes(PyTuple_New(0));
    for (int i = 0; i < nd && axes; ++i) {
      if (!reduced[i]) continue;
      Ref item(Py_BuildValue("(i)", i));
      axes = Ref(item ? PySequence_Concat(axes.get(), item.get()) : nullptr);
    }
    return axes ? reduce_by_numpy(x, nd ? axes.get() : Py_None, keepdim, type) : nullptr;
  }
  const int wide = type == NPY_HALF ? NPY_FLOAT : type;
  Ref cast;
  if (type == NPY_HALF) {
    cast = contiguous_as(x, NPY_FLOAT);
    if (!cast) return nullptr;
    x = cast.array();
  }
  Ref strided(PyTypeNum_ISCOMPLEX(type) ? nullptr : strided_sum(x, reduced, keepdim != 0).release());
  if (strided || PyErr_Occurred()) return finish(std::move(strided), {wide, type});
  ReducedShape reduced_shape;
  StridedRows strided_rows;
  const bool may_be_strided = !PyTypeNum_ISCOMPLEX(type);
  Ref in = permute_by_strides(x, reduced, keepdim != 0, true, &reduced_shape, ExpandedDims::Once,
                              may_be_strided ? &strided_rows : nullptr);
  if (!in) return nullptr;
  return finish(Ref(sum_groups(std::move(in), reduced, reduced_shape, strided_rows, wide)), {wide, type});
}

// ---------------------------------------------------------------- several arrays into one

namespace {

enum class Op { Sum, Prod, Min, Max, Avg };

constexpr int64_t kChunk = 4096;  // elements whose partial result fits in the first-level cache

template <class T>
T smaller(T a, T b) {  // NaN wins
  return a < b || a != a ? a : b;
}
template <class T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
std::complex<T> smaller(std::complex<T> a, std::complex<T>) {
  return a;
}
template <class T>
std::complex<T> larger(std::complex<T> a, std::complex<T>) {
  return a;
}

// Accumulates in A (float for float16), rank 0 first.
template <class T, class A>
void reduce_chunk(T* out, const T* const* in, int64_t count, Op op, int64_t start, int64_t stop) {
  A acc[kChunk];
  for (int64_t group = start; group < stop; group += kChunk) {
    const int64_t n = min(kChunk, stop - group);
    const T* x = in[0] + group;
    for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(x[i]);
    for (int64_t r = 1; r < count; ++r) {
      x = in[r] + group;
      switch (op) {
        case Op::Sum:
        case Op::Avg:
          for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(acc[i] + static_cast<A>(x[i]));
          break;
        case Op::Prod:
          for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(acc[i] * static_cast<A>(x[i]));
          break;
        case Op::Min:
          for (int64_t i = 0; i < n; ++i) acc[i] = smaller(acc[i], static_cast<A>(x[i]));
          break;
        case Op::Max:
          for (int64_t i = 0; i < n; ++i) acc[i] = larger(acc[i], static_cast<A>(x[i]));
          break;
      }
    }
    if (op == Op::Avg) {
      for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(acc[i] / static_cast<A>(static_cast<double>(count)));
    }
    for (int64_t i = 0; i < n; ++i) out[group + i] = static_cast<T>(acc[i]);
  }
}

template <class T, class A = T>
void reduce_arrays(void* out, const void* const* in, int64_t count, int64_t n, Op op) {
  ranges(n, 4 * kChunk, [&](int64_t start, int64_t stop) {
    reduce_chunk<T, A>(static_cast<T*>(out), reinterpret_cast<const T* const*>(in), count, op, start, stop);
  });
}

bool reduce_arrays_by_type(int type, void* out, const void* const* in, int64_t count, int64_t n, Op op) {
  if (type == bfloat16_num) {
    reduce_arrays<Bfloat16, float>(out, in, count, n, op);
    return true;
  }
  switch (type) {
    case NPY_FLOAT: reduce_arrays<float>(out, in, count, n, op); return true;
    case NPY_DOUBLE: reduce_arrays<double>(out, in, count, n, op); return true;
    case NPY_LONGDOUBLE: reduce_arrays<long double>(out, in, count, n, op); return true;
    case NPY_CFLOAT: reduce_arrays<std::complex<float>>(out, in, count, n, op); return true;
    case NPY_CDOUBLE: reduce_arrays<std::complex<double>>(out, in, count, n, op); return true;
    case NPY_HALF: reduce_arrays<Float16, float>(out, in, count, n, op); return true;
    case NPY_BOOL: reduce_arrays<bool>(out, in, count, n, op); return true;
    case NPY_BYTE: reduce_arrays<signed char>(out, in, count, n, op); return true;
    case NPY_UBYTE: reduce_arrays<unsigned char>(out, in, count, n, op); return true;
    case NPY_SHORT: reduce_arrays<short>(out, in, count, n, op); return true;
    case NPY_USHORT: reduce_arrays<unsigned short>(out, in, count, n, op); return true;
    case NPY_INT: reduce_arrays<int>(out, in, count, n, op); return true;
    case NPY_UINT: reduce_arrays<unsigned>(out, in, count, n, op); return true;
    case NPY_LONG: reduce_arrays<long>(out, in, count, n, op); return true;
    case NPY_ULONG: reduce_arrays<unsigned long>(out, in, count, n, op); return true;
    case NPY_LONGLONG: reduce_arrays<long long>(out, in, count, n, op); return true;
    case NPY_ULONGLONG: reduce_arrays<unsigned long long>(out, in, count, n, op); return true;
    default: return false;
  }
}

bool reduce_op_argument(PyObject* p, int type, Op* out) {
  constexpr const char* names[] = {"sum", "prod", "min", "max", "avg"};
  const char* text = PyUnicode_Check(p) ? PyUnicode_AsUTF8(p) : "";
  if (!text) return false;
  for (int i = 0; i < 5; ++i) {
    if (strcmp(text, names[i])) continue;
    *out = static_cast<Op>(i);
    const bool complex = type == NPY_CFLOAT || type == NPY_CDOUBLE;
    if (*out == Op::Avg && type <= NPY_ULONGLONG)
      return raise("TypeError", "reduce_into: avg needs a floating dtype: type number %d", type);
    if (complex && (*out == Op::Min || *out == Op::Max))
      return raise("TypeError", "reduce_into: complex numbers have no order: %s", text);
    return true;
  }
  return raise("ValueError", "reduce_into: unknown op: '%s', expected sum, prod, min, max or avg", text);
}

}  // namespace

// reduce_into(out, arrays, op): out may be one of the arrays.
PyObject* reduce_into(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "reduce_into";
  if (!takes(where, n, 3)) return nullptr;
  PyArrayObject* out = array_argument(where, "out", args[0]);
  Ref list(out ? PySequence_Fast(args[1], "reduce_into: arrays is not a sequence") : nullptr);
  Op op;
  if (!list || !reduce_op_argument(args[2], PyArray_TYPE(out), &op)) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.get());
  if (count == 0) return raise("ValueError", "reduce_into: no arrays: 0");
  if (!PyArray_ISCARRAY(out))
    return raise("ValueError", "reduce_into: out is not contiguous and writeable: %s", shape_text(out).c_str());
  const Buffer<const void*> buffer(count);
  const void** in = buffer.get();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyArrayObject* a = array_argument(where, "an input", PySequence_Fast_GET_ITEM(list.get(), i));
    if (a && PyArray_TYPE(a) != PyArray_TYPE(out)) {
      raise("TypeError", "reduce_into: dtypes differ: array %zd is %s, out is %s", i, dtype_text(a).c_str(),
            dtype_text(out).c_str());
      a = nullptr;
    } else if (a && !PyArray_SAMESHAPE(a, out)) {
      raise("ValueError", "reduce_into: shapes differ: array %zd is %s, out is %s", i, shape_text(a).c_str(),
            shape_text(out).c_str());
      a = nullptr;
    } else if (a && !PyArray_ISCARRAY_RO(a)) {
      raise("ValueError", "reduce_into: array %zd is not contiguous: %s", i, shape_text(a).c_str());
      a = nullptr;
    }
    if (!a) return nullptr;
    in[i] = PyArray_DATA(a);
  }
  bool has_kernel;
  {
    const int64_t size = PyArray_SIZE(out);
    Unlocked unlocked(size * count > kUnlock);
    has_kernel = reduce_arrays_by_type(PyArray_TYPE(out), PyArray_DATA(out), in, count, size, op);
  }
  if (!has_kernel) return raise("TypeError", "reduce_into: dtype is not supported: %s", dtype_text(out).c_str());
  Py_RETURN_NONE;
}

}  // namespace shmtensor
