// Writing and adding at indices. Arrays are (outer, m, inner) around the dimension. Elements that
// meet at one place are met in the order of their indices: threads share out what cannot meet, lines
// of `outer`, strips of `inner`, or slices of the result.
//
// With a base the result begins as a copy of it, made line by line while the line is in the cache.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "kernels/index/scatter_reduce.h"
#include "kernels/shape/contiguous.h"
#include "kernels/index/scatter.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kUnlock = 4096;
constexpr int64_t kSlice = 65536;  // bytes a slice copies

// What a call works on.
struct Writing {
  PyArrayObject* out = nullptr;
  Ref from, at, base;
  Around a;
  int64_t count = 0;  // indices along the dimension

  const int64_t* places() const { return data<int64_t>(at); }
  bool can_fail() const { return static_cast<bool>(base); }  // a result nobody has seen yet
};

// 1: ready; 0: not the simple case; -1: exception.
int prepare(PyObject* const* args, PyObject* base, Writing* w, int* dim) {
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i])) return 0;
  }
  w->out = as_array(args[0]);
  PyArrayObject *source = as_array(args[1]), *index = as_array(args[2]);
  *dim = dim_or_none(args[3], PyArray_NDIM(w->out));
  const int type = PyArray_TYPE(w->out);
  if (*dim < 0 || type != PyArray_TYPE(source) || !PyArray_ISCARRAY(w->out)) return 0;
  if (base != Py_None) {
    if (!PyArray_CheckExact(base) || PyArray_TYPE(as_array(base)) != type ||
        !PyArray_SAMESHAPE(w->out, as_array(base)))
      return 0;
    w->base = in_order(as_array(base));
    if (!w->base) return -1;
  }
  w->at = indices(args[2]);
  if (!w->at) return PyErr_Occurred() ? -1 : 0;
  w->from = in_order(source);
  if (!w->from) return -1;
  w->a = around(w->out, *dim);
  const int nd = PyArray_NDIM(index);
  w->count = nd == 1 ? PyArray_DIM(index, 0) : nd > *dim ? PyArray_DIM(index, *dim) : 0;
  return 1;
}

void copy_all(const Writing& w) {
  const char* from = data<char>(w.base);
  char* to = PyArray_BYTES(w.out);
  ranges(PyArray_NBYTES(w.out), kSlice, [&](int64_t i, int64_t stop) {
    copy_run(to + i, from + i, static_cast<size_t>(stop - i));
  });
}

// body(o, c0, c1) over what no two threads may share: outer times strips of inner.
template <class F>
void apart(const Around& a, int64_t work, F&& body) {
  const int64_t strip = a.outer > 4 || a.inner < 64 ? a.inner : (a.inner + 7) / 8;
  const int64_t strips = a.inner ? (a.inner + strip - 1) / strip : 0, each = work * strip;
  const int64_t grain = each >= kGrain ? 1 : kGrain / (each ? each : 1);
  ranges(a.outer * strips, grain, [&](int64_t i, int64_t j) {
    for (; i < j; ++i) {
      const int64_t c = i % strips * strip;
      body(i / strips, c, c + strip < a.inner ? c + strip : a.inner);
    }
  });
}

template <How kHow, class T>
void put(T* to, const int64_t* at, const T* from, int64_t n) {
  for (int64_t j = 0; j < n; ++j) join<kHow>(to + at[j], from[j]);
}

template <How kHow, class T>
void put_columns(T* to, int64_t row, const int64_t* at, const T* from, int64_t n) {
  for (int64_t c = 0; c < n; ++c) join<kHow>(to + at[c] * row + c, from[c]);
}

// One value at all places.
template <class T>
void put_value(T* to, int64_t row, const int64_t* at, T v, int64_t n) {
  if (row == 1) {
    for (int64_t j = 0; j < n; ++j) to[at[j]] = v;
  } else {
    for (int64_t c = 0; c < n; ++c) to[at[c] * row + c] = v;
  }
}

// A run of elements joined to another.
template <How kHow, class T>
void join_rows(T* __restrict to, const T* __restrict from, int64_t n) {
  if constexpr (kHow == kLargest || kHow == kSmallest) {
    folds<T>().extreme_columns[kHow == kLargest](from, to, 1, n, n);
  } else if constexpr (std::is_class_v<T>) {
    for (int64_t c = 0; c < n; ++c) {
      to[c].re += from[c].re;
      to[c].im += from[c].im;
    }
  } else {
    for (int64_t c = 0; c < n; ++c) join<kHow>(to + c, from[c]);
  }
}

// Elements at indices of the same shape. False: an index is outside.
template <How kHow, class T>
bool put_all(const Writing& w) {
  const Around& a = w.a;
  const int64_t row = a.inner, m = a.m, count = w.count;
  const bool whole = a.outer * a.inner < 8;  // hardly anything to share out but copies and looks
  if (w.base && whole) copy_all(w);
  if ((!w.can_fail() || whole) && !inside(w.places(), a.outer * count * row, m)) return false;
  const bool look = w.can_fail() && !whole;
  const bool one = kHow == kPut && PyArray_NDIM(w.from.array()) == 0;
  const T value = one ? data<T>(w.from)[0] : T();
  std::atomic<bool> valid{true};
  apart(a, count + m, [&](int64_t o, int64_t c0, int64_t c1) {
    T* to = data<T>(w.out) + o * m * row;
    const T* base = w.base && !whole ? data<T>(w.base) + o * m * row : nullptr;
    const T* from = data<T>(w.from) + (one ? 0 : o * count * row);
    const int64_t *at = w.places() + o * count * row, n = c1 - c0;
    if (row == 1) {
      if (base) memcpy(to, base, sizeof(T) * static_cast<size_t>(m));
      for (int64_t j = 0; j < count; j += kChunk) {
        const int64_t some = std::min(kChunk, count - j);
        if (look && !all_inside(at + j, some, m)) {
          valid = false;
          return;
        }
        one ? put_value(to, 1, at + j, value, some) : put<kHow>(to, at + j, from + j, some);
      }
      return;
    }
    for (int64_t k = 0; base && k < m; ++k) {  // rows of a strip lie far apart
      if (k + 4 < m) foresee(base + (k + 4) * row + c0, n);
      memcpy(to + k * row + c0, base + k * row + c0, sizeof(T) * static_cast<size_t>(n));
    }
    for (int64_t j = 0; j < count; ++j) {
      const int64_t here = j * row + c0;
      if (j + 2 < count) {
        foresee(at + here + 2 * row, n);
        if (!one) foresee(from + here + 2 * row, n);
      }
      if (look && !all_inside(at + here, n, m)) {
        valid = false;
        return;
      }
      one ? put_value(to + c0, row, at + here, value, n) : put_columns<kHow>(to + c0, row, at + here, from + here, n);
    }
  });
  return valid;
}

// Slices of single elements: the same places in every line.
template <How kHow, class T>
void join_elements(const Writing& w) {
  const Around& a = w.a;
  apart(a, w.count + a.m, [&](int64_t o, int64_t, int64_t) {
    T* to = data<T>(w.out) + o * a.m;
    if (w.base) memcpy(to, data<T>(w.base) + o * a.m, sizeof(T) * static_cast<size_t>(a.m));
    put<kHow>(to, w.places(), data<T>(w.from) + o * w.count, w.count);
  });
}

// Slices joined: who has a part of the result looks through all indices for it.
template <How kHow, class T>
void join_slices(const Writing& w) {
  const Around& a = w.a;
  const int64_t row = a.inner, most = std::min(row / 16, a.m);
  const int64_t parts = std::max<int64_t>(1, std::min(16 / std::min<int64_t>(a.outer, 16), most));
  const int64_t strips = (row * static_cast<int64_t>(sizeof(T)) + kSlice - 1) / kSlice;
  const int64_t each = (w.count + a.m) * row / parts / strips + 1;
  ranges(a.outer * parts * strips, each >= kGrain ? 1 : kGrain / each, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t strip = i % strips, part = i / strips % parts, o = i / strips / parts;
      const int64_t c0 = row * strip / strips, n = row * (strip + 1) / strips - c0;
      const int64_t first = a.m * part / parts, last = a.m * (part + 1) / parts;
      T* to = data<T>(w.out) + o * a.m * row + c0;
      if (w.base) {
        const T* base = data<T>(w.base) + o * a.m * row + c0;
        if (strips == 1) {
          copy_run(to + first * row, base + first * row,
                   sizeof(T) * static_cast<size_t>((last - first) * row));
        }
        for (int64_t k = first; strips > 1 && k < last; ++k)
          copy_run(to + k * row, base + k * row, sizeof(T) * static_cast<size_t>(n));
      }
      const T* from = data<T>(w.from) + o * w.count * row + c0;
      for (int64_t j = 0; j < w.count; ++j) {
        const int64_t p = w.places()[j];
        if (p >= first && p < last) join_rows<kHow>(to + p * row, from + j * row, n);
      }
    }
  });
}

template <How kHow, class T>
void join_all(const Writing& w) {
  w.a.inner == 1 ? join_elements<kHow, T>(w) : join_slices<kHow, T>(w);
}

}  // namespace

// scatter(out, source, index, dim, how, base=None): out is in order, source has index's shape, or to be put is
// one number for all; how is one of How
PyObject* scatter(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("scatter", n, 5, 6) < 0) return nullptr;
  const long how = PyLong_Check(args[4]) ? PyLong_AsLong(args[4]) : -1;
  Writing w;
  int dim;
  if (how < kPut || how > kSmallest) {
    PyErr_Clear();
    return raise("RuntimeError", "scatter: no such way to join: %ld", how);
  }
  const int ready = prepare(args, n > 5 ? args[5] : Py_None, &w, &dim);
  if (ready < 0) return nullptr;
  PyArrayObject* index = as_array(args[2]);
  if (ready == 0 || !same_but(w.out, index, dim) ||
      (!PyArray_SAMESHAPE(w.from.array(), index) && (how != kPut || PyArray_NDIM(w.from.array())))) {
    Py_RETURN_FALSE;
  }
  bool valid = true, done;
  {
    Unlocked unlocked(PyArray_SIZE(index) > kUnlock);
    const How way = in_dtype(how, w.out);
    if (way == kAdd) {
      done = with_sum(PyArray_TYPE(w.out), [&](auto zero) { valid = put_all<kAdd, decltype(zero)>(w); });
    } else if (way != kPut) {
      done = with_type(PyArray_TYPE(w.out), [&](auto zero) {
        using T = decltype(zero);
        valid = way == kMultiply  ? put_all<kMultiply, T>(w)
                : way == kLargest ? put_all<kLargest, T>(w)
                                  : put_all<kSmallest, T>(w);
      });
    } else {
      done = with_size(PyArray_ITEMSIZE(w.out),
                       [&](auto zero) { valid = put_all<kPut, decltype(zero)>(w); });
    }
  }
  return PyBool_FromLong(done && valid);
}

// index_add(out, source, index, dim, base=None, how=kAdd): out[.., index[j], ..] += source[.., j, ..], or joined in
// another way
PyObject* index_add(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("index_add", n, 4, 6) < 0) return nullptr;
  Writing w;
  int dim;
  const long how = n > 5 ? PyLong_AsLong(args[5]) : static_cast<long>(kAdd);
  if (how < kAdd || how > kSmallest) {
    PyErr_Clear();
    return raise("RuntimeError", "index_add: no such way to join: %ld", how);
  }
  const int ready = prepare(args, n > 4 ? args[4] : Py_None, &w, &dim);
  if (ready < 0) return nullptr;
  PyArrayObject* source = w.from.array();
  if (ready == 0 || PyArray_NDIM(as_array(args[2])) != 1 ||
      !same_but(w.out, source, dim) || PyArray_DIM(source, dim) != w.count ||
      !inside(w.places(), w.count, w.a.m)) {
    Py_RETURN_FALSE;
  }
  bool done;
  {
    Unlocked unlocked(PyArray_SIZE(source) > kUnlock);
    const How way = in_dtype(how, w.out);
    const bool none = PyArray_SIZE(w.out) == 0;
    if (way == kAdd) {
      done = with_sum(PyArray_TYPE(w.out), [&](auto zero) {
        if (!none) join_all<kAdd, decltype(zero)>(w);
      });
    } else {
      done = with_type(PyArray_TYPE(w.out), [&](auto zero) {
        using T = decltype(zero);
        if (none) return;
        way == kMultiply ? join_all<kMultiply, T>(w) : way == kLargest ? join_all<kLargest, T>(w) : join_all<kSmallest, T>(w);
      });
    }
  }
  return PyBool_FromLong(done);
}

namespace {

}  // namespace

// add_at(out, places, values): vectors; out[places[i]] += values[i], one after the other
PyObject* add_at(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("add_at", n, 3, 3) < 0) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i]) || PyArray_NDIM(as_array(args[i])) != 1) Py_RETURN_FALSE;
  }
  PyArrayObject *out = as_array(args[0]), *values = as_array(args[2]);
  const int type = PyArray_TYPE(out);
  const int64_t count = PyArray_SIZE(values), size = PyArray_SIZE(out);
  if (type != PyArray_TYPE(values) || !PyArray_ISCARRAY(out) ||
      PyArray_SIZE(as_array(args[1])) != count) {
    Py_RETURN_FALSE;
  }
  Ref at(indices(args[1])), from(contiguous(values));
  if (!at || !from) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  const auto* places = data<int64_t>(at);
  if (!inside(places, count, size)) Py_RETURN_FALSE;
  bool done;
  {
    Unlocked unlocked(count > kUnlock);
    done = with_sum(type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, uint8_t>) {
        if (in_dtype(kAdd, out) == kLargest) return put<kLargest>(data<T>(out), places, data<T>(from), count);
      }
      put<kAdd>(data<T>(out), places, data<T>(from), count);
    });
  }
  return PyBool_FromLong(done);
}

}  // namespace shmtensor
