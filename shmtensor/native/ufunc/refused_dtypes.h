// What a ufunc does not take: dtypes by their kind, whole numbers over zero.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "threading/thread_pool.h"
#include "python.h"
#include "kernels/dtypes.h"

namespace shmtensor {

// Is this type of one of the kinds?
inline bool refuses(const char* kinds, int type) {
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  bool found = strchr(kinds, descr->kind) != nullptr;
  Py_DECREF(descr);
  return found;
}

// y - 1 has the top bit where y has not for 0 alone: SSE2 compares no 64 bits.
template <class T>
bool any_zero(const T* y, int64_t n) {
  using Word = std::make_unsigned_t<T>;
  Word found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Word v = static_cast<Word>(y[i]);
    found = static_cast<Word>(found | (static_cast<Word>(v - 1) & ~v));
  }
  return found >> (8 * sizeof(T) - 1);
}

// Is one of the whole numbers 0?
inline bool has_zero(PyArrayObject* y) {
  constexpr int64_t kPart = 32768;
  const npy_intp n = PyArray_SIZE(y);
  if (!PyArray_ISCARRAY_RO(y)) return PyArray_CountNonzero(y) != n;
  std::atomic<bool> found{false};
  with_type(PyArray_TYPE(y), [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>) {
      const auto* from = data<decltype(zero)>(y);
      ranges(n, kPart, [&](int64_t i, int64_t stop) {
        if (any_zero(from + i, stop - i)) found = true;
      });
    }
  });
  return found;
}

// Is a whole number divided by 0? Floating-point numbers may be.
inline bool by_zero(PyObject* x, PyObject* y) {
  const bool whole = PyArray_Check(x) ? PyArray_ISINTEGER(as_array(x)) && PyArray_SIZE(as_array(x))
                                      : PyLong_CheckExact(x);
  if (!whole) return false;
  if (PyLong_CheckExact(y)) return PyObject_Not(y) == 1;
  return PyArray_Check(y) && PyArray_ISINTEGER(as_array(y)) &&
         has_zero(as_array(y));
}

// Are no arrays of a refused kind of dtype among the operands? If there are: a TypeError.
inline bool accepts(const char* refused, PyObject* const* args, Py_ssize_t nargs) {
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    if (!PyArray_Check(args[i])) continue;
    PyArray_Descr* descr = PyArray_DESCR(as_array(args[i]));
    if (!strchr(refused, descr->kind)) continue;
    PyErr_Format(PyExc_TypeError, "not supported for the input types: %S", descr);
    return false;
  }
  return true;
}

}  // namespace shmtensor
