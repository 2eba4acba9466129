// Where each piece's elements go is counted first; then the pieces are written at once, without a
// branch on the elements: what is not wanted is overwritten by what comes next.
#include "kernels/index/advanced_getitem.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/shape/memcpy.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 16384;  // elements
constexpr int64_t kPiece = 32768;   // elements of a slice
constexpr int64_t kSlice = 65536;   // bytes of a slice
constexpr int64_t kLeast = 4096;    // elements of a result; NumPy's own way is as fast for fewer
constexpr int kMost = 4;            // index arrays

// Adds index * stride to the offsets; false: one is outside. Negative ones count from the end.
bool add_offsets(const int64_t* at, int64_t n, int64_t size, int64_t stride, int64_t* offsets) {
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t p = at[i] + (at[i] >> 63 & size);
    signs |= static_cast<uint64_t>(p) | (static_cast<uint64_t>(size - 1) - static_cast<uint64_t>(p));
    offsets[i] += static_cast<int64_t>(static_cast<uint64_t>(p) * static_cast<uint64_t>(stride));
  }
  return !(signs >> 63);
}

template <class T>
void pick(const char* from, const int64_t* offsets, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + offsets[i]);
}

Ref at_indices(PyArrayObject* x, PyObject* const* parts, int count) {
  Ref at[kMost];
  const int nd = PyArray_NDIM(x);
  for (int k = 0; k < count; ++k) {
    if (!PyArray_CheckExact(parts[k]) || PyArray_DIM(x, k) == 0 ||
        !PyArray_SAMESHAPE(as_array(parts[k]), as_array(parts[0])))
      return Ref();
  }
  PyArrayObject* lead = as_array(parts[0]);
  npy_intp dims[NPY_MAXDIMS];
  int to_nd = 0;
  int64_t width = PyArray_ITEMSIZE(x);
  for (int i = 0; i < PyArray_NDIM(lead); ++i) dims[to_nd++] = PyArray_DIM(lead, i);
  for (int i = count; i < nd; ++i) {
    if (to_nd >= NPY_MAXDIMS) return Ref();
    width *= dims[to_nd++] = PyArray_DIM(x, i);
  }
  const int64_t total = PyArray_SIZE(lead);
  if (width == 0 || total * width < kLeast * PyArray_ITEMSIZE(x)) return Ref();
  const bool elements = count == nd && PyArray_ITEMSIZE(x) <= 8;
  for (int k = 0; k < count; ++k) {
    at[k] = indices(parts[k]);
    if (!at[k]) {
      PyErr_Clear();
      return Ref();
    }
  }
  Ref from;
  if (elements) {
    Py_INCREF(x);
    from = Ref(x);
  } else {
    from = in_order(x);
  }
  Ref out(from ? fresh(to_nd, dims, PyArray_TYPE(x)) : nullptr);
  if (!out) return out;
  const char* source = data<char>(from);
  char* to = data<char>(out);
  std::atomic<bool> valid{true};
  Unlocked unlocked(true);
  const int64_t some = std::max<int64_t>(1, std::min(kChunk, kSlice / width));
  ranges(total, some, [&](int64_t start, int64_t stop) {
    int64_t offsets[kChunk] = {};
    const int64_t n = stop - start;
    for (int k = 0; k < count; ++k) {
      if (!add_offsets(data<int64_t>(at[k]) + start, n, PyArray_DIM(x, k),
                       PyArray_STRIDE(from.array(), k), offsets)) {
        valid = false;
        return;
      }
    }
    if (elements) {
      with_size(width, [&](auto zero) {
        pick(source, offsets, reinterpret_cast<decltype(zero)*>(to) + start, n);
      });
      return;
    }
    for (int64_t i = 0; i < n; ++i)
      copy_run(to + (start + i) * width, source + offsets[i], static_cast<size_t>(width));
  });
  return valid ? std::move(out) : Ref();
}

// Where the elements of each piece begin in the result, and how many there are in all.
template <class T>
int64_t count_pieces(const T* x, int64_t size, std::vector<int64_t>* starts) {
  const int64_t pieces = static_cast<int64_t>(starts->size());
  slices(pieces, [&](int64_t p) {
    const int64_t n = std::min(kPiece, size - p * kPiece);
    (*starts)[static_cast<size_t>(p)] =
        static_cast<int64_t>(tallies<T>().rows[2](x + p * kPiece, n));
  });
  int64_t total = 0;
  for (int64_t& start : *starts) {
    const int64_t here = start;
    start = total;
    total += here;
  }
  return total;
}

// The `found` elements where the mask holds.
template <class T>
void keep(const T* from, const uint8_t* mask, T* to, int64_t found) {
  for (int64_t i = 0, k = 0; k < found; ++i) {
    to[k] = from[i];
    k += mask[i] != 0;
  }
}

Ref at_mask(PyArrayObject* x, PyArrayObject* mask) {
  const int64_t size = PyArray_SIZE(x);
  if (size < kLeast || !PyArray_SAMESHAPE(x, mask) || PyArray_ITEMSIZE(x) > 8) return Ref();
  Ref from(in_order(x)), where(from ? in_order(mask) : Ref());
  if (!where) return where;
  std::vector<int64_t> starts(static_cast<size_t>((size + kPiece - 1) / kPiece));
  npy_intp total;
  {
    Unlocked unlocked(size > kUnlock);
    total = count_pieces(data<uint8_t>(where), size, &starts);
  }
  Ref out(fresh(1, &total, PyArray_TYPE(x)));
  if (!out) return out;
  Unlocked unlocked(size > kUnlock);
  with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
    using T = decltype(zero);
    slices(static_cast<int64_t>(starts.size()), [&](int64_t p) {
      const size_t next = static_cast<size_t>(p) + 1;
      const int64_t start = starts[next - 1], end = next < starts.size() ? starts[next] : total;
      keep(data<T>(from) + p * kPiece, data<uint8_t>(where) + p * kPiece, data<T>(out) + start,
           end - start);
    });
  });
  return out;
}

// The places in [start, stop) that are not 0; returns how many.
template <class T>
int64_t places_of(const T* x, int64_t start, int64_t stop, int64_t* to) {
  int64_t k = 0;
  for (int64_t i = start; i < stop; ++i) {
    to[k] = i;
    k += x[i] != T(0);
  }
  return k;
}

// Places in the flat array as rows of indices; the first ones change with the line alone.
void spread(const int64_t* places, int64_t n, int nd, const npy_intp* sizes, int64_t* rows) {
  const int64_t width = sizes[nd - 1];
  int64_t head[NPY_MAXDIMS] = {}, begin = 0, end = 0;
  for (int64_t i = 0; i < n; ++i, rows += nd) {
    if (places[i] >= end) {
      int64_t rest = places[i] / width;
      begin = rest * width;
      end = begin + width;
      for (int k = nd - 2; k >= 0; --k) {
        head[k] = rest % sizes[k];
        rest /= sizes[k];
      }
    }
    for (int k = 0; k + 1 < nd; ++k) rows[k] = head[k];
    rows[nd - 1] = places[i] - begin;
  }
}

}  // namespace

Ref picked(PyArrayObject* x, PyObject* index) {
  const bool several = PyTuple_CheckExact(index);
  PyObject* const* parts = several ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
  if (count == 0 || count > kMost || !PyArray_CheckExact(parts[0])) return Ref();
  PyArrayObject* first = as_array(parts[0]);
  if (!is_plain(x) || !is_movable(x)) return Ref();
  if (PyArray_TYPE(first) == NPY_BOOL) return count == 1 ? at_mask(x, first) : Ref();
  if (count > PyArray_NDIM(x)) return Ref();
  return at_indices(x, parts, static_cast<int>(count));
}

PyObject* take_rows(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("take_rows", n, 2, 2) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const bool several = PyTuple_CheckExact(args[1]);
  PyObject* const* parts = several ? PySequence_Fast_ITEMS(args[1]) : &args[1];
  const int count = several ? static_cast<int>(PyTuple_GET_SIZE(args[1])) : 1;
  if (count == 0 || count > kMost || count > PyArray_NDIM(x)) Py_RETURN_NONE;
  Ref at[kMost];
  for (int k = 0; k < count; ++k) {
    if (!PyArray_CheckExact(parts[k]) || !PyArray_SAMESHAPE(as_array(parts[k]), as_array(parts[0])))
      Py_RETURN_NONE;
    at[k] = indices(parts[k]);
    if (at[k]) continue;
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref out(fresh(PyArray_NDIM(at[0].array()), PyArray_DIMS(at[0].array()), NPY_INT64));
  if (!out) return nullptr;
  const int64_t total = PyArray_SIZE(out.array());
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(total > kUnlock);
    ranges(total, kPiece, [&](int64_t start, int64_t stop) {
      int64_t* rows = data<int64_t>(out) + start;
      memset(rows, 0, sizeof(int64_t) * static_cast<size_t>(stop - start));
      int64_t stride = 1;
      for (int k = count - 1; k >= 0; stride *= PyArray_DIM(x, k--)) {
        if (!add_offsets(data<int64_t>(at[k]) + start, stop - start, PyArray_DIM(x, k), stride, rows)) {
          valid = false;
          return;
        }
      }
    });
  }
  if (!valid) Py_RETURN_NONE;
  return out.release();
}

PyObject* nonzero(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("nonzero", n, 1, 1) < 0) return nullptr;
  PyArrayObject* x = PyArray_CheckExact(args[0]) ? as_array(args[0]) : nullptr;
  const int nd = x && is_plain(x) ? PyArray_NDIM(x) : 0;
  if (nd == 0) Py_RETURN_NONE;
  Ref in = in_order(x);
  if (!in) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Ref out;
  const bool known = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(in);
    std::vector<int64_t> starts(static_cast<size_t>((size + kPiece - 1) / kPiece));
    npy_intp dims[2] = {0, nd};
    {
      Unlocked unlocked(size > kUnlock);
      dims[0] = count_pieces(from, size, &starts);
    }
    out = Ref(fresh(2, dims, NPY_INT64));
    if (!out) return;
    int64_t* rows = data<int64_t>(out);
    Unlocked unlocked(size > kUnlock);
    slices(static_cast<int64_t>(starts.size()), [&](int64_t p) {
      int64_t places[kChunk], *to = rows + starts[static_cast<size_t>(p)] * nd;
      const int64_t stop = std::min(size, (p + 1) * kPiece);
      for (int64_t i = p * kPiece; i < stop; i += kChunk) {
        const int64_t found = places_of(from, i, std::min(stop, i + kChunk), places);
        spread(places, found, nd, PyArray_DIMS(x), to);
        to += found * nd;
      }
    });
  });
  if (!known) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
