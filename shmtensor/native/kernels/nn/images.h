// Images as kernels of pooling and resampling read them: planes of up to three sizes, each element `inner` numbers long.
#pragma once

#include "kernels/arguments.h"
#include "kernels/shape/contiguous.h"
#include "kernels/shape/memory_format.h"
#include "threading/thread_pool.h"

namespace shmtensor {

constexpr int64_t kUnlock = 8192;
constexpr int64_t kPiece = 16384;  // results of a slice

// (N, C, *size) as (N, *size, C), or back.
inline Ref move_channels(PyArrayObject* x, bool to_last) {
  const int nd = PyArray_NDIM(x);
  npy_intp order[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) order[i] = i < 1 ? i : to_last ? i % (nd - 1) + 1 : i == 1 ? nd - 1 : i - 1;
  PyArray_Dims axes = {order, nd};
  return Ref(PyArray_Transpose(x, &axes));
}

// Is it an image or a volume whose channels are last in memory?
inline bool has_channels_last(PyArrayObject* x) {
  return PyArray_NDIM(x) > 3 && PyArray_DIM(x, 1) > 1 && !suggests_contiguous(x) && suggests_channels_last(x);
}

// An array (..., *size), contiguous: planes are its leading sizes, inner is 1. Channels last: planes are the batch, inner
// are the channels.
struct Images {
  Ref array;
  int nd = 0, spatial = 0, type = 0;
  bool channels_last = false;
  int64_t planes = 1, inner = 1, size[3] = {1, 1, 1};

  Images() = default;
  Images(PyArrayObject* x, int spatial_ndim, bool may_be_last = true)
      : nd(PyArray_NDIM(x)), spatial(spatial_ndim), type(PyArray_TYPE(x)) {
    const int lead = nd - spatial;
    channels_last = may_be_last && lead == 2 && spatial > 1 && has_channels_last(x);
    for (int i = 0; i < lead; ++i) (channels_last && i == 1 ? inner : planes) *= PyArray_DIM(x, i);
    for (int i = 0; i < spatial; ++i) size[3 - spatial + i] = PyArray_DIM(x, lead + i);
    for (int i = 0; i < lead; ++i) lead_[i] = PyArray_DIM(x, i);
    Ref view(channels_last ? move_channels(x, true) : Ref(Py_NewRef(x)));
    if (view) array = contiguous(view.array());
  }
  explicit operator bool() const { return static_cast<bool>(array); }
  template <class T>
  const T* as() const {
    return data<T>(array);
  }
  int64_t elements() const { return size[0] * size[1] * size[2] * inner; }  // of a plane

  // A new array of other sizes in the same memory format: its memory, in order.
  Ref new_memory(const int64_t* spatial_sizes, int dtype) const {
    npy_intp dims[NPY_MAXDIMS];
    int n = 0;
    for (int i = 0; i < nd - spatial; ++i)
      if (!(channels_last && i == 1)) dims[n++] = lead_[i];
    for (int i = 0; i < spatial; ++i) dims[n++] = spatial_sizes[3 - spatial + i];
    if (channels_last) dims[n++] = lead_[1];
    return Ref(new_array(nd, dims, dtype));
  }
  // The array whose memory new_memory returned.
  Ref from_memory(Ref memory) const {
    return memory && channels_last ? move_channels(memory.array(), false) : std::move(memory);
  }

 private:
  npy_intp lead_[NPY_MAXDIMS];
};

// body(plane, first row, end) for pieces of all rows of all planes; `work` is that of a row. A piece is whole planes or
// a part of one.
template <class F>
void for_rows(int64_t planes, int64_t rows, int64_t work, F body) {
  Unlocked unlocked(planes * rows * work > kUnlock);
  const int64_t piece = 1 + kPiece / (work + 1);
  if (piece < rows) {
    const int64_t pieces = (rows + piece - 1) / piece;
    slices(planes * pieces, [&](int64_t i) {
      const int64_t first = i % pieces * piece;
      body(i / pieces, first, first + piece < rows ? first + piece : rows);
    });
  } else {
    ranges(planes, piece / rows, [&](int64_t plane, int64_t stop) {
      for (; plane < stop; ++plane) body(plane, 0, rows);
    });
  }
}

}  // namespace shmtensor
