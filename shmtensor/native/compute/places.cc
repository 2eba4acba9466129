// Arrays are (outer, m, inner) around the dimension. Elements that meet at one place have the same
// `outer` and `inner`: threads share those out, and so add in the order of the indices.
#include "places.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "array.h"
#include "pool.h"
#include "types.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kUnlock = 4096;

struct Around {
  int64_t outer = 1, m = 1, inner = 1;
};

Around around(PyArrayObject* x, int dim) {
  Around a;
  for (int i = 0; i < PyArray_NDIM(x); ++i)
    (i < dim ? a.outer : i > dim ? a.inner : a.m) *= PyArray_DIM(x, i);
  return a;
}

// An index array as int64 in order; nullptr without an exception: another dtype.
Ref indices(PyObject* p) {
  if (!PyArray_CheckExact(p)) return Ref();
  const int type = PyArray_TYPE(as_array(p));
  if (type != NPY_LONG && type != NPY_LONGLONG && type != NPY_INT) return Ref();
  return contiguous_as(as_array(p), NPY_INT64);
}

bool all_inside(const int64_t* at, int64_t n, int64_t size) {
  uint64_t signs = 0;  // unsigned: a difference may wrap round, for an index that is outside anyway
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  for (int64_t i = 0; i < n; ++i)
    signs |= static_cast<uint64_t>(at[i]) | (last - static_cast<uint64_t>(at[i]));
  return !(signs >> 63);
}

// The same, by all threads.
bool inside(const int64_t* at, int64_t n, int64_t size) {
  std::atomic<bool> all{true};
  ranges(n, 4 * kGrain, [&](int64_t i, int64_t stop) {
    if (!all_inside(at + i, stop - i, size)) all = false;
  });
  return all;
}

// -1: not there; no exception is left.
int dim_or_none(PyObject* p, int nd) {
  const long d = PyLong_CheckExact(p) ? PyLong_AsLong(p) : -nd - 1;
  PyErr_Clear();
  if (nd == 0 || d < -nd || d >= nd) return -1;
  return static_cast<int>(d < 0 ? d + nd : d);
}

bool same_but(PyArrayObject* a, PyArrayObject* b, int dim) {
  if (PyArray_NDIM(a) != PyArray_NDIM(b)) return false;
  for (int i = 0; i < PyArray_NDIM(a); ++i) {
    if (i != dim && PyArray_DIM(a, i) != PyArray_DIM(b, i)) return false;
  }
  return true;
}

// body(begin, end) over parts of `grain` of what a thread got.
template <class F>
void in_parts(int64_t n, int64_t grain, F&& body) {
  ranges(n, grain, [&](int64_t i, int64_t stop) {
    for (; i < stop; i += grain) body(i, i + grain < stop ? i + grain : stop);
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

}  // namespace

// gather(x, index, dim)
PyObject* gather(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("gather", n, 3, 3) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *index = as_array(args[1]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || !same_but(x, index, dim) || PyArray_TYPE(x) == NPY_OBJECT) Py_RETURN_NONE;
  Ref at(indices(args[1]));
  if (!at) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref from(contiguous(x));
  if (!from) return nullptr;
  const Around a = around(x, dim);
  const int64_t count = PyArray_DIM(index, dim), total = PyArray_SIZE(index);
  const auto* places = data<int64_t>(at);
  Ref out(fresh(PyArray_NDIM(index), PyArray_DIMS(index), PyArray_TYPE(x)));
  if (!out) return nullptr;
  bool done;
  std::atomic<bool> valid{true};
  {
    Unlocked unlocked(total > kUnlock);
    done = with_size(PyArray_ITEMSIZE(x), [&](auto zero) {
      using T = decltype(zero);
      const T* source = data<T>(from);
      T* to = data<T>(out);
      if (total == 0) return;
      const int64_t rows = a.outer * count, grain = a.inner >= kGrain ? 1 : kGrain / a.inner;
      // A part's indices are looked at just before they are used: they come from memory once.
      in_parts(rows, grain, [&](int64_t i, int64_t stop) {
        if (!all_inside(places + i * a.inner, (stop - i) * a.inner, a.m)) {
          valid = false;
          return;
        }
        while (a.inner == 1 && i < stop) {  // one element a row: a division for a whole line of them
          const int64_t line = i / count;
          const int64_t end = (line + 1) * count < stop ? (line + 1) * count : stop;
          const T* base = source + line * a.m;
          for (; i < end; ++i) to[i] = base[places[i]];
        }
        for (; i < stop; ++i) {
          const T* base = source + i / count * a.m * a.inner;
          const int64_t* p = places + i * a.inner;
          T* row = to + i * a.inner;
          for (int64_t c = 0; c < a.inner; ++c) row[c] = base[p[c] * a.inner + c];
        }
      });
    });
  }
  if (!done || !valid) Py_RETURN_NONE;
  return out.release();
}

// take(x, index, dim): the slices at a vector of indices
PyObject* take(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("take", n, 3, 3) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject* x = as_array(args[0]);
  const int dim = dim_or_none(args[2], PyArray_NDIM(x));
  if (dim < 0 || PyArray_NDIM(as_array(args[1])) != 1) Py_RETURN_NONE;
  if (PyArray_TYPE(x) >= NPY_OBJECT && PyArray_TYPE(x) != NPY_HALF) Py_RETURN_NONE;
  Ref at(indices(args[1]));
  if (!at) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  const Around a = around(x, dim);
  const int64_t count = PyArray_SIZE(at.array());
  const auto* places = data<int64_t>(at);
  if (!inside(places, count, a.m)) Py_RETURN_NONE;
  Ref from(contiguous(x));
  if (!from) return nullptr;
  npy_intp dims[NPY_MAXDIMS];
  memcpy(dims, PyArray_DIMS(x), sizeof(npy_intp) * static_cast<size_t>(PyArray_NDIM(x)));
  dims[dim] = count;
  Ref out(fresh(PyArray_NDIM(x), dims, PyArray_TYPE(x)));
  if (!out) return nullptr;
  const int64_t width = a.inner * PyArray_ITEMSIZE(x), total = a.outer * count * width;
  if (total == 0) return out.release();
  const char* source = data<char>(from);
  char* to = data<char>(out);
  Unlocked unlocked(total > 4 * kUnlock);
  const auto copy = [&](auto&& one) {
    const int64_t grain = width >= 4 * kGrain ? 1 : 4 * kGrain / width;
    ranges(a.outer * count, grain, [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        one(to + i * width, source + (i / count * a.m + places[i % count]) * width);
      }
    });
  };
  if (width == 4) {  // fixed sizes become single moves
    copy([](char* t, const char* s) { memcpy(t, s, 4); });
  } else if (width == 8) {
    copy([](char* t, const char* s) { memcpy(t, s, 8); });
  } else {
    copy([&](char* t, const char* s) { memcpy(t, s, static_cast<size_t>(width)); });
  }
  return out.release();
}

// scatter_into(out, source, index, dim, add): out is in order, source has index's shape
PyObject* scatter_into(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("scatter", n, 5, 5) < 0) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i])) Py_RETURN_FALSE;
  }
  PyArrayObject *out = as_array(args[0]), *source = as_array(args[1]), *index = as_array(args[2]);
  const int dim = dim_or_none(args[3], PyArray_NDIM(out)), add = PyObject_IsTrue(args[4]);
  if (add < 0) return nullptr;
  const int type = PyArray_TYPE(out);
  if (dim < 0 || type != PyArray_TYPE(source) || !PyArray_ISCARRAY(out) ||
      !same_but(out, index, dim) || !PyArray_SAMESHAPE(source, index) ||
      (add && type == NPY_BOOL)) {
    Py_RETURN_FALSE;
  }
  Ref at(indices(args[2])), from(contiguous(source));
  if (!at || !from) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  const Around a = around(out, dim);
  const int64_t count = PyArray_DIM(index, dim), total = PyArray_SIZE(index);
  const auto* places = data<int64_t>(at);
  if (!inside(places, total, a.m)) Py_RETURN_FALSE;
  const auto put = [&](auto zero, auto&& one) {
    using T = decltype(zero);
    apart(a, count, [&](int64_t o, int64_t c0, int64_t c1) {
      T* to = data<T>(out) + o * a.m * a.inner;
      if (a.inner == 1) {
        const int64_t* p = places + o * count;
        const T* s = data<T>(from) + o * count;
        for (int64_t j = 0; j < count; ++j) one(to[p[j]], s[j]);
        return;
      }
      for (int64_t j = 0; j < count; ++j) {
        const int64_t row = (o * count + j) * a.inner;
        const int64_t* p = places + row;
        const T* s = data<T>(from) + row;
        for (int64_t c = c0; c < c1; ++c) one(to[p[c] * a.inner + c], s[c]);
      }
    });
  };
  bool done;
  {
    Unlocked unlocked(total > kUnlock);
    if (add) {
      done = with_type(type, [&](auto zero) {
        put(zero, [](auto& t, auto s) { t = static_cast<decltype(s)>(t + s); });
      });
    } else {
      done = with_size(PyArray_ITEMSIZE(out), [&](auto zero) {
        put(zero, [](auto& t, auto s) { t = s; });
      });
    }
  }
  return PyBool_FromLong(done);
}

// add_slices(out, source, index, dim): out[.., index[j], ..] += source[.., j, ..]
PyObject* add_slices(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("add_slices", n, 4, 4) < 0) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i])) Py_RETURN_FALSE;
  }
  PyArrayObject *out = as_array(args[0]), *source = as_array(args[1]), *index = as_array(args[2]);
  const int dim = dim_or_none(args[3], PyArray_NDIM(out)), type = PyArray_TYPE(out);
  if (dim < 0 || type != PyArray_TYPE(source) || type == NPY_BOOL || !PyArray_ISCARRAY(out) ||
      PyArray_NDIM(index) != 1 || !same_but(out, source, dim) ||
      PyArray_DIM(source, dim) != PyArray_DIM(index, 0)) {
    Py_RETURN_FALSE;
  }
  Ref at(indices(args[2])), from(contiguous(source));
  if (!at || !from) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  const Around a = around(out, dim);
  const int64_t count = PyArray_DIM(index, 0);
  const auto* places = data<int64_t>(at);
  if (!inside(places, count, a.m)) Py_RETURN_FALSE;
  bool done;
  {
    Unlocked unlocked(PyArray_SIZE(source) > kUnlock);
    done = with_type(type, [&](auto zero) {
      using T = decltype(zero);
      apart(a, count, [&](int64_t o, int64_t c0, int64_t c1) {
        for (int64_t j = 0; j < count; ++j) {
          T* __restrict to = data<T>(out) + (o * a.m + places[j]) * a.inner;
          const T* s = data<T>(from) + (o * count + j) * a.inner;
          for (int64_t c = c0; c < c1; ++c) to[c] = static_cast<T>(to[c] + s[c]);
        }
      });
    });
  }
  return PyBool_FromLong(done);
}

// add_at(out, places, values): vectors; out[places[i]] += values[i], one after the other
PyObject* add_at(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("add_at", n, 3, 3) < 0) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i]) || PyArray_NDIM(as_array(args[i])) != 1) Py_RETURN_FALSE;
  }
  PyArrayObject *out = as_array(args[0]), *values = as_array(args[2]);
  const int type = PyArray_TYPE(out);
  const int64_t count = PyArray_SIZE(values), size = PyArray_SIZE(out);
  if (type != PyArray_TYPE(values) || type == NPY_BOOL || !PyArray_ISCARRAY(out) ||
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
    done = with_type(type, [&](auto zero) {
      using T = decltype(zero);
      T* to = data<T>(out);
      const T* s = data<T>(from);
      for (int64_t i = 0; i < count; ++i) to[places[i]] = static_cast<T>(to[places[i]] + s[i]);
    });
  }
  return PyBool_FromLong(done);
}

}  // namespace shmtensor
