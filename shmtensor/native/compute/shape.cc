#include "shape.h"

namespace shmtensor {
namespace {

bool mark(const char* where, PyObject* dim, int nd, bool* goes) {
  const int d = dim_argument(where, dim, nd);
  if (d < 0) return false;
  if (goes[d] && nd) {
    raise("ValueError", "%s: dim appears twice: %d", where, d);
    return false;
  }
  goes[d] = true;
  return true;
}

bool marks(const char* where, PyObject* dim, int nd, bool* goes) {
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

}  // namespace

bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keep, Reduced* out,
                      bool* fits) {
  const int nd = PyArray_NDIM(x);
  bool goes[NPY_MAXDIMS];
  *fits = true;
  if (!marks(where, dim, nd, goes)) return false;
  int stage = 0;  // before, in and after the group
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(x, i);
    if (!goes[i]) {
      out->dims[out->nd++] = size;
    } else if (keep) {
      out->dims[out->nd++] = 1;
    }
    if (size == 1) continue;
    if (goes[i] ? stage == 2 : stage == 1) {
      if (goes[i]) {
        *fits = false;
        return true;
      }
      stage = 2;
    }
    if (goes[i]) stage = 1;
    (goes[i] ? out->m : stage ? out->inner : out->outer) *= size;
  }
  out->x = contiguous(x);
  return static_cast<bool>(out->x);
}

}  // namespace shmtensor
