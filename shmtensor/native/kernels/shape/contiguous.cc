// A strided array is copied in tiles of the last dimension and of the dimension with the smallest stride, so that
// source and result both use full cache lines.
#include "kernels/shape/contiguous.h"

#include <complex>
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "threading/thread_pool.h"
#include "kernels/shape/transpose_block.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 16384;  // bytes
constexpr int64_t kSlice = 65536;   // bytes a slice copies
constexpr int64_t kTile = 16, kRun = 256;  // sides of a tile: a cache line of the result, a run of the source

struct StridedSource {
  const char* data;
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
};

// The shape without dimensions of size 1, with adjacent dimensions merged where their strides allow it.
StridedSource strided_source(PyArrayObject* x) {
  StridedSource s{PyArray_BYTES(x), 0, {}, {}};
  for (int i = 0; i < PyArray_NDIM(x); ++i) {
    const npy_intp n = PyArray_DIM(x, i), stride = PyArray_STRIDE(x, i);
    if (n == 1) continue;
    if (s.nd && s.strides[s.nd - 1] == stride * n) {
      s.dims[s.nd - 1] *= n;
      s.strides[s.nd - 1] = stride;
    } else {
      s.dims[s.nd] = n;
      s.strides[s.nd++] = stride;
    }
  }
  if (s.nd == 0) {
    s.dims[0] = 1;
    s.strides[s.nd++] = 0;
  }
  return s;
}

npy_intp magnitude(npy_intp stride) { return stride < 0 ? -stride : stride; }

template <class T>
void interleave_pairs(const T* __restrict a, const T* __restrict b, T* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}

template <class T>
void reverse(T* to, const char* last, int64_t n) {
  if constexpr (sizeof(T) <= 8) {
    constexpr int which = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    memory_kernels().reverse[which](reinterpret_cast<char*>(to), last, n);
  } else {
    const T* line = reinterpret_cast<const T*>(last);
    for (int64_t k = 0; k < n; ++k) to[k] = line[-k];
  }
}

template <class T>
void repeat(const T value, T* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

// Rows of the last dimension, one after the other.
template <class T>
void copy_rows(const StridedSource& s, T* to) {
  const int last = s.nd - 1;
  const int64_t n = s.dims[last];
  const npy_intp step = s.strides[last];
  int64_t rows = 1;
  for (int i = 0; i < last; ++i) rows *= s.dims[i];
  const int64_t pieces = (n * static_cast<int64_t>(sizeof(T)) + kSlice - 1) / kSlice;
  const int64_t part = (n + pieces - 1) / pieces;
  const int64_t grain = pieces > 1 ? 1 : kSlice / (n * static_cast<int64_t>(sizeof(T)));
  ranges(rows * pieces, grain < 1 ? 1 : grain, [&](int64_t i, int64_t stop) {
    int64_t row = i / pieces, piece = i % pieces;
    npy_intp index[NPY_MAXDIMS];
    const char* line = s.data;
    for (int64_t d = last - 1, remaining = row; d >= 0; --d) {
      index[d] = remaining % s.dims[d];
      line += index[d] * s.strides[d];
      remaining /= s.dims[d];
    }
    for (; i < stop; ++i) {
      const int64_t start = piece * part, end = start + part < n ? start + part : n;
      const char* from = line + start * step;
      T* out = to + row * n + start;
      if (step == static_cast<npy_intp>(sizeof(T))) {
        copy_run(out, from, sizeof(T) * static_cast<size_t>(end - start));
      } else if (step == 0) {
        repeat(*reinterpret_cast<const T*>(from), out, end - start);
      } else if (step == -static_cast<npy_intp>(sizeof(T))) {
        reverse(out, from, end - start);
      } else if (step == 2 * static_cast<npy_intp>(sizeof(T))) {
        const T* elements = reinterpret_cast<const T*>(from);
        const int64_t m = end - start - 1;
        for (int64_t k = 0; k < m; ++k) out[k] = elements[2 * k];
        out[m] = elements[2 * m];  // separate: vectors would read past the last element
      } else {
        for (int64_t k = 0; k < end - start; ++k) out[k] = *reinterpret_cast<const T*>(from + k * step);
      }
      if (++piece < pieces) continue;
      piece = 0;
      ++row;
      for (int d = last - 1; d >= 0; --d) {  // the next row, without a division
        line += s.strides[d];
        if (++index[d] < s.dims[d]) break;
        index[d] = 0;
        line -= s.dims[d] * s.strides[d];
      }
    }
  });
}

// Tiles of dimension nearest_dim and the last dimension.
template <class T>
void copy_tiles(const StridedSource& s, T* to, int nearest_dim) {
  const int last = s.nd - 1;
  npy_intp out_strides[NPY_MAXDIMS];  // in elements
  npy_intp size = 1;
  for (int d = last; d >= 0; --d) {
    out_strides[d] = size;
    size *= s.dims[d];
  }
  const int64_t a = s.dims[nearest_dim], b = s.dims[last];
  const npy_intp sa = s.strides[nearest_dim], sb = s.strides[last], oa = out_strides[nearest_dim];
  int64_t outer_size = 1;
  for (int d = 0; d < last; ++d) outer_size *= d == nearest_dim ? 1 : s.dims[d];
  const int64_t ta = (a + kRun - 1) / kRun, tb = (b + kTile - 1) / kTile;
  const int64_t bytes = kRun * kTile * static_cast<int64_t>(sizeof(T));
  ranges(outer_size * ta * tb, 1 + kSlice / bytes, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t b0 = i % tb * kTile, a0 = i / tb % ta * kRun;
      int64_t remaining = i / tb / ta;
      const char* from = s.data + a0 * sa + b0 * sb;
      T* out = to + a0 * oa + b0;
      for (int d = last - 1; d >= 0; --d) {
        if (d == nearest_dim) continue;
        const int64_t dim_value = remaining % s.dims[d];
        remaining /= s.dims[d];
        from += dim_value * s.strides[d];
        out += dim_value * out_strides[d];
      }
      const int64_t na = a - a0 < kRun ? a - a0 : kRun, nb = b - b0 < kTile ? b - b0 : kTile;
      int64_t q = 0;
      if constexpr (sizeof(T) <= 8) {
        constexpr int64_t step = 16 / sizeof(T);
        if (sa == static_cast<npy_intp>(sizeof(T))) {
          const int64_t full = na / step * step, blocks = nb / step * step;
          // A cache line of each row of the source, which fills lines of the result. Lines that are further apart may share
          // a set of the cache: four of them are completed at a time.
          const bool is_source_far = sb > oa * static_cast<npy_intp>(sizeof(T));
          const int64_t most = is_source_far ? 4 * step : step, across = is_source_far ? step : blocks;
          for (int64_t p0 = 0; p0 < full; p0 += most) {
            const int64_t end = p0 + most < full ? p0 + most : full;
            for (int64_t k0 = 0; k0 < blocks; k0 += across)
              for (int64_t p = p0; p < end; p += step)
                for (int64_t k = k0; k < k0 + across; k += step)
                  transpose_block(from + k * sb + p * sa, sb, out + p * oa + k, oa);
          }
          for (; q < blocks; ++q, from += sb)
            for (int64_t p = full; p < na; ++p) out[p * oa + q] = *reinterpret_cast<const T*>(from + p * sa);
        }
      }
      // Loads run along the source's lines: the strided accesses are stores, which need not be waited for.
      for (; q < nb; ++q, from += sb) {
        T* column = out + q;
        if (sa == static_cast<npy_intp>(sizeof(T))) {
          const T* line = reinterpret_cast<const T*>(from);
          for (int64_t p = 0; p < na; ++p) column[p * oa] = line[p];
        } else {
          for (int64_t p = 0; p < na; ++p) column[p * oa] = *reinterpret_cast<const T*>(from + p * sa);
        }
      }
    }
  });
}

template <class T>
void copy_strided(const StridedSource& s, T* to) {
  const int last = s.nd - 1;
  int nearest_dim = last;
  for (int d = 0; d < last; ++d) {
    if (s.strides[d] && magnitude(s.strides[d]) < magnitude(s.strides[nearest_dim])) nearest_dim = d;
  }
  const bool is_small = s.dims[nearest_dim] < 4 || (s.dims[last] < 4 && s.dims[nearest_dim] < 16);
  if (nearest_dim == last || is_small) return copy_rows(s, to);
  copy_tiles(s, to, nearest_dim);
}

}  // namespace

bool copy_contiguous_into(PyArrayObject* x, void* to) {
  const int type = PyArray_TYPE(x);
  if (!is_plain(x) || !is_bytes(type)) return false;
  const int64_t nbytes = PyArray_NBYTES(x);
  if (nbytes == 0) return true;
  const StridedSource s = strided_source(x);
  Unlocked unlocked(nbytes > kUnlock);
  if (PyArray_ITEMSIZE(x) == 16) {
    copy_rows(s, static_cast<std::complex<double>*>(to));
    return true;
  }
  return with_size(PyArray_ITEMSIZE(x), [&](auto zero) { copy_strided(s, static_cast<decltype(zero)*>(to)); });
}

Ref contiguous_copy(PyArrayObject* x) {
  if (PyArray_ITEMSIZE(x) <= 16 && is_plain(x)) {
    Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
    if (!out || copy_contiguous_into(x, PyArray_DATA(out.array()))) return out;
  }
  return Ref(PyArray_FromArray(x, PyArray_DescrFromType(PyArray_TYPE(x)), NPY_ARRAY_CARRAY_RO));
}

void interleave(PyObject* const* items, int64_t count, int64_t outer, int64_t width, char* to) {
  const auto copy_all = [&](auto&& copy_one) {
    const int64_t grain = kSlice / (width * count);
    ranges(outer, grain < 1 ? 1 : grain, [&](int64_t start, int64_t stop) {
      for (int64_t i = 0; i < count; ++i) {
        const char* from = PyArray_BYTES(as_array(items[i]));
        for (int64_t o = start; o < stop; ++o) copy_one(to + (o * count + i) * width, from + o * width);
      }
    });
  };
  if (count == 2 && with_size(width, [&](auto zero) {
        using T = decltype(zero);
        const T *a = data<T>(as_array(items[0])), *b = data<T>(as_array(items[1]));
        T* pairs = reinterpret_cast<T*>(to);
        ranges(outer, kSlice / (2 * width), [&](int64_t start, int64_t stop) {
          interleave_pairs(a + start, b + start, pairs + 2 * start, stop - start);
        });
      }))
    return;
  if (width == 4) {  // a fixed size compiles to a single move
    copy_all([](char* t, const char* f) { memcpy(t, f, 4); });
  } else if (width == 8) {
    copy_all([](char* t, const char* f) { memcpy(t, f, 8); });
  } else {
    copy_all([&](char* t, const char* f) { copy_run(t, f, static_cast<size_t>(width)); });
  }
}

// contiguous(x): a copy in C order
PyObject* contiguous(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("contiguous", n, 1)) return nullptr;
  PyArrayObject* x = array_argument("contiguous", "input", args[0]);
  if (!x) return nullptr;
  const int type = PyArray_TYPE(x);
  if (!is_plain(x) || !is_bytes(type)) {
    return PyArray_NewCopy(x, NPY_CORDER);
  }
  Ref out(new_array(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  return copy_contiguous_into(x, PyArray_DATA(out.array())) ? out.release() : PyArray_NewCopy(x, NPY_CORDER);
}

// stack(arrays, dim): None unless all arrays are contiguous, of one shape and one dtype that is copied as bytes
PyObject* stack(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("stack", n, 2)) return nullptr;
  if (!PyList_Check(args[0]) && !PyTuple_Check(args[0])) Py_RETURN_NONE;
  Ref list_owner(PySequence_Tuple(args[0]));  // keeps the arrays alive while the GIL is released
  if (!list_owner) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(list_owner.get());
  PyObject** items = PySequence_Fast_ITEMS(list_owner.get());
  if (count == 0 || !PyArray_CheckExact(items[0])) Py_RETURN_NONE;
  PyArrayObject* first = as_array(items[0]);
  const int nd = PyArray_NDIM(first), type = PyArray_TYPE(first);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!PyArray_CheckExact(items[i])) Py_RETURN_NONE;
    PyArrayObject* a = as_array(items[i]);
    if (PyArray_TYPE(a) != type || !PyArray_SAMESHAPE(a, first) || !PyArray_ISCARRAY_RO(a)) Py_RETURN_NONE;
  }
  const long dim_value = PyLong_CheckExact(args[1]) ? PyLong_AsLong(args[1]) : -nd - 2;
  PyErr_Clear();
  if (dim_value < -nd - 1 || dim_value > nd || !is_bytes(type)) Py_RETURN_NONE;
  const int dim = static_cast<int>(dim_value < 0 ? dim_value + nd + 1 : dim_value);
  npy_intp dims[NPY_MAXDIMS];
  int64_t outer = 1, width = PyArray_ITEMSIZE(first);
  for (int i = 0; i < nd; ++i) {
    dims[i < dim ? i : i + 1] = PyArray_DIM(first, i);
    (i < dim ? outer : width) *= PyArray_DIM(first, i);
  }
  dims[dim] = count;
  Ref out(new_array(nd + 1, dims, type));
  if (!out) return nullptr;
  if (outer * width == 0) return out.release();
  char* to = data<char>(out);
  const int64_t total = outer * width * count;
  Unlocked unlocked(total > kUnlock);
  if (outer > 1) {
    interleave(items, count, outer, width, to);
  } else if (total <= kSlice) {  // too small for the thread pool
    for (Py_ssize_t i = 0; i < count; ++i)
      copy_run(to + i * width, PyArray_BYTES(as_array(items[i])), static_cast<size_t>(width));
  } else {  // long runs are divided, too
    const int64_t pieces = (width + kSlice - 1) / kSlice;
    slices(pieces * count, [&](int64_t i) {
      const int64_t start = i % pieces * kSlice, remaining = width - start;
      copy_run(to + i / pieces * width + start, PyArray_BYTES(as_array(items[i / pieces])) + start,
               static_cast<size_t>(remaining < kSlice ? remaining : kSlice));
    });
  }
  return out.release();
}

}  // namespace shmtensor
