// Arguments that a ufunc rejects: dtype kinds, and integer division by zero.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "threading/thread_pool.h"
#include "python.h"
#include "kernels/dtypes.h"

namespace shmtensor {

// Is the dtype's kind one of `kinds`?
inline bool is_rejected(const char* kinds, int type) {
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  bool found = strchr(kinds, descr->kind) != nullptr;
  Py_DECREF(descr);
  return found;
}

// Only for y = 0, y - 1 has the top bit set and y has not; SSE2 has no 64-bit comparison.
template <class T>
bool any_zero(const T* y, int64_t n) {
  using Word = std::make_unsigned_t<T>;
  Word bits = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Word v = static_cast<Word>(y[i]);
    bits = static_cast<Word>(bits | (static_cast<Word>(v - 1) & ~v));
  }
  return bits >> (8 * sizeof(T) - 1);
}

// Is an element of an integer array 0?
inline bool has_zero(PyArrayObject* y) {
  constexpr int64_t kPart = 32768;
  const npy_intp n = PyArray_SIZE(y);
  if (!PyArray_ISCARRAY_RO(y)) return PyArray_CountNonzero(y) != n;
  std::atomic<bool> any{false};
  with_type(PyArray_TYPE(y), [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>) {
      const auto* from = data<decltype(zero)>(y);
      ranges(n, kPart, [&](int64_t i, int64_t stop) {
        if (any_zero(from + i, stop - i)) any = true;
      });
    }
  });
  return any;
}

// Is an integer divided by 0? Floating-point division by 0 is allowed.
inline bool is_integer_division_by_zero(PyObject* x, PyObject* y) {
  const bool is_integer =
      PyArray_Check(x) ? PyArray_ISINTEGER(as_array(x)) && PyArray_SIZE(as_array(x)) : PyLong_CheckExact(x);
  if (!is_integer) return false;
  if (PyLong_CheckExact(y)) return PyObject_Not(y) == 1;
  return PyArray_Check(y) && PyArray_ISINTEGER(as_array(y)) && has_zero(as_array(y));
}

// False with TypeError if an operand is an array of a rejected dtype kind.
inline bool check_kinds(const char* rejected_kinds, PyObject* const* args, Py_ssize_t nargs) {
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    if (!PyArray_Check(args[i])) continue;
    PyArray_Descr* descr = PyArray_DESCR(as_array(args[i]));
    if (!strchr(rejected_kinds, descr->kind)) continue;
    PyErr_Format(PyExc_TypeError, "not supported for the input types: %S", descr);
    return false;
  }
  return true;
}

}  // namespace shmtensor
