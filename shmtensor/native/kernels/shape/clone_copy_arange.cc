// Copies, fills and ranges in slices of 64 KB, each written by one memcpy or loop.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kSlice = 65536;   // bytes
constexpr int64_t kUnlock = 16384;  // bytes

bool is_simple(PyArrayObject* a) { return is_plain(a) && is_bytes(PyArray_TYPE(a)); }

void copy_bytes(char* to, const char* float_start, int64_t nbytes) {
  Unlocked unlocked(nbytes > kUnlock);
  ranges(nbytes, kSlice,
         [&](int64_t start, int64_t stop) { copy_run(to + start, float_start + start, static_cast<size_t>(stop - start)); });
}

// Repeats one element; long runs are filled by vectors.
template <class T>
void fill_run(T* to, int64_t n, T v) {
  if (n * static_cast<int64_t>(sizeof(T)) < 64) {
    for (int64_t i = 0; i < n; ++i) to[i] = v;
    return;
  }
  T parts[8 / sizeof(T)];
  for (T& part : parts) part = v;
  uint64_t word;
  memcpy(&word, parts, sizeof word);
  memory_kernels().fill(reinterpret_cast<char*>(to), n * static_cast<int64_t>(sizeof(T)), word);
}

template <class T>
void fill(char* memory, const void* bits, int64_t n) {
  T v;
  memcpy(&v, bits, sizeof v);
  T* out = reinterpret_cast<T*>(memory);
  Unlocked unlocked(n * static_cast<int64_t>(sizeof(T)) > kUnlock);
  ranges(n, kSlice / static_cast<int64_t>(sizeof(T)), [=](int64_t i, int64_t stop) { fill_run(out + i, stop - i, v); });
}

// to[i] = first + i * step; integers wrap as int64 does.
template <class T>
void arange_run(T* to, int64_t i, int64_t stop, uint64_t int_start, uint64_t step) {
  for (; i < stop; ++i) to[i] = static_cast<T>(static_cast<int64_t>(int_start + static_cast<uint64_t>(i) * step));
}
template <class T>
void arange_run(T* to, int64_t i, int64_t stop, double int_start, double step) {
  while (i < stop) {  // with 32-bit counters, whose conversion to double vectorises
    const int32_t n = static_cast<int32_t>(stop - i < kSlice ? stop - i : kSlice);
    const double first_index = static_cast<double>(i);
    for (int32_t j = 0; j < n; ++j) to[i + j] = static_cast<T>(int_start + (first_index + static_cast<double>(j)) * step);
    i += n;
  }
}

// The same from the end: to[i] = last - (size - 1 - i) * step
template <class T>
void arange_run_from_end(T* to, int64_t i, int64_t stop, int64_t size, double last, double step) {
  while (i < stop) {
    const int32_t n = static_cast<int32_t>(stop - i < kSlice ? stop - i : kSlice);
    const double remaining = static_cast<double>(size - 1 - i);
    for (int32_t j = 0; j < n; ++j) to[i + j] = static_cast<T>(last - (remaining - static_cast<double>(j)) * step);
    i += n;
  }
}

// Can every number between a and b be cast to T? A cast out of range is undefined.
template <class T>
bool fits_in(double a, double b) {
  if (std::is_floating_point_v<T>) return true;
  const double min = static_cast<double>(std::numeric_limits<T>::lowest());
  const double max = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return a >= min && b >= min && a < max && b < max;
}

}  // namespace

// clone(x): a copy with x's order of axes in memory
PyObject* clone(PyObject*, PyObject* argument) {
  PyArrayObject* x = array_argument("clone", "input", argument);
  if (!x) return nullptr;
  if (!is_simple(x) || !PyArray_CheckExact(argument)) return PyArray_NewCopy(x, NPY_KEEPORDER);
  Ref out(PyArray_NewLikeArray(x, NPY_KEEPORDER, nullptr, 0));
  if (!out) return nullptr;
  PyArrayObject* y = out.array();
  bool same_layout = PyArray_IS_C_CONTIGUOUS(x) && PyArray_IS_C_CONTIGUOUS(y);
  if (!same_layout && (PyArray_FLAGS(x) & NPY_ARRAY_F_CONTIGUOUS) && (PyArray_FLAGS(y) & NPY_ARRAY_F_CONTIGUOUS))
    same_layout = true;
  if (!same_layout)
    same_layout = PyArray_NBYTES(x) > 0 && PyArray_CompareLists(PyArray_STRIDES(x), PyArray_STRIDES(y), PyArray_NDIM(x));
  if (same_layout) {
    copy_bytes(PyArray_BYTES(y), PyArray_BYTES(x), PyArray_NBYTES(x));
  } else if (!(PyArray_ISCARRAY(y) && copy_contiguous_into(x, PyArray_DATA(y)))) {
    if (PyArray_CopyInto(y, x) < 0) return nullptr;
  }
  return out.release();
}

// copy_into(out, y) -> bool: out[...] = y for a 0-d y or one of out's shape; False if there is no kernel
PyObject* copy_into(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("copy_into", n, 2)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_FALSE;
  PyArrayObject *out = as_array(args[0]), *y = as_array(args[1]);
  if (PyArray_TYPE(out) != PyArray_TYPE(y) || !PyArray_ISCARRAY(out) || !is_simple(y) || !is_simple(out)) Py_RETURN_FALSE;
  if (PyArray_NDIM(y) == 0) {
    char value[16];
    const npy_intp size = PyArray_ITEMSIZE(y);
    if (size > 8) Py_RETURN_FALSE;
    memcpy(value, PyArray_DATA(y), static_cast<size_t>(size));
    const int64_t count = PyArray_SIZE(out);
    with_size(size, [&](auto zero) { fill<decltype(zero)>(PyArray_BYTES(out), value, count); });
    Py_RETURN_TRUE;
  }
  if (!PyArray_SAMESHAPE(out, y) || overlap(out, y)) Py_RETURN_FALSE;
  return PyBool_FromLong(copy_contiguous_into(y, PyArray_DATA(out)));
}

// steps(start, step, n, type): start + i * step, in int64 or double, as that type
PyObject* steps(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("steps", count, 4)) return nullptr;
  const npy_intp n = PyLong_AsSsize_t(args[2]);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  const long type = PyLong_AsLong(args[3]);
  if (type == -1 && PyErr_Occurred()) return nullptr;
  if (n < 0 || type < 0 || type > NPY_DOUBLE || type == NPY_BOOL) Py_RETURN_NONE;
  const bool is_integer = PyLong_CheckExact(args[0]) && PyLong_CheckExact(args[1]);
  int64_t int_start = 0, step = 0;
  double float_start = 0, float_step = 0;
  if (is_integer) {
    int overflow, step_overflow;
    int_start = PyLong_AsLongLongAndOverflow(args[0], &overflow);
    step = PyLong_AsLongLongAndOverflow(args[1], &step_overflow);
    if (overflow || step_overflow) Py_RETURN_NONE;
  } else {
    if (PyTypeNum_ISINTEGER(static_cast<int>(type))) Py_RETURN_NONE;
    float_start = PyFloat_AsDouble(args[0]);
    if (!PyErr_Occurred()) float_step = PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred()) return fall_back();
  }
  Ref out(new_array(1, &n, static_cast<int>(type)));
  if (!out) return nullptr;
  Unlocked unlocked(n * 8 > kUnlock);
  with_type(static_cast<int>(type), [&](auto zero) {
    using T = decltype(zero);
    T* to = data<T>(out);
    ranges(n, kSlice / 8, [&](int64_t start, int64_t stop) {
      if (is_integer) {
        arange_run(to, start, stop, static_cast<uint64_t>(int_start), static_cast<uint64_t>(step));
      } else {
        arange_run(to, start, stop, float_start, float_step);
      }
    });
  });
  return out.release();
}

// linspace(start, end, step, n, type): n > 1 numbers, half of them computed from the start, half from the end, in
// double and then cast
PyObject* linspace(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("linspace", count, 5)) return nullptr;
  double p[3];
  for (int i = 0; i < 3; ++i) {
    p[i] = PyFloat_AsDouble(args[i]);
    if (PyErr_Occurred()) return fall_back();
  }
  const npy_intp n = PyLong_AsSsize_t(args[3]);
  const long type = PyLong_AsLong(args[4]);
  if (PyErr_Occurred()) return nullptr;
  if (n < 2 || type < 0 || type > NPY_DOUBLE || type == NPY_BOOL) Py_RETURN_NONE;
  Ref out;
  bool ok = true;
  with_type(static_cast<int>(type), [&](auto zero) {
    using T = decltype(zero);
    if (!fits_in<T>(p[0], p[1])) return;
    out = Ref(new_array(1, &n, static_cast<int>(type)));
    if (!out) {
      ok = false;
      return;
    }
    T* to = data<T>(out);
    Unlocked unlocked(n * 8 > kUnlock);
    ranges(n, kSlice / 8, [&](int64_t start, int64_t stop) {
      const int64_t half = n / 2, middle = start > half ? start : stop < half ? stop : half;
      arange_run(to, start, middle, p[0], p[2]);
      arange_run_from_end(to, middle, stop, n, p[1], p[2]);
    });
  });
  if (!ok) return nullptr;
  if (!out) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
