// Views of arrays by sizes and strides, without the argument parsing of ndarray's methods.
#include "dispatch/views.h"

#include "kernels/arguments.h"
#include "kernels/shape/contiguous.h"
#include "dispatch/autograd_node.h"

namespace shmtensor {
namespace {

// Reads an exact int; false for anything else.
bool read_integer(PyObject* p, npy_intp* out) {
  if (!PyLong_CheckExact(p)) return false;
  const Py_ssize_t v = PyLong_AsSsize_t(p);
  if (v == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  *out = v;
  return true;
}

// The dimension, counted from the front; -1 if it is out of range.
int normalize_dim(PyObject* dim, int nd) {
  npy_intp d;
  if (!read_integer(dim, &d) || d < -nd || d >= nd) return -1;
  return static_cast<int>(d < 0 ? d + nd : d);
}

// The first argument, if it is an exact ndarray among n arguments; else null.
PyArrayObject* array_argument(PyObject* const* args, Py_ssize_t count, Py_ssize_t n) {
  return count == n && PyArray_CheckExact(args[0]) ? as_array(args[0]) : nullptr;
}

PyObject* contiguous_view(PyArrayObject* x, int nd, const npy_intp* dims) {
  return view(x, nd, dims, nullptr, PyArray_BYTES(x));
}

// The strides of x's elements in another shape of as many; false if there are none. From the last dimension on, each new
// one must divide what is left of a run of elements at equal distances.
bool strides_of(PyArrayObject* x, int nd, const npy_intp* dims, npy_intp* strides) {
  npy_intp left = 1, stride = PyArray_ITEMSIZE(x);
  int i = PyArray_NDIM(x) - 1;
  for (int d = nd - 1; d >= 0; --d) {
    if (left == 1 && dims[d] > 1) {
      for (; PyArray_DIM(x, i) == 1; --i) continue;
      left = PyArray_DIM(x, i);
      stride = PyArray_STRIDE(x, i);
      for (--i; i >= 0 && (PyArray_DIM(x, i) == 1 || PyArray_STRIDE(x, i) == stride * left); --i) left *= PyArray_DIM(x, i);
    }
    if (left % dims[d]) return false;
    strides[d] = stride;
    stride *= dims[d];
    left /= dims[d];
  }
  return true;
}

// x in another shape of as many elements, of which there are some: a view, or null if its strides allow none.
PyObject* view_in_shape(PyArrayObject* x, int nd, const npy_intp* dims) {
  if (PyArray_IS_C_CONTIGUOUS(x)) return contiguous_view(x, nd, dims);
  npy_intp strides[NPY_MAXDIMS];
  return strides_of(x, nd, dims, strides) ? view(x, nd, dims, strides, PyArray_BYTES(x)) : nullptr;
}

// The same, or a copy.
PyObject* in_shape(PyArrayObject* x, int nd, const npy_intp* dims) {
  PyObject* out = view_in_shape(x, nd, dims);
  if (out || PyErr_Occurred()) return out;
  PyObject* const argument = reinterpret_cast<PyObject*>(x);
  const Ref copy(contiguous(nullptr, &argument, 1));
  return copy ? contiguous_view(copy.array(), nd, dims) : nullptr;
}

// Reads sizes of as many elements as x has, one of which may be -1; false for others, and if there is no element.
bool read_sizes(PyArrayObject* x, PyObject* sizes, int* nd, npy_intp* dims) {
  if (!is_sizes(sizes) || PyTuple_GET_SIZE(sizes) > NPY_MAXDIMS) return false;
  *nd = static_cast<int>(PyTuple_GET_SIZE(sizes));
  npy_intp known = 1, inferred = -1;
  for (int i = 0; i < *nd; ++i) {
    if (!read_integer(PyTuple_GET_ITEM(sizes, i), &dims[i])) return false;
    if (dims[i] == -1 && inferred < 0) {
      inferred = i;
    } else if (dims[i] <= 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return false;
    }
  }
  const npy_intp size = PyArray_SIZE(x);
  if (size == 0 || size % known) return false;
  if (inferred >= 0) dims[inferred] = size / known;
  return inferred >= 0 || known == size;
}

}  // namespace

PyObject* view(PyArrayObject* x, int nd, const npy_intp* dims, const npy_intp* strides, char* at) {
  PyArray_Descr* dtype = PyArray_DESCR(x);
  Py_INCREF(dtype);
  Ref out(
      PyArray_NewFromDescr(&PyArray_Type, dtype, nd, dims, strides, at, PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE, nullptr));
  if (!out) return nullptr;
  Py_INCREF(x);
  if (PyArray_SetBaseObject(out.array(), reinterpret_cast<PyObject*>(x)) < 0) return nullptr;
  return out.release();
}

PyObject* reshape_view(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  int nd;
  npy_intp dims[NPY_MAXDIMS];
  if (!x || !read_sizes(x, args[1], &nd, dims)) Py_RETURN_NONE;
  PyObject* out = view_in_shape(x, nd, dims);
  if (!out && !PyErr_Occurred()) Py_RETURN_NONE;
  return out;
}

PyObject* reshape(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  int nd;
  npy_intp dims[NPY_MAXDIMS];
  if (!x || !read_sizes(x, args[1], &nd, dims)) Py_RETURN_NONE;
  return in_shape(x, nd, dims);
}

PyObject* flatten(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 3);
  if (!x || PyArray_SIZE(x) == 0) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), start = normalize_dim(args[1], nd), end = normalize_dim(args[2], nd);
  if (start < 0 || end < start) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS];
  int m = 0;
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(x, i);
    if (i > start && i <= end) {
      dims[m - 1] *= size;
    } else {
      dims[m++] = size;
    }
  }
  return in_shape(x, m, dims);
}

PyObject* squeeze(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  if (!x || !PyArray_NDIM(x)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), dim = args[1] == Py_None ? nd : normalize_dim(args[1], nd);
  if (dim < 0) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  int m = 0;
  for (int i = 0; i < nd; ++i) {
    const npy_intp size = PyArray_DIM(x, i);
    if (size == 1 && (dim == nd || dim == i)) continue;
    dims[m] = size;
    strides[m++] = PyArray_STRIDE(x, i);
  }
  return view(x, m, dims, strides, PyArray_BYTES(x));
}

PyObject* unsqueeze(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  const int nd = x ? PyArray_NDIM(x) + 1 : 0, dim = x ? normalize_dim(args[1], nd) : -1;
  if (dim < 0 || nd > NPY_MAXDIMS) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  for (int i = 0; i < nd; ++i) {
    dims[i] = i == dim ? 1 : PyArray_DIM(x, i < dim ? i : i - 1);
    strides[i] = i == dim ? 0 : PyArray_STRIDE(x, i < dim ? i : i - 1);
  }
  return view(x, nd, dims, strides, PyArray_BYTES(x));
}

PyObject* diagonal(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 4);
  npy_intp offset;
  if (!x || !read_integer(args[1], &offset)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x), a = normalize_dim(args[2], nd), b = normalize_dim(args[3], nd);
  if (a < 0 || b < 0 || a == b) Py_RETURN_NONE;
  const npy_intp down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
  const npy_intp rows = PyArray_DIM(x, a) - down, columns = PyArray_DIM(x, b) - right;
  const npy_intp size = rows < columns ? rows : columns;
  if (size <= 0) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  int m = 0;
  for (int i = 0; i < nd; ++i) {
    if (i == a || i == b) continue;
    dims[m] = PyArray_DIM(x, i);
    strides[m++] = PyArray_STRIDE(x, i);
  }
  dims[m] = size;
  strides[m] = PyArray_STRIDE(x, a) + PyArray_STRIDE(x, b);
  return view(x, m + 1, dims, strides, PyArray_BYTES(x) + down * PyArray_STRIDE(x, a) + right * PyArray_STRIDE(x, b));
}

PyObject* unbind(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  const int nd = x ? PyArray_NDIM(x) : 0, dim = x ? normalize_dim(args[1], nd) : -1;
  if (dim < 0) Py_RETURN_NONE;
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  int m = 0;
  for (int i = 0; i < nd; ++i) {
    if (i == dim) continue;
    dims[m] = PyArray_DIM(x, i);
    strides[m++] = PyArray_STRIDE(x, i);
  }
  const npy_intp count = PyArray_DIM(x, dim);
  Ref out(PyList_New(count));
  for (npy_intp i = 0; out && i < count; ++i) {
    PyObject* part = view(x, m, dims, strides, PyArray_BYTES(x) + i * PyArray_STRIDE(x, dim));
    if (!part) return nullptr;
    PyList_SET_ITEM(out.get(), i, part);
  }
  return out.release();
}

PyObject* flip_view(PyObject*, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* x = array_argument(args, n, 2);
  if (!x) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x);
  npy_intp strides[NPY_MAXDIMS];
  char* at = PyArray_BYTES(x);
  for (int i = 0; i < nd; ++i) strides[i] = PyArray_STRIDE(x, i);
  const bool many = is_sizes(args[1]) || PyList_CheckExact(args[1]);
  const Py_ssize_t count = many ? PySequence_Fast_GET_SIZE(args[1]) : 1;
  uint64_t flipped = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int dim = normalize_dim(many ? PySequence_Fast_GET_ITEM(args[1], i) : args[1], nd);
    if (dim < 0 || flipped >> dim & 1) Py_RETURN_NONE;
    flipped |= uint64_t(1) << dim;
    if (PyArray_DIM(x, dim)) at += (PyArray_DIM(x, dim) - 1) * strides[dim];
    strides[dim] = -strides[dim];
  }
  return view(x, nd, PyArray_DIMS(x), strides, at);
}

}  // namespace shmtensor
