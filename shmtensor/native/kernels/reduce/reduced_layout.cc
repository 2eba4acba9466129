#include "kernels/reduce/reduced_layout.h"

#include "kernels/shape/contiguous.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kShortRow = 24;    // elements
constexpr int64_t kManyRows = 1024;
constexpr int64_t kLongRow = 64;  // elements: shorter rows apart are copied

bool mark(const char* where, PyObject* dim, int nd, bool* goes) {
  const int d = dim_argument(where, dim, nd);
  if (d < 0) return false;
  if (goes[d]) {
    raise("RuntimeError", "%s: dim appears twice: %d", where, d);
    return false;
  }
  goes[d] = true;
  return true;
}

npy_intp size_of(npy_intp stride) { return stride < 0 ? -stride : stride; }

// The axes, largest stride first; one of a single element stays beside the axis before it. False: as
// they were.
bool order_of(PyArrayObject* x, int* axes) {
  const int nd = PyArray_NDIM(x);
  if (PyArray_IS_C_CONTIGUOUS(x)) return false;
  npy_intp keys[NPY_MAXDIMS];
  bool moved = false;
  for (int i = 0; i < nd; ++i) {
    npy_intp key = size_of(PyArray_STRIDE(x, i));
    if (PyArray_DIM(x, i) == 1) key = i ? keys[i - 1] : NPY_MAX_INTP;
    keys[i] = key;
  }
  for (int i = 0; i < nd; ++i) {
    int at = i;
    for (; at > 0 && keys[axes[at - 1]] < keys[i]; --at) {
      axes[at] = axes[at - 1];
      moved = true;
    }
    axes[at] = i;
  }
  return moved;
}

}  // namespace

bool reduced_dims(const char* where, PyObject* dim, int nd, bool* goes) {
  const int n = nd ? nd : 1;
  for (int i = 0; i < n; ++i) goes[i] = dim == Py_None;
  if (dim == Py_None) return true;
  if (!PyTuple_Check(dim) && !PyList_Check(dim)) return mark(where, dim, nd, goes);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(dim);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!mark(where, PySequence_Fast_GET_ITEM(dim, i), nd, goes)) return false;
  }
  for (int i = 0; i < n && count == 0; ++i) goes[i] = true;
  return true;
}

namespace {

// Another shape on the elements of x.
Ref viewed(PyArrayObject* x, int nd, const npy_intp* sizes, const npy_intp* strides) {
  PyArray_Descr* descr = PyArray_DESCR(x);
  Py_INCREF(descr);
  Ref view(PyArray_NewFromDescr(&PyArray_Type, descr, nd, sizes, strides, PyArray_DATA(x),
                                PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE, nullptr));
  if (!view) return view;
  Py_INCREF(x);
  if (PyArray_SetBaseObject(view.array(), reinterpret_cast<PyObject*>(x)) < 0) return Ref();
  return view;
}

// x with one element of each stretched axis that stays, and that goes if those count once.
Ref unstretched(PyArrayObject* x, const bool* goes, Stretched stretched, Left* left) {
  const int nd = PyArray_NDIM(x);
  npy_intp sizes[NPY_MAXDIMS];
  bool any = false;
  left->stretched = false;
  left->times = 1;
  for (int i = 0; i < nd; ++i) {
    sizes[i] = PyArray_DIM(x, i);
    if (sizes[i] < 2 || PyArray_STRIDE(x, i)) continue;
    if (goes[i] && stretched == Stretched::Walked) continue;
    if (goes[i]) {
      left->times *= sizes[i];
    } else {
      left->stretched = true;
    }
    sizes[i] = 1;
    any = true;
  }
  if (!any || PyArray_SIZE(x) == 0) {
    left->stretched = false;
    left->times = 1;
    Py_INCREF(x);
    return Ref(x);
  }
  return viewed(x, nd, sizes, PyArray_STRIDES(x));
}

// x with its axes in another order, in C order.
Ref reordered(const Ref& x, npy_intp* axes, int nd) {
  PyArray_Dims order{axes, nd};
  Ref turned(PyArray_Transpose(x.array(), &order));
  return turned ? in_order(turned.array()) : Ref();
}

// x as it lies if it is rows apart, else in C order.
Ref in_rows(PyArrayObject* x, Apart* apart) {
  const int nd = PyArray_NDIM(x);
  const npy_intp size = PyArray_ITEMSIZE(x);
  if (!apart || PyArray_IS_C_CONTIGUOUS(x) || !is_plain(x) || size < 1) return in_order(x);
  int64_t length = 1, next = 0;  // next: the stride with which the dimension before goes on
  for (int i = nd - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(x, i), stride = PyArray_STRIDE(x, i);
    if (n == 1) continue;
    if (!next && stride == length * size) {
      length *= n;
      continue;
    }
    if (!next) {
      apart->pitch = stride / size;
    } else if (stride != next) {
      return in_order(x);
    }
    if (stride <= 0 || stride % size) return in_order(x);
    next = stride * n;
  }
  if (!next || length < kLongRow || apart->pitch < length) return in_order(x);
  apart->length = length;
  Py_INCREF(x);
  return Ref(x);
}

// The reduced dimensions last.
bool gather_reduced(const bool* goes, Reduced* out) {
  const int nd = PyArray_NDIM(out->x.array());
  npy_intp axes[NPY_MAXDIMS];
  int n = 0;
  for (const bool reduced : {false, true}) {
    for (int i = 0; i < nd; ++i) {
      if (goes[i] == reduced) axes[n++] = i;
    }
  }
  out->outer = out->m = out->inner = 1;
  for (int i = 0; i < nd; ++i)
    (goes[i] ? out->m : out->outer) *= PyArray_DIM(out->x.array(), i);
  out->x = reordered(out->x, axes, nd);
  return static_cast<bool>(out->x);
}

// Rows so short that no vector is filled become columns: Note [Short rows].
bool turn_short_rows(Reduced* out) {
  if (out->inner != 1 || out->m < 2 || out->m > kShortRow || out->outer < kManyRows) return true;
  npy_intp dims[2] = {out->outer, out->m}, axes[2] = {1, 0};
  PyArray_Dims shape{dims, 2};
  Ref rows(PyArray_Newshape(out->x.array(), &shape, NPY_CORDER));
  out->x = rows ? reordered(rows, axes, 2) : Ref();
  out->inner = out->outer;
  out->outer = 1;
  return static_cast<bool>(out->x);
}

// Without gaps.
bool close_up(Reduced* out) {
  out->pitch = out->inner == 1 ? out->m : out->inner;
  out->x = in_order(out->x.array());
  return static_cast<bool>(out->x);
}

}  // namespace

PyObject* Left::put_back(Ref out) const {
  if (!out || !(moved || stretched)) return out.release();
  npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) {
    const int from = moved ? back[i] : i;
    sizes[i] = wide[from];
    strides[i] = sizes[i] == dims[from] ? PyArray_STRIDE(out.array(), from) : 0;
  }
  Ref turned = viewed(out.array(), nd, sizes, strides);
  return turned ? in_order(turned.array()).release() : nullptr;
}

Ref by_memory(PyArrayObject* x, bool* goes, bool keep, bool free, Left* left, Stretched stretched,
              Apart* apart) {
  const int nd = PyArray_NDIM(x);
  PyArrayObject* const whole = x;
  const Ref narrow = unstretched(x, goes, stretched, left);
  if (!narrow) return Ref();
  x = narrow.array();
  int axes[NPY_MAXDIMS], at[NPY_MAXDIMS] = {};  // at[d]: where axis d of x is found in the result
  const bool moved = free && order_of(x, axes);
  left->nd = 0;
  left->moved = false;
  int last = -1;
  for (int i = 0; i < nd; ++i) {
    const int d = moved ? axes[i] : i;
    if (goes[d] && !keep) continue;
    at[d] = left->nd;
    left->wide[left->nd] = goes[d] ? 1 : PyArray_DIM(whole, d);
    left->dims[left->nd++] = goes[d] ? 1 : PyArray_DIM(x, d);
    left->moved = left->moved || d < last;
    last = d;
  }
  if (!moved) return in_rows(x, apart);
  int to = 0;
  bool given[NPY_MAXDIMS];
  npy_intp order[NPY_MAXDIMS];
  for (int d = 0; d < nd; ++d) {
    given[d] = goes[d];
    if (!goes[d] || keep) left->back[to++] = at[d];
  }
  for (int i = 0; i < nd; ++i) {
    order[i] = axes[i];
    goes[i] = given[axes[i]];
  }
  PyArray_Dims permutation{order, nd};
  Ref turned(PyArray_Transpose(x, &permutation));
  return turned ? in_rows(turned.array(), apart) : Ref();
}

bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keep, Reduced* out,
                      Stretched stretched, bool places, bool apart) {
  const int nd = PyArray_NDIM(x);
  bool goes[NPY_MAXDIMS];
  if (!reduced_dims(where, dim, nd, goes)) return false;
  int several = 0;
  for (int i = 0; i < nd; ++i) several += goes[i];
  Apart rows;
  out->x = by_memory(x, goes, keep, !places || several <= 1, out, stretched, apart ? &rows : nullptr);
  if (!out->x) return false;
  int stage = 0;  // before, in and after the group, which must be one
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(out->x.array(), i);
    if (size == 1) continue;
    if (goes[i] ? stage == 2 : stage == 1) {
      if (goes[i]) return gather_reduced(goes, out) && turn_short_rows(out) && close_up(out);
      stage = 2;
    }
    if (goes[i]) stage = 1;
    (goes[i] ? out->m : stage ? out->inner : out->outer) *= size;
  }
  if (rows.suits(out->m, out->inner)) {
    out->pitch = rows.pitch;
    return true;
  }
  return turn_short_rows(out) && close_up(out);
}

}  // namespace shmtensor
