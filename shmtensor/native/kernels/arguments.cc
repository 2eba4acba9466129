// Arguments and messages of the kernels.
#include "kernels/arguments.h"

namespace shmtensor {
namespace {

// The first byte of an array's elements and the one after the last; false if the array is empty.
bool extent(PyArrayObject* a, const char** start, const char** stop) {
  *start = *stop = PyArray_BYTES(a);
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    npy_intp n = PyArray_DIM(a, i), span = (n - 1) * PyArray_STRIDE(a, i);
    if (n == 0) return false;
    (span < 0 ? *start : *stop) += span;
  }
  *stop += PyArray_ITEMSIZE(a);
  return true;
}

}  // namespace

DenseView dense_view(PyArrayObject* a) {
  DenseView t;
  const int nd = PyArray_NDIM(a);
  npy_intp order[NPY_MAXDIMS];
  if (nd > 1 && !PyArray_IS_C_CONTIGUOUS(a)) {
    for (int i = 0; i < nd; ++i) {
      int at = i;
      for (; at > 0 && PyArray_STRIDE(a, static_cast<int>(order[at - 1])) < PyArray_STRIDE(a, i); --at)
        order[at] = order[at - 1];
      order[at] = i;
    }
    PyArray_Dims axes = {order, nd};
    t.array = Ref(PyArray_Transpose(a, &axes));
    if (!t.array || PyArray_IS_C_CONTIGUOUS(t.array.array())) {
      t.nd_ = nd;
      for (int i = 0; i < nd; ++i) t.inverse_[order[i]] = i;
      return t;
    }
  }
  Py_INCREF(a);
  t.array = Ref(a);
  return t;
}

Ref DenseView::restore(Ref out) const {
  if (!out || !nd_) return out;
  npy_intp order[NPY_MAXDIMS];
  for (int i = 0; i < nd_; ++i) order[i] = inverse_[i];
  PyArray_Dims axes = {order, nd_};
  return Ref(PyArray_Transpose(out.array(), &axes));
}

bool overlap(PyArrayObject* a, PyArrayObject* b) {
  const char *a0, *a1, *b0, *b1;
  return extent(a, &a0, &a1) && extent(b, &b0, &b1) && a0 < b1 && b0 < a1;
}

std::string shape_text(PyArrayObject* a) {
  std::string text = "(";
  const int nd = PyArray_NDIM(a);
  for (int i = 0; i < nd; ++i) {
    if (i) text += ", ";
    text += std::to_string(PyArray_DIM(a, i));
  }
  return text + (nd == 1 ? ",)" : ")");
}

std::string dtype_text(PyArrayObject* a) {
  Ref text(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(a))));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8) return utf8;
  PyErr_Clear();
  return "?";
}

PyArrayObject* array_argument(const char* where, const char* name, PyObject* p) {
  if (PyArray_Check(p)) return as_array(p);
  return raise("TypeError", "%s: %s is not an array: %s", where, name, Py_TYPE(p)->tp_name);
}

bool floating(const char* where, PyArrayObject* x, Floating* out) {
  const int type = PyArray_TYPE(x);
  if (type == NPY_FLOAT || type == NPY_DOUBLE) {
    *out = {type, type};
  } else if (type == NPY_HALF) {
    *out = {NPY_FLOAT, NPY_HALF};
  } else if (type >= NPY_BOOL && type <= NPY_ULONGLONG) {
    *out = {NPY_FLOAT, NPY_FLOAT};
  } else {
    return raise("NotImplementedError", "%s: not implemented for %s", where, dtype_text(x).c_str());
  }
  return true;
}

PyObject* finish(Ref out, const Floating& f) {
  if (!out || f.compute == f.result) return out.release();
  return PyArray_CastToType(out.array(), PyArray_DescrFromType(f.result), 0);
}

bool same_shape(const char* where, const char* a_name, PyArrayObject* a, const char* b_name, PyArrayObject* b) {
  if (PyArray_SAMESHAPE(a, b)) return true;
  return raise("RuntimeError", "%s: shapes differ: %s %s, %s %s", where, a_name, shape_text(a).c_str(), b_name,
               shape_text(b).c_str());
}

int dim_argument(const char* where, PyObject* dim, int nd) {
  Py_ssize_t i = PyNumber_AsSsize_t(dim, PyExc_IndexError);
  if (i == -1 && PyErr_Occurred()) return -1;
  const int n = nd ? nd : 1;
  if (i >= -n && i < n) return static_cast<int>(i < 0 ? i + n : i);
  raise("IndexError", "%s: dim is out of range: %zd, expected %d to %d", where, i, -n, n - 1);
  return -1;
}

PyObject* fall_back() {
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return nullptr;
  PyErr_Clear();
  Py_RETURN_NONE;
}

}  // namespace shmtensor
