// What the Python bindings of all kernels use: references, new and contiguous arrays, argument checks, shapes as text.
#pragma once

#include <string>

#include "methods.h"

namespace shmtensor {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* p) : p_(p) {}
  explicit Ref(PyArrayObject* p) : p_(reinterpret_cast<PyObject*>(p)) {}
  Ref(Ref&& other) noexcept : p_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = p_;
    p_ = other.release();
    drop_if_set(old);
    return *this;
  }
  ~Ref() { drop_if_set(p_); }
  PyObject* get() const { return p_; }
  PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(p_); }
  PyObject* release() {
    PyObject* p = p_;
    p_ = nullptr;
    return p;
  }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

inline PyArrayObject* as_array(PyObject* p) { return reinterpret_cast<PyArrayObject*>(p); }

template <class T>
T* data(PyArrayObject* a) {
  return static_cast<T*>(PyArray_DATA(a));
}
template <class T>
T* data(const Ref& a) {
  return data<T>(a.array());
}

// An uninitialised C-contiguous array of a built-in dtype; NumPy allocates it, from the heap if the gate is open.
inline PyObject* new_array(int nd, const npy_intp* dims, int type) {
  return PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(type), nd, dims, nullptr, nullptr, 0, nullptr);
}

// A C-contiguous copy of an array that is none, made on the thread pool (kernels/shape/contiguous.cc): NumPy's copy lies
// in one CPU's cache. The gradient of a sum is such an array.
Ref contiguous_copy(PyArrayObject* a);

// The array itself if it is C-contiguous, aligned and in native byte order, else a copy that is.
inline Ref contiguous(PyArrayObject* a) {
  if (!PyArray_ISCARRAY_RO(a)) return contiguous_copy(a);
  Py_INCREF(a);
  return Ref(a);
}

// The same with a cast (any kind) to a built-in dtype.
inline Ref contiguous_as(PyArrayObject* a, int type) {
  if (PyArray_TYPE(a) == type) return contiguous(a);
  return Ref(PyArray_FromArray(a, PyArray_DescrFromType(type), NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
}

// A new array in C order, of a built-in dtype (any cast): what other processes do to `a` no longer matters (Note [Memory
// that others change], kernels/index/indices.h).
inline Ref private_copy_as(PyArrayObject* a, int type) {
  return Ref(
      PyArray_FromArray(a, PyArray_DescrFromType(type), NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_FORCECAST));
}

// The element at p, read from memory once: an atomic load, which the compiler neither repeats nor splits. It is one plain
// instruction.
template <class T>
inline T load_once(const T* p) {
  T value;
  __atomic_load(p, &value, __ATOMIC_RELAXED);
  return value;
}

// A view of an array with its axes permuted to C order, if the array is dense in some order of its axes, else the
// array itself. restore() permutes a result back: pointwise functions keep the memory order of their operand.
struct DenseView {
  Ref array;
  Ref restore(Ref out) const;
  // The original's axis that became axis d.
  int axis(int d) const {
    int i = d;
    for (int k = 0; k < nd_; ++k) i = inverse_[k] == d ? k : i;
    return i;
  }

 private:
  friend DenseView dense_view(PyArrayObject* a);
  int nd_ = 0;  // 0: not permuted
  npy_intp inverse_[NPY_MAXDIMS];
};
DenseView dense_view(PyArrayObject* a);

// May the two share memory? Compares the address ranges of their elements.
bool overlap(PyArrayObject* a, PyArrayObject* b);

std::string shape_text(PyArrayObject* a);  // "(3, 4)"
std::string dtype_text(PyArrayObject* a);  // "float32"

// An ndarray argument of any subclass, or nullptr with TypeError: "<where>: <name> is not an array: <type>".
PyArrayObject* array_argument(const char* where, const char* name, PyObject* p);

// The dtype in which a floating-point kernel computes, and the dtype of its result: float32 and float64 stay, float16
// is computed in float32, bool and integers become float32. False with NotImplementedError for the others (complex,
// long double, ...).
struct Floating {
  int compute, result;
};
bool floating(const char* where, PyArrayObject* x, Floating* out);

// Casts the kernel's result to its result dtype. Steals the reference; nullptr stays nullptr.
PyObject* finish(Ref out, const Floating& f);

// True if both arrays have one shape, else false with RuntimeError: "<where>: shapes differ: <a> (3, 4), <b> (4, 3)".
bool same_shape(const char* where, const char* a_name, PyArrayObject* a, const char* b_name, PyArrayObject* b);

// dim in [-nd, nd) as [0, nd), or -1 with IndexError. A 0-d array has one dimension, 0, as in PyTorch.
int dim_argument(const char* where, PyObject* dim, int nd);

// Replaces an exception about wrong arguments by None: the caller then computes without the kernel, or raises a better
// message. A MemoryError stays.
PyObject* fall_back();

}  // namespace shmtensor
