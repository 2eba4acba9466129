// Each of these answers None where the arrays are not plain (float32 or float64 of one shape, in C
// order; for casts any real numbers): the caller's plain form does those.
#include "kernels/pointwise/clamp_addcmul_lerp_cast.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/arguments.h"
#include "half/half.h"
#include "simd/kernel_table.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;  // elements per slice
constexpr int64_t kUnlock = 8192;

bool is_float(PyArrayObject* a) {
  const int type = PyArray_TYPE(a);
  return (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_ISCARRAY_RO(a);
}

// The arrays are of one shape and dtype.
bool alike(PyObject* const* arrays, int n) {
  for (int i = 0; i < n; ++i) {
    if (!PyArray_CheckExact(arrays[i])) return false;
  }
  PyArrayObject* lead = as_array(arrays[0]);
  if (!is_float(lead)) return false;
  for (int i = 1; i < n; ++i) {
    PyArrayObject* a = as_array(arrays[i]);
    if (PyArray_TYPE(a) != PyArray_TYPE(lead) || !is_float(a) || !PyArray_SAMESHAPE(a, lead))
      return false;
  }
  return true;
}

// A Python number as a double; false: leave it to the caller.
bool number(PyObject* p, double* out) {
  if (!PyFloat_CheckExact(p) && !PyLong_CheckExact(p)) return false;
  *out = PyFloat_AsDouble(p);
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// May the results be written there? It is one of the n arrays, or apart from them all.
bool takes(PyObject* out, PyObject* const* arrays, int n) {
  PyObject* const both[2] = {arrays[0], out};
  if (!alike(both, 2) || !PyArray_ISWRITEABLE(as_array(out))) return false;
  for (int i = 0; i < n; ++i) {
    const bool same = PyArray_DATA(as_array(arrays[i])) == PyArray_DATA(as_array(out));
    if (!same && overlap(as_array(arrays[i]), as_array(out))) return false;
  }
  return true;
}

// body(out, start, count) in pieces, over n arrays that are alike; returns `target`, or if that is
// null or None a new array. None: the results cannot be written there.
template <class F>
PyObject* run(PyObject* const* arrays, int arrays_n, PyObject* target, F&& body) {
  PyArrayObject* x = as_array(arrays[0]);
  const bool given = target && target != Py_None;
  if (given && !takes(target, arrays, arrays_n)) Py_RETURN_NONE;
  if (given) Py_INCREF(target);
  Ref out(given ? target : fresh(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
  if (!out) return nullptr;
  const int64_t n = PyArray_SIZE(x);
  const auto go = [&](auto zero) {
    Unlocked unlocked(n > kUnlock);
    auto* to = data<decltype(zero)>(out);
    ranges(n, kGrain, [&](int64_t start, int64_t stop) { body(to, start, stop - start); });
  };
  PyArray_TYPE(x) == NPY_FLOAT ? go(float()) : go(double());
  return out.release();
}

// A bound of whole numbers; false: it is none, or beyond the type.
template <class T>
bool bound_of(PyObject* p, T otherwise, T* out) {
  *out = otherwise;
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

// clamp of whole numbers
PyObject* clamp_whole(PyArrayObject* x, PyObject* low, PyObject* high, PyObject* target) {
  const bool given = target && target != Py_None;
  if (given) {
    if (!PyArray_CheckExact(target)) Py_RETURN_NONE;
    PyArrayObject* out = as_array(target);
    if (PyArray_TYPE(out) != PyArray_TYPE(x) || !PyArray_ISCARRAY(out) || !PyArray_SAMESHAPE(out, x) ||
        (PyArray_DATA(out) != PyArray_DATA(x) && overlap(out, x)))
      Py_RETURN_NONE;
    Py_INCREF(target);
  }
  Ref out(given ? target : fresh(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x)));
  if (!out) return nullptr;
  bool done = false;
  with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    T least, most;
    if (!bound_of<T>(low, std::numeric_limits<T>::lowest(), &least) ||
        !bound_of<T>(high, std::numeric_limits<T>::max(), &most))
      return;
    const T* from = data<T>(x);
    T* to = data<T>(out);
    const int64_t n = PyArray_SIZE(x);
    Unlocked unlocked(n > kUnlock);
    ranges(n, 65536 / static_cast<int64_t>(sizeof(T)), [&](int64_t start, int64_t stop) {
      folds<T>().bound(from + start, to + start, stop - start, least, most);
    });
    done = true;
  });
  if (!done) Py_RETURN_NONE;
  return out.release();
}

// Functions of their own: what a lambda captures may alias what is written, and nothing would become
// vector code.
template <class A, class B>
void convert(const A* __restrict a, B* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) b[i] = static_cast<B>(a[i]);
}

template <class A>
void differ(const A* __restrict a, uint8_t* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) b[i] = a[i] != 0;
}

template <class T>
const T* at(PyObject* a, int64_t start, T*) {
  return data<T>(as_array(a)) + start;
}

}  // namespace

namespace {

// The kernel of 16-bit floats in C order, into `target` or a new array; None: they are not so.
PyObject* run_halves(int which, PyArrayObject* x, PyObject* target, const float* p) {
  const int type = PyArray_TYPE(x);
  if (!PyArray_ISCARRAY_RO(x)) Py_RETURN_NONE;
  const bool given = target && target != Py_None;
  if (given) {
    if (!PyArray_CheckExact(target)) Py_RETURN_NONE;
    PyArrayObject* out = as_array(target);
    if (PyArray_TYPE(out) != type || !PyArray_ISCARRAY(out) || !PyArray_SAMESHAPE(out, x) ||
        (PyArray_DATA(out) != PyArray_DATA(x) && overlap(out, x)))
      Py_RETURN_NONE;
    Py_INCREF(target);
  }
  Ref out(given ? target : fresh(PyArray_NDIM(x), PyArray_DIMS(x), type));
  if (!out) return nullptr;
  const auto f = kernels_of_halves().arithmetic[type != NPY_HALF].unary[which];
  const auto* from = data<uint16_t>(x);
  auto* to = data<uint16_t>(out);
  const int64_t n = PyArray_SIZE(x);
  Unlocked unlocked(n > kUnlock);
  ranges(n, 4 * kGrain,
         [&](int64_t start, int64_t stop) { f(from + start, to + start, stop - start, p); });
  return out.release();
}

}  // namespace

// clamp(x, low, high, out=None): numbers, or None for no bound
PyObject* clamp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("clamp", n, 3, 4) < 0) return nullptr;
  if (PyArray_CheckExact(args[0]) && PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(args[0]))) &&
      PyArray_ISCARRAY_RO(as_array(args[0])))
    return clamp_whole(as_array(args[0]), args[1], args[2], n > 3 ? args[3] : nullptr);
  double low = -HUGE_VAL, high = HUGE_VAL;
  const bool half = is_half_array(args[0]);
  if ((!half && !alike(args, 1)) || (args[1] != Py_None && !number(args[1], &low)) ||
      (args[2] != Py_None && !number(args[2], &high)) || low != low || high != high)
    Py_RETURN_NONE;
  if (half) {
    const float bounds[3] = {static_cast<float>(low), static_cast<float>(high), 0};
    return run_halves(kHardTanh, as_array(args[0]), n > 3 ? args[3] : nullptr, bounds);
  }
  return run(args, 1, n > 3 ? args[3] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().clamp(at(args[0], start, out), out + start, count, static_cast<T>(low),
                       static_cast<T>(high));
  });
}

// nan_to_num(x, nan, posinf, neginf, out=None): numbers in place of NaN and the infinities
PyObject* nan_to_num(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("nan_to_num", n, 4, 5) < 0) return nullptr;
  double p[3];
  const bool half = is_half_array(args[0]);
  if ((!half && !alike(args, 1)) || !number(args[1], p) || !number(args[2], p + 1) || !number(args[3], p + 2))
    Py_RETURN_NONE;
  if (half) {
    const float q[3] = {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])};
    return run_halves(kNumbers, as_array(args[0]), n > 4 ? args[4] : nullptr, q);
  }
  return run(args, 1, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    const T q[3] = {static_cast<T>(p[0]), static_cast<T>(p[1]), static_cast<T>(p[2])};
    kernels<T>().curves[kNumbers](at(args[0], start, out), out + start, count, q);
  });
}

// addcmul(x, a, b, value, out=None): x + value * a * b
PyObject* addcmul(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("addcmul", n, 4, 5) < 0) return nullptr;
  double value;
  if (!alike(args, 3) || !number(args[3], &value)) Py_RETURN_NONE;
  return run(args, 3, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().addcmul(at(args[0], start, out), at(args[1], start, out), at(args[2], start, out),
                         out + start, count, static_cast<T>(value));
  });
}

// addcdiv(x, a, b, value, out=None): x + value * a / b
PyObject* addcdiv(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("addcdiv", n, 4, 5) < 0) return nullptr;
  double value;
  if (!alike(args, 3) || !number(args[3], &value)) Py_RETURN_NONE;
  return run(args, 3, n > 4 ? args[4] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().addcdiv(at(args[0], start, out), at(args[1], start, out), at(args[2], start, out),
                         out + start, count, static_cast<T>(value));
  });
}

// add_alpha(x, y, value, out=None): x + value * y
PyObject* add_alpha(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("add_alpha", n, 3, 4) < 0) return nullptr;
  double value;
  if (!alike(args, 2) || !number(args[2], &value)) Py_RETURN_NONE;
  return run(args, 2, n > 3 ? args[3] : nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().add_scaled(at(args[0], start, out), at(args[1], start, out), out + start, count,
                            static_cast<T>(value));
  });
}

// cube(x): x * x * x
PyObject* cube(PyObject*, PyObject* x) {
  if (!alike(&x, 1)) Py_RETURN_NONE;
  return run(&x, 1, nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().cube(at(x, start, out), out + start, count);
  });
}

// masked_scale(x, mask, scale): x * scale where the mask holds, else 0
PyObject* masked_scale(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("masked_scale", n, 3, 3) < 0) return nullptr;
  double scale;
  if (!alike(args, 1) || !PyArray_CheckExact(args[1]) || !number(args[2], &scale)) Py_RETURN_NONE;
  PyArrayObject* mask = as_array(args[1]);
  if (PyArray_TYPE(mask) != NPY_BOOL || !PyArray_ISCARRAY_RO(mask) ||
      !PyArray_SAMESHAPE(mask, as_array(args[0])))
    Py_RETURN_NONE;
  return run(args, 1, nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().keep(at(args[0], start, out), data<uint8_t>(mask) + start, out + start, count,
                      static_cast<T>(scale));
  });
}

// lerp(x, end, weight, out=None): x + weight * (end - x), by one weight or one for each element
PyObject* lerp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("lerp", n, 3, 4) < 0) return nullptr;
  PyObject* target = n > 3 ? args[3] : nullptr;
  double weight = 0;
  if (number(args[2], &weight)) {
    if (!alike(args, 2)) Py_RETURN_NONE;
    return run(args, 2, target, [&](auto* out, int64_t start, int64_t count) {
      using T = std::remove_pointer_t<decltype(out)>;
      kernels<T>().lerp(at(args[0], start, out), at(args[1], start, out), out + start, count,
                        static_cast<T>(weight));
    });
  }
  if (!alike(args, 3)) Py_RETURN_NONE;
  return run(args, 3, target, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().lerp_each(at(args[0], start, out), at(args[1], start, out),
                           at(args[2], start, out), out + start, count);
  });
}

// rsqrt(x)
PyObject* rsqrt(PyObject*, PyObject* x) {
  const float none[3] = {};
  if (is_half_array(x)) return run_halves(kHalfInverseRoot, as_array(x), nullptr, none);
  if (!alike(&x, 1)) Py_RETURN_NONE;
  return run(&x, 1, nullptr, [&](auto* out, int64_t start, int64_t count) {
    using T = std::remove_pointer_t<decltype(out)>;
    kernels<T>().rsqrt(at(x, start, out), out + start, count);
  });
}

namespace {

// A 16-bit float to another number or back, by way of float32, tile by tile; None as in `cast`.
PyObject* cast_halves(PyArrayObject* x, int type) {
  constexpr int64_t kTile = 2048;
  const bool widens = is_half(PyArray_TYPE(x));
  const int other = widens ? type : PyArray_TYPE(x), format = (widens ? PyArray_TYPE(x) : type) != NPY_HALF;
  if (other > NPY_DOUBLE || other == NPY_BOOL || (widens && PyTypeNum_ISUNSIGNED(other))) Py_RETURN_NONE;
  Ref in = in_order(x);
  Ref out(in ? fresh(PyArray_NDIM(x), PyArray_DIMS(x), type) : nullptr);
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Unlocked unlocked(size > kUnlock);
  with_type(other, [&](auto zero) {
    using T = decltype(zero);
    ranges(size, 2 * kGrain, [&](int64_t start, int64_t stop) {
      float tile[kTile];
      for (; start < stop; start += kTile) {
        const int64_t n = stop - start < kTile ? stop - start : kTile;
        if (widens) {
          kernels_of_halves().widen[format](data<uint16_t>(in) + start, tile, n);
          if constexpr (std::is_same_v<T, int64_t>) {
            kernels<float>().cut_off(tile, data<T>(out) + start, n);
          } else {
            convert(tile, data<T>(out) + start, n);
          }
        } else {
          convert(data<T>(in) + start, tile, n);
          kernels_of_halves().narrow[format](tile, data<uint16_t>(out) + start, n);
        }
      }
    });
  });
  return out.release();
}

}  // namespace

// cast(x, number of NumPy's type): real numbers alone
PyObject* cast(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("cast", n, 2, 2) < 0) return nullptr;
  PyArrayObject* x = array_argument("cast", "input", args[0]);
  const long type = x ? PyLong_AsLong(args[1]) : -1;
  if (!x || (type == -1 && PyErr_Occurred())) return nullptr;
  if (is_half_array(args[0]) != is_half(static_cast<int>(type))) return cast_halves(x, static_cast<int>(type));
  if (type < 0 || type > NPY_DOUBLE || PyArray_TYPE(x) > NPY_DOUBLE || !PyArray_CheckExact(args[0]))
    Py_RETURN_NONE;
  // What a negative number becomes in unsigned ones is the compiler's choice: leave it to NumPy.
  if (PyTypeNum_ISFLOAT(PyArray_TYPE(x)) && PyTypeNum_ISUNSIGNED(static_cast<int>(type)) &&
      type != NPY_BOOL)
    Py_RETURN_NONE;
  Ref in = in_order(x);
  Ref out(in ? fresh(PyArray_NDIM(x), PyArray_DIMS(x), static_cast<int>(type)) : nullptr);
  if (!out) return nullptr;
  const int64_t size = PyArray_SIZE(x);
  Unlocked unlocked(size > kUnlock);
  with_type(PyArray_TYPE(x), [&](auto from) {
    const auto* a = data<decltype(from)>(in);
    if (type == NPY_BOOL) {
      auto* b = data<uint8_t>(out);
      return ranges(size, kGrain, [&](int64_t start, int64_t stop) {
        differ(a + start, b + start, stop - start);
      });
    }
    if constexpr (std::is_floating_point_v<decltype(from)>) {
      if (type == NPY_INT64) {
        auto* b = data<int64_t>(out);
        return ranges(size, kGrain, [&](int64_t start, int64_t stop) {
          kernels<decltype(from)>().cut_off(a + start, b + start, stop - start);
        });
      }
    }
    with_type(static_cast<int>(type), [&](auto to) {
      auto* b = data<decltype(to)>(out);
      ranges(size, kGrain, [&](int64_t start, int64_t stop) {
        convert(a + start, b + start, stop - start);
      });
    });
  });
  return out.release();
}

}  // namespace shmtensor
