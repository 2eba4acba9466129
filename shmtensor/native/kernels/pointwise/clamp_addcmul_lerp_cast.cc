// Each function returns None unless the arrays are float32 or float64 of one shape in C order (for casts any real
// dtype): the caller computes the others without a kernel.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/arguments.h"
#include "half/half.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"
#include "kernels/pointwise/incoming_gradient.h"
#include "kernels/prepared_arguments.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;  // elements per slice
constexpr int64_t kUnlock = 8192;

bool is_float(PyArrayObject* a) {
  const int type = PyArray_TYPE(a);
  return (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_ISCARRAY_RO(a);
}

// Are the arrays C-contiguous, of one shape and one floating-point dtype?
bool same_shape_and_dtype(PyObject* const* arrays, int n) {
  for (int i = 0; i < n; ++i) {
    if (!PyArray_CheckExact(arrays[i])) return false;
  }
  PyArrayObject* first = as_array(arrays[0]);
  if (!is_float(first)) return false;
  for (int i = 1; i < n; ++i) {
    PyArrayObject* a = as_array(arrays[i]);
    if (PyArray_TYPE(a) != PyArray_TYPE(first) || !is_float(a) || !PyArray_SAMESHAPE(a, first)) return false;
  }
  return true;
}

// A Python number as a double; false for other objects and for overflow.
bool parse_double(PyObject* p, double* out) {
  if (!PyFloat_CheckExact(p) && !PyLong_CheckExact(p)) return false;
  *out = PyFloat_AsDouble(p);
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// The array for results like the first of n arrays: out_argument, or a new one if that is null or None. There is no
// kernel if out_argument is not like the array, or overlaps another one of the n.
Prepared prepare_output(PyObject* const* arrays, int n, PyObject* out_argument, Ref* out) {
  PyArrayObject* x = as_array(arrays[0]);
  if (!out_argument || out_argument == Py_None) {
    *out = Ref(new_array(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
    return *out ? Prepared::Ready : Prepared::Error;
  }
  if (!PyArray_CheckExact(out_argument)) return Prepared::NoKernel;
  PyArrayObject* to = as_array(out_argument);
  if (PyArray_TYPE(to) != PyArray_TYPE(x) || !PyArray_ISCARRAY(to) || !PyArray_SAMESHAPE(to, x)) return Prepared::NoKernel;
  for (int i = 0; i < n; ++i) {
    PyArrayObject* from = as_array(arrays[i]);
    if (PyArray_DATA(from) != PyArray_DATA(to) && overlap(from, to)) return Prepared::NoKernel;
  }
  *out = Ref(Py_NewRef(out_argument));
  return Prepared::Ready;
}

// body(out, start, count) in pieces, over arrays of one shape and dtype; returns out_argument, or a new array if that
// is null or None. Returns None if the results cannot be written to out_argument.
template <class F>
PyObject* run_elementwise(PyObject* const* arrays, int arrays_n, PyObject* out_argument, F&& body) {
  Ref out;
  const Prepared ready = prepare_output(arrays, arrays_n, out_argument, &out);
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  if (ready == Prepared::Error) return nullptr;
  PyArrayObject* x = as_array(arrays[0]);
  const int64_t n = PyArray_SIZE(x);
  const auto compute = [&](auto zero) {
    Unlocked unlocked(n > kUnlock);
    auto* to = data<decltype(zero)>(out);
    ranges(n, kGrain, [&](int64_t start, int64_t stop) { body(to, start, stop - start); });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

// An integer bound, or the default for None; false if it is not an integer or out of T's range.
template <class T>
bool parse_bound(PyObject* p, T default_value, T* out) {
  *out = default_value;
  if (p == Py_None) return true;
  if (!PyLong_CheckExact(p)) return false;
  if constexpr (std::is_same_v<T, uint64_t>) {
    *out = PyLong_AsUnsignedLongLong(p);
  } else {
    const int64_t v = PyLong_AsLongLong(p);
    *out = static_cast<T>(v);
    if (!PyErr_Occurred() && static_cast<int64_t>(*out) != v) return false;
  }
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// clamp of integers
PyObject* clamp_integers(PyObject* array, PyObject* low, PyObject* high, PyObject* out_argument) {
  Ref out;
  const Prepared ready = prepare_output(&array, 1, out_argument, &out);
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  if (ready == Prepared::Error) return nullptr;
  PyArrayObject* x = as_array(array);
  bool has_bounds = false;
  with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    T min, max;
    if (!parse_bound<T>(low, std::numeric_limits<T>::lowest(), &min) ||
        !parse_bound<T>(high, std::numeric_limits<T>::max(), &max))
      return;
    const T* from = data<T>(x);
    T* to = data<T>(out);
    const int64_t n = PyArray_SIZE(x);
    Unlocked unlocked(n > kUnlock);
    ranges(n, 65536 / static_cast<int64_t>(sizeof(T)),
           [&](int64_t start, int64_t stop) { folds<T>().clamp(from + start, to + start, stop - start, min, max); });
    has_bounds = true;
  });
  if (!has_bounds) Py_RETURN_NONE;
  return out.release();
}

// Separate functions: the compiler assumes that a lambda's captures may alias the output, and would not vectorise.
template <class A, class B>
void cast_run(const A* __restrict a, B* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) b[i] = static_cast<B>(a[i]);
}

template <class A>
void cast_run_to_bool(const A* __restrict a, uint8_t* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) b[i] = a[i] != 0;
}

template <class T>
const T* data_at(PyObject* a, int64_t start, T*) {
  return data<T>(as_array(a)) + start;
}

// Runs a kernel of 16-bit floats into out_argument or a new array; None if an array is not in C order.
PyObject* run_half_kernel(int function, PyObject* array, PyObject* out_argument, const float* p) {
  PyArrayObject* x = as_array(array);
  if (!PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  Ref out;
  const Prepared ready = prepare_output(&array, 1, out_argument, &out);
  if (ready == Prepared::NoKernel) Py_RETURN_NONE;
  if (ready == Prepared::Error) return nullptr;
  const auto f = half_kernels().arithmetic[PyArray_TYPE(x) != NPY_HALF].unary[function];
  const auto* from = data<uint16_t>(x);
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, 4 * kGrain, [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
  return out.release();
}

}  // namespace

// clamp(x, low, high, out=None): numbers, or None for no bound
PyObject* clamp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("clamp", n, 3, 4)) return nullptr;
  if (PyArray_CheckExact(args[0]) && PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(args[0]))) &&
      PyArray_ISCARRAY_RO(as_array(args[0])))
    return clamp_integers(args[0], args[1], args[2], n > 3 ? args[3] : nullptr);
  double low = -HUGE_VAL, high = HUGE_VAL;
  const bool half = is_half_array(args[0]);
  if ((!half && !same_shape_and_dtype(args, 1)) || (args[1] != Py_None && !parse_double(args[1], &low)) ||
      (args[2] != Py_None && !parse_double(args[2], &high)) || low != low || high != high)
    Py_RETURN_NONE;
  if (half) {
    const float bounds[3] = {static_cast<float>(low), static_cast<float>(high), 0};
    return run_half_kernel(kHalfClamp, args[0], n > 3 ? args[3] : nullptr, bounds);
  }
  return run_elementwise(args, 1, n > 3 ? args[3] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().clamp(data_at(args[0], start, out), out + start, count, static_cast<T>(low), static_cast<T>(high));
  });
}

// nan_to_num(x, nan, posinf, neginf, out=None): replaces NaN and the infinities by numbers
PyObject* nan_to_num(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("nan_to_num", n, 4, 5)) return nullptr;
  double p[3];
  const bool half = is_half_array(args[0]);
  if ((!half && !same_shape_and_dtype(args, 1)) || !parse_double(args[1], p) || !parse_double(args[2], p + 1) ||
      !parse_double(args[3], p + 2))
    Py_RETURN_NONE;
  if (half) {
    const float q[3] = {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])};
    return run_half_kernel(kHalfNumbers, args[0], n > 4 ? args[4] : nullptr, q);
  }
  return run_elementwise(args, 1, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    const T q[3] = {static_cast<T>(p[0]), static_cast<T>(p[1]), static_cast<T>(p[2])};
    kernels<T>().numbers(data_at(args[0], start, out), out + start, count, q);
  });
}

// addcmul(x, a, b, value, out=None): x + value * a * b
PyObject* addcmul(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("addcmul", n, 4, 5)) return nullptr;
  double value;
  if (!same_shape_and_dtype(args, 3) || !parse_double(args[3], &value)) Py_RETURN_NONE;
  return run_elementwise(args, 3, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().addcmul(data_at(args[0], start, out), data_at(args[1], start, out), data_at(args[2], start, out),
                         out + start, count, static_cast<T>(value));
  });
}

// addcdiv(x, a, b, value, out=None): x + value * a / b
PyObject* addcdiv(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("addcdiv", n, 4, 5)) return nullptr;
  double value;
  if (!same_shape_and_dtype(args, 3) || !parse_double(args[3], &value)) Py_RETURN_NONE;
  return run_elementwise(args, 3, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().addcdiv(data_at(args[0], start, out), data_at(args[1], start, out), data_at(args[2], start, out),
                         out + start, count, static_cast<T>(value));
  });
}

// add_alpha(x, y, value, out=None): x + value * y
PyObject* add_alpha(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("add_alpha", n, 3, 4)) return nullptr;
  double value;
  if (!same_shape_and_dtype(args, 2) || !parse_double(args[2], &value)) Py_RETURN_NONE;
  return run_elementwise(args, 2, n > 3 ? args[3] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().add_scaled(data_at(args[0], start, out), data_at(args[1], start, out), out + start, count,
                            static_cast<T>(value));
  });
}

// cube(x): x * x * x
PyObject* cube(PyObject*, PyObject* x) {
  if (!same_shape_and_dtype(&x, 1)) Py_RETURN_NONE;
  return run_elementwise(&x, 1, nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().cube(data_at(x, start, out), out + start, count);
  });
}

// masked_scale(x, mask, scale): x * scale where the mask is true, else 0
PyObject* masked_scale(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("masked_scale", n, 3)) return nullptr;
  double scale;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]) || !parse_double(args[2], &scale)) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *mask = as_array(args[1]);
  const int type = PyArray_TYPE(x);
  if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_TYPE(mask) != NPY_BOOL || !PyArray_ISCARRAY_RO(mask) ||
      !PyArray_SAMESHAPE(mask, x))
    Py_RETURN_NONE;
  IncomingGradient g;
  Ref out(g.read(x, type) ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type) : nullptr);
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    Unlocked unlocked(size > kUnlock);
    g.ranges<T>(size, kGrain, [&](const T* from, int64_t start, int64_t stop) {
      kernels<T>().masked_scale(from, data<uint8_t>(mask) + start, data<T>(out) + start, stop - start,
                                static_cast<T>(scale));
    });
  };
  type == NPY_FLOAT ? compute(float()) : compute(double());
  return out.release();
}

// lerp(x, end, weight, out=None): x + weight * (end - x), with one weight or one for each element
PyObject* lerp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("lerp", n, 3, 4)) return nullptr;
  PyObject* out_argument = n > 3 ? args[3] : nullptr;
  double weight = 0;
  if (parse_double(args[2], &weight)) {
    if (!same_shape_and_dtype(args, 2)) Py_RETURN_NONE;
    return run_elementwise(args, 2, out_argument, [&](auto* out, int64_t start, int64_t count) {
      using T = std::remove_pointer_t<decltype(out)>;
      kernels<T>().lerp(data_at(args[0], start, out), data_at(args[1], start, out), out + start, count,
                        static_cast<T>(weight));
    });
  }
  if (!same_shape_and_dtype(args, 3)) Py_RETURN_NONE;
  return run_elementwise(args, 3, out_argument, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().lerp_each(data_at(args[0], start, out), data_at(args[1], start, out), data_at(args[2], start, out),
                           out + start, count);
  });
}

// rsqrt(x)
PyObject* rsqrt(PyObject*, PyObject* x) {
  const float none[3] = {};
  if (is_half_array(x)) return run_half_kernel(kHalfInverseRoot, x, nullptr, none);
  if (!same_shape_and_dtype(&x, 1)) Py_RETURN_NONE;
  return run_elementwise(&x, 1, nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().rsqrt(data_at(x, start, out), out + start, count);
  });
}

namespace {

// Casts 16-bit floats to another dtype or back, through float32, tile by tile; None as in `cast`.
PyObject* cast_half(PyArrayObject* x, int type) {
  constexpr int64_t kTile = 2048;
  const bool from_half = is_half(PyArray_TYPE(x));
  const int other_type = from_half ? type : PyArray_TYPE(x), format = (from_half ? PyArray_TYPE(x) : type) != NPY_HALF;
  if (other_type > NPY_DOUBLE || other_type == NPY_BOOL || (from_half && PyTypeNum_ISUNSIGNED(other_type))) Py_RETURN_NONE;
  Ref in = contiguous(x);
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), type) : nullptr);
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Unlocked unlocked(size > kUnlock);
  with_type(other_type, [&](auto zero) {
    using T = decltype(zero);
    ranges(size, 2 * kGrain, [&](int64_t start, int64_t stop) {
      float tile[kTile];
      for (; start < stop; start += kTile) {
        const int64_t n = stop - start < kTile ? stop - start : kTile;
        if (from_half) {
          half_kernels().widen[format](data<uint16_t>(in) + start, tile, n);
          if constexpr (std::is_same_v<T, int64_t>) {
            kernels<float>().truncate_to_int64(tile, data<T>(out) + start, n);
          } else {
            cast_run(tile, data<T>(out) + start, n);
          }
        } else {
          cast_run(data<T>(in) + start, tile, n);
          half_kernels().narrow[format](tile, data<uint16_t>(out) + start, n);
        }
      }
    });
  });
  return out.release();
}

}  // namespace

// cast(x, NumPy's type number): real dtypes only
PyObject* cast(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cast", n, 2)) return nullptr;
  PyArrayObject* x = array_argument("cast", "input", args[0]);
  const long type = x ? PyLong_AsLong(args[1]) : -1;
  if (!x || (type == -1 && PyErr_Occurred())) return nullptr;
  if (is_half_array(args[0]) != is_half(static_cast<int>(type))) return cast_half(x, static_cast<int>(type));
  if (type < 0 || type > NPY_DOUBLE || PyArray_TYPE(x) > NPY_DOUBLE || !PyArray_CheckExact(args[0])) Py_RETURN_NONE;
  // Casting a negative float to an unsigned integer is undefined in C++: leave it to NumPy.
  if (PyTypeNum_ISFLOAT(PyArray_TYPE(x)) && PyTypeNum_ISUNSIGNED(static_cast<int>(type)) && type != NPY_BOOL) Py_RETURN_NONE;
  Ref in = contiguous(x);
  Ref out(in ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), static_cast<int>(type)) : nullptr);
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Unlocked unlocked(size > kUnlock);
  with_type(PyArray_TYPE(x), [&](auto from) {
    const auto* a = data<decltype(from)>(in);
    if (type == NPY_BOOL) {
      auto* b = data<uint8_t>(out);
      return ranges(size, kGrain,
                    [&](int64_t start, int64_t stop) { cast_run_to_bool(a + start, b + start, stop - start); });
    }
    if constexpr (std::is_floating_point_v<decltype(from)>) {
      if (type == NPY_INT64) {
        auto* b = data<int64_t>(out);
        return ranges(size, kGrain, [&](int64_t start, int64_t stop) {
          kernels<decltype(from)>().truncate_to_int64(a + start, b + start, stop - start);
        });
      }
    }
    with_type(static_cast<int>(type), [&](auto to) {
      auto* b = data<decltype(to)>(out);
      ranges(size, kGrain, [&](int64_t start, int64_t stop) { cast_run(a + start, b + start, stop - start); });
    });
  });
  return out.release();
}

}  // namespace shmtensor
