#include "kernels/reduce/reduced_layout.h"

#include "kernels/shape/contiguous.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kShortRow = 24;    // elements
constexpr int64_t kManyRows = 1024;
constexpr int64_t kLongRow = 64;  // elements: shorter strided rows are copied

bool mark_dim(const char* where, PyObject* dim, int nd, bool* is_reduced) {
  const int d = dim_argument(where, dim, nd);
  if (d < 0) return false;
  if (is_reduced[d]) return raise("RuntimeError", "%s: dim appears twice: %d", where, d);
  is_reduced[d] = true;
  return true;
}

npy_intp magnitude(npy_intp stride) { return stride < 0 ? -stride : stride; }

// The axes, largest stride first; an axis of size 1 stays behind the axis before it. False if their order is unchanged.
bool strides_order(PyArrayObject* x, int* axes) {
  const int nd = PyArray_NDIM(x);
  if (PyArray_IS_C_CONTIGUOUS(x)) return false;
  npy_intp keys[NPY_MAXDIMS];
  bool is_changed = false;
  for (int i = 0; i < nd; ++i) {
    npy_intp key = magnitude(PyArray_STRIDE(x, i));
    if (PyArray_DIM(x, i) == 1) key = i ? keys[i - 1] : NPY_MAX_INTP;
    keys[i] = key;
  }
  for (int i = 0; i < nd; ++i) {
    int at = i;
    for (; at > 0 && keys[axes[at - 1]] < keys[i]; --at) {
      axes[at] = axes[at - 1];
      is_changed = true;
    }
    axes[at] = i;
  }
  return is_changed;
}

}  // namespace

bool reduced_dims_argument(const char* where, PyObject* dim, int nd, bool* is_reduced) {
  const int n = nd ? nd : 1;
  for (int i = 0; i < n; ++i) is_reduced[i] = dim == Py_None;
  if (dim == Py_None) return true;
  if (!PyTuple_Check(dim) && !PyList_Check(dim)) return mark_dim(where, dim, nd, is_reduced);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(dim);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!mark_dim(where, PySequence_Fast_GET_ITEM(dim, i), nd, is_reduced)) return false;
  }
  for (int i = 0; i < n && count == 0; ++i) is_reduced[i] = true;
  return true;
}

namespace {

// A view of x's memory with another shape and strides.
Ref as_strided(PyArrayObject* x, int nd, const npy_intp* sizes, const npy_intp* strides) {
  PyArray_Descr* descr = PyArray_DESCR(x);
  Py_INCREF(descr);
  Ref view(PyArray_NewFromDescr(&PyArray_Type, descr, nd, sizes, strides, PyArray_DATA(x),
                                PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE, nullptr));
  if (!view) return view;
  Py_INCREF(x);
  if (PyArray_SetBaseObject(view.array(), reinterpret_cast<PyObject*>(x)) < 0) return Ref();
  return view;
}

// x with one element of each expanded axis that is kept, and of each that is reduced if ExpandedDims::Once.
Ref drop_expanded_dims(PyArrayObject* x, const bool* is_reduced, ExpandedDims expanded_dims, ReducedShape* reduced_shape) {
  const int nd = PyArray_NDIM(x);
  npy_intp sizes[NPY_MAXDIMS];
  bool is_changed = false;
  reduced_shape->is_expanded = false;
  reduced_shape->repeats = 1;
  for (int i = 0; i < nd; ++i) {
    sizes[i] = PyArray_DIM(x, i);
    if (sizes[i] < 2 || PyArray_STRIDE(x, i)) continue;
    if (is_reduced[i] && expanded_dims == ExpandedDims::EachElement) continue;
    if (is_reduced[i]) {
      reduced_shape->repeats *= sizes[i];
    } else {
      reduced_shape->is_expanded = true;
    }
    sizes[i] = 1;
    is_changed = true;
  }
  if (!is_changed || PyArray_SIZE(x) == 0) {
    reduced_shape->is_expanded = false;
    reduced_shape->repeats = 1;
    Py_INCREF(x);
    return Ref(x);
  }
  return as_strided(x, nd, sizes, PyArray_STRIDES(x));
}

// A C-contiguous copy of x with permuted axes.
Ref permuted_copy(const Ref& x, npy_intp* axes, int nd) {
  PyArray_Dims order{axes, nd};
  Ref transposed(PyArray_Transpose(x.array(), &order));
  return transposed ? contiguous(transposed.array()) : Ref();
}

// x itself if it consists of strided rows, else a C-contiguous array.
Ref contiguous_or_strided_rows(PyArrayObject* x, StridedRows* strided_rows) {
  const int nd = PyArray_NDIM(x);
  const npy_intp size = PyArray_ITEMSIZE(x);
  if (!strided_rows || PyArray_IS_C_CONTIGUOUS(x) || !is_plain(x) || size < 1) return contiguous(x);
  int64_t length = 1, expected_stride = 0;  // expected_stride: that of a dimension which continues the inner one
  for (int i = nd - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(x, i), stride = PyArray_STRIDE(x, i);
    if (n == 1) continue;
    if (!expected_stride && stride == length * size) {
      length *= n;
      continue;
    }
    if (!expected_stride) {
      strided_rows->pitch = stride / size;
    } else if (stride != expected_stride) {
      return contiguous(x);
    }
    if (stride <= 0 || stride % size) return contiguous(x);
    expected_stride = stride * n;
  }
  if (!expected_stride || length < kLongRow || strided_rows->pitch < length) return contiguous(x);
  strided_rows->length = length;
  Py_INCREF(x);
  return Ref(x);
}

// Copies x with the reduced dimensions last.
bool move_reduced_last(const bool* is_reduced, ReducedLayout* out) {
  const int nd = PyArray_NDIM(out->x.array());
  npy_intp axes[NPY_MAXDIMS];
  int n = 0;
  for (const bool reduced : {false, true}) {
    for (int i = 0; i < nd; ++i) {
      if (is_reduced[i] == reduced) axes[n++] = i;
    }
  }
  out->outer = out->m = out->inner = 1;
  for (int i = 0; i < nd; ++i) (is_reduced[i] ? out->m : out->outer) *= PyArray_DIM(out->x.array(), i);
  out->x = permuted_copy(out->x, axes, nd);
  return static_cast<bool>(out->x);
}

// Transposes rows shorter than a vector: Note [Short rows].
bool transpose_short_rows(ReducedLayout* out) {
  if (out->inner != 1 || out->m < 2 || out->m > kShortRow || out->outer < kManyRows) return true;
  npy_intp dims[2] = {out->outer, out->m}, axes[2] = {1, 0};
  PyArray_Dims shape{dims, 2};
  Ref strided_rows(PyArray_Newshape(out->x.array(), &shape, NPY_CORDER));
  out->x = strided_rows ? permuted_copy(strided_rows, axes, 2) : Ref();
  out->inner = out->outer;
  out->outer = 1;
  return static_cast<bool>(out->x);
}

// Copies strided rows to contiguous memory.
bool make_contiguous(ReducedLayout* out) {
  out->pitch = out->inner == 1 ? out->m : out->inner;
  out->x = contiguous(out->x.array());
  return static_cast<bool>(out->x);
}

}  // namespace

PyObject* ReducedShape::restore(Ref out) const {
  if (!out || !(is_permuted || is_expanded)) return out.release();
  npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) {
    const int from = is_permuted ? inverse[i] : i;
    sizes[i] = full_dims[from];
    strides[i] = sizes[i] == dims[from] ? PyArray_STRIDE(out.array(), from) : 0;
  }
  Ref transposed = as_strided(out.array(), nd, sizes, strides);
  return transposed ? contiguous(transposed.array()).release() : nullptr;
}

Ref permute_by_strides(PyArrayObject* x, bool* is_reduced, bool keepdim, bool may_permute, ReducedShape* reduced_shape,
                       ExpandedDims expanded_dims, StridedRows* strided_rows) {
  const int nd = PyArray_NDIM(x);
  PyArrayObject* const original = x;
  const Ref without_expanded = drop_expanded_dims(x, is_reduced, expanded_dims, reduced_shape);
  if (!without_expanded) return Ref();
  x = without_expanded.array();
  int axes[NPY_MAXDIMS], position[NPY_MAXDIMS] = {};  // position[d]: the axis of the result for axis d of x
  const bool permutes = may_permute && strides_order(x, axes);
  reduced_shape->nd = 0;
  reduced_shape->is_permuted = false;
  int last = -1;
  for (int i = 0; i < nd; ++i) {
    const int d = permutes ? axes[i] : i;
    if (is_reduced[d] && !keepdim) continue;
    position[d] = reduced_shape->nd;
    reduced_shape->full_dims[reduced_shape->nd] = is_reduced[d] ? 1 : PyArray_DIM(original, d);
    reduced_shape->dims[reduced_shape->nd++] = is_reduced[d] ? 1 : PyArray_DIM(x, d);
    reduced_shape->is_permuted = reduced_shape->is_permuted || d < last;
    last = d;
  }
  if (!permutes) return contiguous_or_strided_rows(x, strided_rows);
  int to = 0;
  bool was_reduced[NPY_MAXDIMS];
  npy_intp order[NPY_MAXDIMS];
  for (int d = 0; d < nd; ++d) {
    was_reduced[d] = is_reduced[d];
    if (!is_reduced[d] || keepdim) reduced_shape->inverse[to++] = position[d];
  }
  for (int i = 0; i < nd; ++i) {
    order[i] = axes[i];
    is_reduced[i] = was_reduced[axes[i]];
  }
  PyArray_Dims permutation{order, nd};
  Ref transposed(PyArray_Transpose(x, &permutation));
  return transposed ? contiguous_or_strided_rows(transposed.array(), strided_rows) : Ref();
}

bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keepdim, ReducedLayout* out,
                      ExpandedDims expanded_dims, bool wants_indices, bool may_be_strided) {
  const int nd = PyArray_NDIM(x);
  bool is_reduced[NPY_MAXDIMS];
  if (!reduced_dims_argument(where, dim, nd, is_reduced)) return false;
  int reduced_count = 0;
  for (int i = 0; i < nd; ++i) reduced_count += is_reduced[i];
  StridedRows strided_rows;
  out->x = permute_by_strides(x, is_reduced, keepdim, !wants_indices || reduced_count <= 1, out, expanded_dims,
                              may_be_strided ? &strided_rows : nullptr);
  if (!out->x) return false;
  int stage = 0;  // 0: before the reduced group, 1: in it, 2: behind it
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(out->x.array(), i);
    if (size == 1) continue;
    if (is_reduced[i] ? stage == 2 : stage == 1) {
      if (is_reduced[i]) return move_reduced_last(is_reduced, out) && transpose_short_rows(out) && make_contiguous(out);
      stage = 2;
    }
    if (is_reduced[i]) stage = 1;
    (is_reduced[i] ? out->m : stage ? out->inner : out->outer) *= size;
  }
  if (strided_rows.matches(out->m, out->inner)) {
    out->pitch = strided_rows.pitch;
    return true;
  }
  return transpose_short_rows(out) && make_contiguous(out);
}

}  // namespace shmtensor
