// For masks and nonzero, a first pass counts the elements of each piece, so that all pieces can be written in parallel.
// Writing takes no branch on the elements: an element that does not belong to the result is overwritten by the next.
//
// Another process may change the mask between the two passes. The counts bound what the second pass writes, and the ends
// of the piece what it reads; missing elements become 0. Note [Memory that others change] in indices.h.
#include "kernels/index/advanced_indexing.h"

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
constexpr int kMaxIndices = 4;            // index arrays

// The index at p, of a dimension of that size; negative ones count from the end. Out of range: it stays so.
int64_t wrapped_index(const int64_t* p, int64_t size) {
  const int64_t index = load_once(p);
  return index + (index >> 63 & size);
}

// Are all indices from -size to size - 1?
bool all_wrap_in_range(const int64_t* indices, int64_t n, int64_t size) {
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = static_cast<uint64_t>(indices[i]), wide = static_cast<uint64_t>(size);
    signs |= (index + wide) | (wide - 1 - index);
  }
  return !(signs >> 63);
}

// Writes index * stride to the offsets, or adds it; false if an index is out of range.
template <bool kAdds>
bool write_offsets(const int64_t* indices, int64_t n, int64_t size, int64_t stride, int64_t* offsets) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = wrapped_index(indices + i, size);
    if (!in_range(index, size)) return false;
    offsets[i] = (kAdds ? offsets[i] : 0) + index * stride;
  }
  return true;
}

// The offsets of one dimension's indices; k is the number of dimensions that have been added before it.
bool add_offsets(int k, const int64_t* indices, int64_t n, int64_t size, int64_t stride, int64_t* offsets) {
  return k == 0 ? write_offsets<false>(indices, n, size, stride, offsets)
                : write_offsets<true>(indices, n, size, stride, offsets);
}

// Elements of a vector; false if an index is out of range.
template <class T>
bool gather_elements(const char* from, int64_t size, int64_t stride, const int64_t* indices, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = wrapped_index(indices + i, size);
    if (!in_range(index, size)) return false;
    to[i] = *reinterpret_cast<const T*>(from + index * stride);
  }
  return true;
}

template <class T>
bool scatter_elements(T* to, int64_t size, const int64_t* indices, const T* from, int64_t step, int64_t n) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = wrapped_index(indices + i, size);
    if (!in_range(index, size)) return false;
    to[index] = from[i * step];
  }
  return true;
}

template <class T>
void gather_by_offset(const char* from, const int64_t* offsets, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + offsets[i]);
}

Ref getitem_indices(PyArrayObject* x, PyObject* const* index_arrays, int count) {
  Ref indices[kMaxIndices];
  const int nd = PyArray_NDIM(x);
  for (int k = 0; k < count; ++k) {
    if (!PyArray_CheckExact(index_arrays[k]) || PyArray_DIM(x, k) == 0 ||
        !PyArray_SAMESHAPE(as_array(index_arrays[k]), as_array(index_arrays[0])))
      return Ref();
  }
  PyArrayObject* first = as_array(index_arrays[0]);
  npy_intp dims[NPY_MAXDIMS];
  int to_nd = 0;
  int64_t width = PyArray_ITEMSIZE(x);
  for (int i = 0; i < PyArray_NDIM(first); ++i) dims[to_nd++] = PyArray_DIM(first, i);
  for (int i = count; i < nd; ++i) {
    if (to_nd >= NPY_MAXDIMS) return Ref();
    width *= dims[to_nd++] = PyArray_DIM(x, i);
  }
  const int64_t total = PyArray_SIZE(first);
  if (width == 0 || total == 0) return Ref();
  const bool by_element = count == nd && PyArray_ITEMSIZE(x) <= 8;
  for (int k = 0; k < count; ++k) {
    indices[k] = int64_indices(index_arrays[k]);
    if (!indices[k]) {
      PyErr_Clear();
      return Ref();
    }
  }
  Ref from;
  if (by_element) {
    Py_INCREF(x);
    from = Ref(x);
  } else {
    from = contiguous(x);
  }
  Ref out(from ? new_array(to_nd, dims, PyArray_TYPE(x)) : nullptr);
  if (!out) return out;
  const char* bytes = data<char>(from);
  char* to = data<char>(out);
  std::atomic<bool> valid{true};
  Unlocked unlocked(total * width > kUnlock);
  const int64_t grain = std::max<int64_t>(1, std::min(kChunk, kSlice / width));
  ranges(total, grain, [&](int64_t start, int64_t stop) {
    int64_t offsets[kChunk];
    const int64_t n = stop - start;
    if (by_element && count == 1) {
      with_size(width, [&](auto zero) {
        if (!gather_elements(bytes, PyArray_DIM(x, 0), PyArray_STRIDE(x, 0), data<int64_t>(indices[0]) + start,
                             reinterpret_cast<decltype(zero)*>(to) + start, n))
          valid = false;
      });
      return;
    }
    for (int k = 0; k < count; ++k) {
      if (!add_offsets(k, data<int64_t>(indices[k]) + start, n, PyArray_DIM(x, k), PyArray_STRIDE(from.array(), k),
                       offsets)) {
        valid = false;
        return;
      }
    }
    if (by_element) {
      with_size(width,
                [&](auto zero) { gather_by_offset(bytes, offsets, reinterpret_cast<decltype(zero)*>(to) + start, n); });
      return;
    }
    for (int64_t i = 0; i < n; ++i) copy_run(to + (start + i) * width, bytes + offsets[i], static_cast<size_t>(width));
  });
  return valid ? std::move(out) : Ref();
}

// Writes where the nonzero elements of each piece begin in the result; returns the number of all.
template <class T>
int64_t count_nonzero_pieces(const T* x, int64_t size, std::vector<int64_t>* starts) {
  const int64_t pieces = static_cast<int64_t>(starts->size());
  slices(pieces, [&](int64_t p) {
    const int64_t n = std::min(kPiece, size - p * kPiece);
    (*starts)[static_cast<size_t>(p)] = static_cast<int64_t>(reduce_kernels<T>().rows[2](x + p * kPiece, n));
  });
  int64_t total = 0;
  for (int64_t& start : *starts) {
    const int64_t count = start;
    start = total;
    total += count;
  }
  return total;
}

// Writes the first `count` of n elements at which the mask is true.
template <class T>
void compress(const T* x, const uint8_t* mask, int64_t n, T* out, int64_t count) {
  int64_t written = 0;
  for (int64_t i = 0; written < count && i < n; ++i) {
    out[written] = x[i];
    written += mask[i] != 0;
  }
  for (; written < count; ++written) out[written] = T(0);
}

Ref getitem_mask(PyArrayObject* x, PyArrayObject* mask) {
  const int64_t size = PyArray_SIZE(x);
  if (size == 0 || !PyArray_SAMESHAPE(x, mask) || PyArray_ITEMSIZE(x) > 8) return Ref();
  Ref from(contiguous(x)), mask_data(from ? contiguous(mask) : Ref());
  if (!mask_data) return mask_data;
  std::vector<int64_t> starts(static_cast<size_t>((size + kPiece - 1) / kPiece));
  npy_intp total;
  {
    Unlocked unlocked(size > kUnlock);
    total = count_nonzero_pieces(data<uint8_t>(mask_data), size, &starts);
  }
  Ref out(new_array(1, &total, PyArray_TYPE(x)));
  if (!out) return out;
  Unlocked unlocked(size > kUnlock);
  with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
    using T = decltype(zero);
    slices(static_cast<int64_t>(starts.size()), [&](int64_t p) {
      const size_t next = static_cast<size_t>(p) + 1;
      const int64_t start = starts[next - 1], end = next < starts.size() ? starts[next] : total;
      compress(data<T>(from) + p * kPiece, data<uint8_t>(mask_data) + p * kPiece, std::min(kPiece, size - p * kPiece),
               data<T>(out) + start, end - start);
    });
  });
  return out;
}

// Writes the indices of the nonzero elements in [start, stop); returns their number.
template <class T>
int64_t nonzero_indices(const T* x, int64_t start, int64_t stop, int64_t* out) {
  int64_t k = 0;
  for (int64_t i = start; i < stop; ++i) {
    out[k] = i;
    k += x[i] != T(0);
  }
  return k;
}

// Flat indices as rows of indices. The leading indices change only from one line of the last dimension to the next.
void unravel_indices(const int64_t* flat_indices, int64_t n, int nd, const npy_intp* sizes, int64_t* rows) {
  const int64_t width = sizes[nd - 1];
  int64_t leading[NPY_MAXDIMS] = {}, begin = 0, end = 0;
  for (int64_t i = 0; i < n; ++i, rows += nd) {
    if (flat_indices[i] >= end) {
      int64_t row = flat_indices[i] / width;
      begin = row * width;
      end = begin + width;
      for (int k = nd - 2; k >= 0; --k) {
        leading[k] = row % sizes[k];
        row /= sizes[k];
      }
    }
    for (int k = 0; k + 1 < nd; ++k) rows[k] = leading[k];
    rows[nd - 1] = flat_indices[i] - begin;
  }
}

// The offsets of n index tuples from `start` on; false if one is out of range.
bool all_offsets(PyArrayObject* x, const Ref* indices, int count, int64_t start, int64_t n, int64_t* offsets) {
  for (int k = 0; k < count; ++k) {
    if (!add_offsets(k, data<int64_t>(indices[k]) + start, n, PyArray_DIM(x, k), PyArray_STRIDE(x, k), offsets))
      return false;
  }
  return true;
}

template <class T>
void scatter_by_offset(char* to, const int64_t* offsets, const T* from, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + offsets[i]) = from[i * step];
}

// Other elements are not written: another process or thread may write them meanwhile.
template <class T>
void assign_masked(T* x, const uint8_t* mask, T value, int64_t n) {
  constexpr int64_t kStep = sizeof(uint64_t);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    uint64_t word;
    memcpy(&word, mask + i, sizeof word);
    if (!word) continue;
    for (int64_t k = i; k < i + kStep; ++k) {
      if (mask[k]) x[k] = value;
    }
  }
  for (; i < n; ++i) {
    if (mask[i]) x[i] = value;
  }
}

bool setitem_indices(PyArrayObject* x, PyObject* const* index_arrays, int count, PyArrayObject* values) {
  Ref indices[kMaxIndices];
  const int nd = PyArray_NDIM(x), index_nd = PyArray_NDIM(as_array(index_arrays[0]));
  for (int k = 0; k < count; ++k) {
    if (!PyArray_CheckExact(index_arrays[k]) || overlap(x, as_array(index_arrays[k])) ||
        !PyArray_SAMESHAPE(as_array(index_arrays[k]), as_array(index_arrays[0])))
      return false;
    indices[k] = int64_indices(index_arrays[k]);
    if (!indices[k]) {
      PyErr_Clear();
      return false;
    }
  }
  const int64_t total = PyArray_SIZE(indices[0].array());
  int64_t width = PyArray_ITEMSIZE(x);
  for (int i = count; i < nd; ++i) width *= PyArray_DIM(x, i);
  const bool is_number = PyArray_NDIM(values) == 0, by_element = width <= 8 && count == nd;
  if (width == 0 || total == 0 || (is_number && !by_element)) return false;
  if (!is_number && (PyArray_NDIM(values) != index_nd + nd - count ||
                     !PyArray_CompareLists(PyArray_DIMS(values), PyArray_DIMS(indices[0].array()), index_nd) ||
                     !PyArray_CompareLists(PyArray_DIMS(values) + index_nd, PyArray_DIMS(x) + count, nd - count)))
    return false;
  const char* from = data<char>(values);
  char* to = data<char>(x);
  int64_t offsets[kChunk];
  Unlocked unlocked(total * width > kUnlock);
  // All are checked before the first is written. The offsets of a single chunk are.
  for (int k = 0; k < count && (total > kChunk || (by_element && count == 1)); ++k) {
    if (!all_wrap_in_range(data<int64_t>(indices[k]), total, PyArray_DIM(x, k))) return false;
  }
  if (by_element && count == 1) {
    bool valid = true;
    with_size(width, [&](auto zero) {
      using T = decltype(zero);
      valid = scatter_elements(data<T>(x), PyArray_DIM(x, 0), data<int64_t>(indices[0]), reinterpret_cast<const T*>(from),
                               is_number ? 0 : 1, total);
    });
    return valid;
  }
  for (int64_t start = 0, n; start < total; start += n) {
    n = std::min(kChunk, total - start);
    if (!all_offsets(x, indices, count, start, n, offsets)) return false;
    if (by_element) {
      with_size(width, [&](auto zero) {
        using T = decltype(zero);
        scatter_by_offset(to, offsets, reinterpret_cast<const T*>(from) + (is_number ? 0 : start), is_number ? 0 : 1, n);
      });
      continue;
    }
    for (int64_t i = 0; i < n; ++i) copy_run(to + offsets[i], from + (start + i) * width, static_cast<size_t>(width));
  }
  return true;
}

bool setitem_mask(PyArrayObject* x, PyArrayObject* mask, PyArrayObject* value) {
  const int64_t size = PyArray_SIZE(x);
  if (PyArray_NDIM(value) != 0 || !PyArray_SAMESHAPE(x, mask) || !PyArray_ISCARRAY_RO(mask) || overlap(x, mask))
    return false;
  return with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
    using T = decltype(zero);
    const T number = *data<T>(value);
    Unlocked unlocked(size > kUnlock);
    ranges(size, kPiece,
           [&](int64_t i, int64_t stop) { assign_masked(data<T>(x) + i, data<uint8_t>(mask) + i, number, stop - i); });
  });
}

void copy_bools(const uint8_t* from, uint8_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] != 0;
}

// The copy of one index array that private_index makes, or the part of an index itself.
PyObject* private_part(PyObject* part) {
  PyArrayObject* array = as_array(part);
  if (!PyArray_CheckExact(part) || !(PyArray_ISINTEGER(array) || PyArray_ISBOOL(array))) return Py_NewRef(part);
  if (PyArray_TYPE(array) != NPY_BOOL) return PyArray_NewCopy(array, NPY_KEEPORDER);
  Ref from(contiguous(array));
  Ref out(from ? new_array(PyArray_NDIM(array), PyArray_DIMS(array), NPY_BOOL) : nullptr);
  if (out) copy_bools(data<uint8_t>(from), data<uint8_t>(out), PyArray_SIZE(array));
  return out.release();
}

}  // namespace

Ref private_index(PyObject* index) {
  if (!PyTuple_CheckExact(index)) return Ref(private_part(index));
  const Py_ssize_t count = PyTuple_GET_SIZE(index);
  Ref out(PyTuple_New(count));
  for (Py_ssize_t i = 0; out && i < count; ++i) {
    PyObject* part = private_part(PyTuple_GET_ITEM(index, i));
    if (!part) return Ref();
    PyTuple_SET_ITEM(out.get(), i, part);
  }
  return out;
}

PyObject* private_index(PyObject*, PyObject* index) { return private_index(index).release(); }

Ref advanced_getitem(PyArrayObject* x, PyObject* index) {
  const bool is_tuple = PyTuple_CheckExact(index);
  PyObject* const* index_arrays = is_tuple ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(index) : 1;
  if (count == 0 || count > kMaxIndices || !PyArray_CheckExact(index_arrays[0])) return Ref();
  PyArrayObject* index_array = as_array(index_arrays[0]);
  if (!is_plain(x) || !is_movable(x)) return Ref();
  if (PyArray_TYPE(index_array) == NPY_BOOL) return count == 1 ? getitem_mask(x, index_array) : Ref();
  if (count > PyArray_NDIM(x)) return Ref();
  return getitem_indices(x, index_arrays, static_cast<int>(count));
}

bool advanced_setitem(PyArrayObject* x, PyObject* index, PyArrayObject* values) {
  const bool is_tuple = PyTuple_CheckExact(index);
  PyObject* const* index_arrays = is_tuple ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(index) : 1;
  if (count == 0 || count > kMaxIndices || !PyArray_CheckExact(index_arrays[0])) return false;
  if (!PyArray_ISCARRAY(x) || !is_movable(x) || PyArray_TYPE(x) != PyArray_TYPE(values) || !PyArray_ISCARRAY_RO(values) ||
      overlap(x, values))
    return false;
  PyArrayObject* index_array = as_array(index_arrays[0]);
  if (PyArray_TYPE(index_array) == NPY_BOOL) return count == 1 && setitem_mask(x, index_array, values);
  return count <= PyArray_NDIM(x) && setitem_indices(x, index_arrays, static_cast<int>(count), values);
}

PyObject* take_rows(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("take_rows", n, 2)) return nullptr;
  if (!PyArray_CheckExact(args[0])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const bool is_tuple = PyTuple_CheckExact(args[1]);
  PyObject* const* index_arrays = is_tuple ? PySequence_Fast_ITEMS(args[1]) : &args[1];
  const int count = is_tuple ? static_cast<int>(PyTuple_GET_SIZE(args[1])) : 1;
  if (count == 0 || count > kMaxIndices || count > PyArray_NDIM(x)) Py_RETURN_NONE;
  Ref indices[kMaxIndices];
  for (int k = 0; k < count; ++k) {
    if (!PyArray_CheckExact(index_arrays[k]) || !PyArray_SAMESHAPE(as_array(index_arrays[k]), as_array(index_arrays[0])))
      Py_RETURN_NONE;
    indices[k] = int64_indices(index_arrays[k]);
    if (indices[k]) continue;
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref out(new_array(PyArray_NDIM(indices[0].array()), PyArray_DIMS(indices[0].array()), NPY_INT64));
  if (!out) return nullptr;
  const int64_t total = PyArray_SIZE(out.array());
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(total > kUnlock);
    ranges(total, kPiece, [&](int64_t start, int64_t stop) {
      int64_t* rows = data<int64_t>(out) + start;
      int64_t stride = 1;
      for (int k = count - 1; k >= 0; stride *= PyArray_DIM(x, k--)) {
        if (!add_offsets(count - 1 - k, data<int64_t>(indices[k]) + start, stop - start, PyArray_DIM(x, k), stride, rows)) {
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
  if (!takes("nonzero", n, 1)) return nullptr;
  PyArrayObject* x = PyArray_CheckExact(args[0]) ? as_array(args[0]) : nullptr;
  const int nd = x && is_plain(x) ? PyArray_NDIM(x) : 0;
  if (nd == 0) Py_RETURN_NONE;
  Ref input = contiguous(x);
  if (!input) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Ref out;
  const bool has_kernel = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(input);
    std::vector<int64_t> starts(static_cast<size_t>((size + kPiece - 1) / kPiece));
    npy_intp dims[2] = {0, nd};
    {
      Unlocked unlocked(size > kUnlock);
      dims[0] = count_nonzero_pieces(from, size, &starts);
    }
    out = Ref(new_array(2, dims, NPY_INT64));
    if (!out) return;
    int64_t* rows = data<int64_t>(out);
    Unlocked unlocked(size > kUnlock);
    slices(static_cast<int64_t>(starts.size()), [&](int64_t p) {
      const size_t next = static_cast<size_t>(p) + 1;
      int64_t flat_indices[kChunk], *out_rows = rows + starts[next - 1] * nd;
      int64_t remaining = (next < starts.size() ? starts[next] : dims[0]) - starts[next - 1];
      const int64_t stop = std::min(size, (p + 1) * kPiece);
      for (int64_t i = p * kPiece; i < stop; i += kChunk) {
        const int64_t found = nonzero_indices(from, i, std::min(stop, i + kChunk), flat_indices);
        const int64_t count = std::min(found, remaining);
        unravel_indices(flat_indices, count, nd, PyArray_DIMS(x), out_rows);
        out_rows += count * nd;
        remaining -= count;
      }
      memset(out_rows, 0, sizeof(int64_t) * static_cast<size_t>(remaining * nd));
    });
  });
  if (!has_kernel) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
