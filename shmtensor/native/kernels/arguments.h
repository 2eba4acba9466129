// Small things that every kernel's Python face needs: fresh arrays, contiguous views, shapes as
// text.
#pragma once

#include <string>

#include "python.h"

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
    Py_XDECREF(old);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
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

// Releases the GIL while it lives, if the work is worth it (a switch costs about 50 ns, more when
// contended).
class Unlocked {
 public:
  explicit Unlocked(bool worth) : state_(worth ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
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

// A fresh C-contiguous array of a built-in dtype, not zeroed; NumPy allocates it, from the heap if
// the gate is open.
inline PyObject* fresh(int nd, const npy_intp* dims, int type) {
  return PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(type), nd, dims, nullptr,
                              nullptr, 0, nullptr);
}

// The array itself if it is C-contiguous, aligned and in native byte order, else such a copy.
inline Ref contiguous(PyArrayObject* a) {
  if (PyArray_ISCARRAY_RO(a)) {
    Py_INCREF(a);
    return Ref(a);
  }
  return Ref(PyArray_FromArray(a, PyArray_DescrFromType(PyArray_TYPE(a)), NPY_ARRAY_CARRAY_RO));
}

// The same with a cast (any kind) to a built-in dtype.
inline Ref contiguous_as(PyArrayObject* a, int type) {
  if (PyArray_TYPE(a) == type) return contiguous(a);
  return Ref(
      PyArray_FromArray(a, PyArray_DescrFromType(type), NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
}

// A view of an array with its axes in the order of memory, and what brings results back: functions of
// single elements keep the order of their operand. Without a dense order it is the array itself.
struct Turned {
  Ref array;
  Ref back(Ref out) const;

 private:
  friend Turned turned(PyArrayObject* a);
  int nd_ = 0;  // 0: nothing to bring back
  npy_intp back_[NPY_MAXDIMS];
};
Turned turned(PyArrayObject* a);

// May the two have an element in common? Compares the spans of memory they touch.
bool overlap(PyArrayObject* a, PyArrayObject* b);

std::string shape_text(PyArrayObject* a);  // "(3, 4)"
std::string dtype_text(PyArrayObject* a);  // "float32"

// An ndarray argument of any subclass, or nullptr with TypeError: "<where>: <name> is not an array:
// <type>".
PyArrayObject* array_argument(const char* where, const char* name, PyObject* p);

// The dtype a floating kernel computes in, and the one of its result: float32 and float64 as they
// are, float16 by way of float32, bool and integers become float32. False with TypeError for the
// others (complex, long double, ...).
struct Floating {
  int compute, result;
};
bool floating(const char* where, PyArrayObject* x, Floating* out);

// The kernel's result in the dtype that was promised. Takes the reference; nullptr passes.
PyObject* finish(Ref out, const Floating& f);

// Both arrays have one shape, else ValueError: "<where>: shapes differ: <a> (3, 4), <b> (4, 3)".
bool same_shape(const char* where, const char* a_name, PyArrayObject* a, const char* b_name,
                PyArrayObject* b);

// dim in [-nd, nd) as [0, nd), or -1 with IndexError. A 0-d array has the one dimension 0, as in
// PyTorch.
int dim_argument(const char* where, PyObject* dim, int nd);

// None in place of an exception about wrong arguments: the caller's plain form says it better. Out of
// memory stays.
PyObject* left_to_caller();

// n arguments at least, `most` at most; -1 with TypeError.
int count_arguments(const char* where, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most);

}  // namespace shmtensor
