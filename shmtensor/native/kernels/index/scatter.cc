// Writing and adding at indices. Arrays are (outer, m, inner) around the dimension. Values with the same index are
// combined in the order of their positions. Threads work on independent parts: lines of `outer`, strips of `inner`, or
// slices of the result.
//
// With a base the result starts as a copy of it, written line by line while the line is in the cache.
//
// An index is checked where it is used: Note [Memory that others change] in indices.h. Without a base all are also checked
// before the first is used, so that `out` stays as it was if one is wrong.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/arguments.h"
#include "kernels/prepared_arguments.h"
#include "kernels/shape/memcpy.h"
#include "kernels/index/indices.h"
#include "simd/kernel_table.h"
#include "kernels/index/scatter_reduce.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kUnlock = 4096;
constexpr int64_t kSlice = 65536;  // bytes a slice copies

// The parsed arguments of a call.
struct ScatterArguments {
  PyArrayObject* out = nullptr;
  Ref source, indices, base;
  DimLayout layout;
  int64_t count = 0;  // indices along the dimension

  const int64_t* index_data() const { return data<int64_t>(indices); }
  // A new result may stay incomplete.
  bool may_be_incomplete() const { return static_cast<bool>(base); }
};

// The result of a kernel: whether it has computed `out`. Indices of an `out` in place were all valid before the first was
// used, so an invalid one was written meanwhile. Then parts of `out` are done, and the caller must not begin again.
PyObject* computed(const char* name, bool has_kernel, bool valid, bool is_in_place) {
  if (has_kernel && !valid && is_in_place)
    return raise("IndexError",
                 "%s: an index is out of range, which was in range when the call began: another process writes "
                 "to the indices",
                 name);
  return PyBool_FromLong(has_kernel && valid);
}

Prepared prepare(PyObject* const* args, PyObject* base, ScatterArguments* w, int* dim) {
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i])) return Prepared::NoKernel;
  }
  w->out = as_array(args[0]);
  PyArrayObject *source = as_array(args[1]), *index = as_array(args[2]);
  *dim = dim_or_none(args[3], PyArray_NDIM(w->out));
  const int type = PyArray_TYPE(w->out);
  if (*dim < 0 || type != PyArray_TYPE(source) || !PyArray_ISCARRAY(w->out)) return Prepared::NoKernel;
  if (base != Py_None) {
    if (!PyArray_CheckExact(base) || PyArray_TYPE(as_array(base)) != type || !PyArray_SAMESHAPE(w->out, as_array(base)))
      return Prepared::NoKernel;
    w->base = contiguous(as_array(base));
    if (!w->base) return Prepared::Error;
  }
  w->indices = int64_indices(args[2]);
  if (!w->indices) return PyErr_Occurred() ? Prepared::Error : Prepared::NoKernel;
  w->source = contiguous(source);
  if (!w->source) return Prepared::Error;
  w->layout = layout_around(w->out, *dim);
  const int nd = PyArray_NDIM(index);
  w->count = nd == 1 ? PyArray_DIM(index, 0) : nd > *dim ? PyArray_DIM(index, *dim) : 0;
  return Prepared::Ready;
}

void copy_base(const ScatterArguments& w) {
  const char* source = data<char>(w.base);
  char* to = PyArray_BYTES(w.out);
  ranges(PyArray_NBYTES(w.out), kSlice,
         [&](int64_t i, int64_t stop) { copy_run(to + i, source + i, static_cast<size_t>(stop - i)); });
}

// body(o, c0, c1) for each independent slice: each `outer` index with a strip of `inner`.
template <class F>
void for_independent_slices(const DimLayout& layout, int64_t work, F&& body) {
  const int64_t strip = layout.outer > 4 || layout.inner < 64 ? layout.inner : (layout.inner + 7) / 8;
  const int64_t strips = layout.inner ? (layout.inner + strip - 1) / strip : 0, slice_work = work * strip;
  const int64_t grain = slice_work >= kGrain ? 1 : kGrain / (slice_work ? slice_work : 1);
  ranges(layout.outer * strips, grain, [&](int64_t i, int64_t j) {
    for (; i < j; ++i) {
      const int64_t c = i % strips * strip;
      body(i / strips, c, c + strip < layout.inner ? c + strip : layout.inner);
    }
  });
}

// ---- the inner loops, compiled for each reduction and type. Each is false if an index is out of range [0, m).

// A run of elements.
template <ScatterReduce kReduce, class T>
bool reduce_run(T* to, int64_t m, const int64_t* indices, const T* source, int64_t n) {
  return for_indices(indices, n, m, [=](int64_t j, int64_t index) { reduce_element<kReduce>(to + index, source[j]); });
}

// n columns of `count` lines that are `row` elements apart.
template <ScatterReduce kReduce, class T>
bool reduce_lines(T* to, int64_t m, int64_t row, const int64_t* indices, const T* source, int64_t count, int64_t n) {
  for (int64_t j = 0; j < count; ++j, indices += row, source += row) {
    if (j + 2 < count) {
      prefetch(indices + 2 * row, n);
      prefetch(source + 2 * row, n);
    }
    if (!for_indices(indices, n, m,
                     [=](int64_t c, int64_t index) { reduce_element<kReduce>(to + index * row + c, source[c]); }))
      return false;
  }
  return true;
}

// One value at the indices of such lines, or of a run of n (row = 1).
template <class T>
bool assign_value(T* to, int64_t m, int64_t row, const int64_t* indices, const T* value, int64_t count, int64_t n) {
  const T v = *value;
  if (row == 1) return for_indices(indices, n, m, [=](int64_t, int64_t index) { to[index] = v; });
  for (int64_t j = 0; j < count; ++j, indices += row) {
    if (j + 2 < count) prefetch(indices + 2 * row, n);
    if (!for_indices(indices, n, m, [=](int64_t c, int64_t index) { to[index * row + c] = v; })) return false;
  }
  return true;
}

// Combines a run of elements with another.
template <ScatterReduce kReduce, class T>
void reduce_rows(T* __restrict to, const T* __restrict source, int64_t n) {
  if constexpr (kReduce == kMax || kReduce == kMin) {
    folds<T>().minmax_columns[kReduce == kMax ? kMaximum : kMinimum](source, to, 1, n, n);
  } else if constexpr (std::is_class_v<T>) {
    for (int64_t c = 0; c < n; ++c) {
      to[c].re += source[c].re;
      to[c].im += source[c].im;
    }
  } else {
    for (int64_t c = 0; c < n; ++c) reduce_element<kReduce>(to + c, source[c]);
  }
}

// Slices of n elements, those at indices in [first, last).
template <ScatterReduce kReduce, class T>
bool reduce_slices(T* to, int64_t m, int64_t row, const int64_t* indices, const T* source, int64_t count, int64_t first,
                   int64_t last, int64_t n) {
  const int64_t size = last - first;
  for (int64_t j = 0; j < count; ++j) {
    const int64_t index = load_once(indices + j);
    if (in_range(static_cast<int64_t>(static_cast<uint64_t>(index) - static_cast<uint64_t>(first)), size)) {
      reduce_rows<kReduce>(to + index * row, source + j * row, n);
    } else if (!in_range(index, m)) {
      return false;
    }
  }
  return true;
}

// The loops of one reduction and type. What calls them moves bytes, and is compiled once.
struct ScatterLoops {
  bool (*run)(char* to, int64_t m, const int64_t* indices, const char* source, int64_t n);
  bool (*lines)(char* to, int64_t m, int64_t row, const int64_t* indices, const char* source, int64_t count, int64_t n);
  // Null for kAssign, which alone has the next.
  bool (*slices)(char* to, int64_t m, int64_t row, const int64_t* indices, const char* source, int64_t count, int64_t first,
                 int64_t last, int64_t n);
  bool (*value)(char* to, int64_t m, int64_t row, const int64_t* indices, const char* value, int64_t count, int64_t n);
};

template <class T>
T* as(char* p) {
  return reinterpret_cast<T*>(p);
}
template <class T>
const T* as(const char* p) {
  return reinterpret_cast<const T*>(p);
}

template <ScatterReduce kReduce, class T>
constexpr ScatterLoops make_loops() {
  ScatterLoops loops{};
  loops.run = [](char* to, int64_t m, const int64_t* indices, const char* source, int64_t n) {
    return reduce_run<kReduce>(as<T>(to), m, indices, as<T>(source), n);
  };
  loops.lines = [](char* to, int64_t m, int64_t row, const int64_t* indices, const char* source, int64_t count, int64_t n) {
    return reduce_lines<kReduce>(as<T>(to), m, row, indices, as<T>(source), count, n);
  };
  if constexpr (kReduce == kAssign) {
    loops.value = [](char* to, int64_t m, int64_t row, const int64_t* indices, const char* value, int64_t count, int64_t n) {
      return assign_value(as<T>(to), m, row, indices, as<T>(value), count, n);
    };
  } else {
    loops.slices = [](char* to, int64_t m, int64_t row, const int64_t* indices, const char* source, int64_t count,
                      int64_t first, int64_t last, int64_t n) {
      return reduce_slices<kReduce>(as<T>(to), m, row, indices, as<T>(source), count, first, last, n);
    };
  }
  return loops;
}

template <ScatterReduce kReduce, class T>
constexpr ScatterLoops scatter_loops = make_loops<kReduce, T>();

// Sums and products of signed and unsigned integers have the same bits.
template <class T, bool = std::is_integral_v<T>>
struct WithoutSign {
  using type = T;
};
template <class T>
struct WithoutSign<T, true> {
  using type = std::make_unsigned_t<T>;
};

// Null: there are none.
const ScatterLoops* loops_for(ScatterReduce kind, PyArrayObject* out) {
  const ScatterLoops* loops = nullptr;
  const int type = PyArray_TYPE(out);
  switch (kind) {
    case kAssign:
      with_size(PyArray_ITEMSIZE(out), [&](auto zero) { loops = &scatter_loops<kAssign, decltype(zero)>; });
      break;
    case kAdd:
      with_sum_type(type, [&](auto zero) { loops = &scatter_loops<kAdd, typename WithoutSign<decltype(zero)>::type>; });
      break;
    case kMultiply:
      with_type(type, [&](auto zero) { loops = &scatter_loops<kMultiply, typename WithoutSign<decltype(zero)>::type>; });
      break;
    case kMax: with_type(type, [&](auto zero) { loops = &scatter_loops<kMax, decltype(zero)>; }); break;
    case kMin: with_type(type, [&](auto zero) { loops = &scatter_loops<kMin, decltype(zero)>; }); break;
  }
  return loops;
}

// Elements at indices of the same shape. False if an index is out of range.
bool scatter_elements(const ScatterArguments& w, const ScatterLoops& loops) {
  const DimLayout& layout = w.layout;
  const int64_t row = layout.inner, m = layout.m, count = w.count, size = PyArray_ITEMSIZE(w.out);
  // too few slices for the threads: copy in parallel first
  const bool base_copied = layout.outer * layout.inner < 8;
  if (w.base && base_copied) copy_base(w);
  const bool is_scalar = loops.value && PyArray_NDIM(w.source.array()) == 0;
  std::atomic<bool> valid{true};
  for_independent_slices(layout, count + m, [&](int64_t o, int64_t c0, int64_t c1) {
    char* to = data<char>(w.out) + (o * m * row + c0) * size;
    const char* base = w.base && !base_copied ? data<char>(w.base) + (o * m * row + c0) * size : nullptr;
    const char* source = data<char>(w.source) + (is_scalar ? 0 : (o * count * row + c0) * size);
    const int64_t *indices = w.index_data() + o * count * row + c0, n = c1 - c0;
    if (base && row == 1) memcpy(to, base, static_cast<size_t>(m * size));
    for (int64_t k = 0; base && row > 1 && k < m; ++k) {  // rows of a strip are far apart
      if (k + 4 < m) prefetch(base + (k + 4) * row * size, n * size);
      memcpy(to + k * row * size, base + k * row * size, static_cast<size_t>(n * size));
    }
    const bool ok =
        row == 1 ? (is_scalar ? loops.value(to, m, 1, indices, source, 1, count) : loops.run(to, m, indices, source, count))
        : is_scalar ? loops.value(to, m, row, indices, source, count, n)
                    : loops.lines(to, m, row, indices, source, count, n);
    if (!ok) valid = false;
  });
  return valid;
}

// Slices of single elements: the same indices in every line.
bool add_elements(const ScatterArguments& w, const ScatterLoops& loops) {
  const int64_t m = w.layout.m, size = PyArray_ITEMSIZE(w.out);
  std::atomic<bool> valid{true};
  for_independent_slices(w.layout, w.count + m, [&](int64_t o, int64_t, int64_t) {
    char* to = data<char>(w.out) + o * m * size;
    if (w.base) memcpy(to, data<char>(w.base) + o * m * size, static_cast<size_t>(m * size));
    if (!loops.run(to, m, w.index_data(), data<char>(w.source) + o * w.count * size, w.count)) valid = false;
  });
  return valid;
}

// Combines slices: each thread owns a part of the result and scans all indices for it.
bool add_slices(const ScatterArguments& w, const ScatterLoops& loops) {
  const DimLayout& layout = w.layout;
  std::atomic<bool> valid{true};
  const int64_t row = layout.inner, size = PyArray_ITEMSIZE(w.out), max_parts = std::min(row / 16, layout.m);
  const int64_t parts = std::max<int64_t>(1, std::min(16 / std::min<int64_t>(layout.outer, 16), max_parts));
  const int64_t strips = (row * size + kSlice - 1) / kSlice;
  const int64_t slice_work = (w.count + layout.m) * row / parts / strips + 1;
  ranges(layout.outer * parts * strips, slice_work >= kGrain ? 1 : kGrain / slice_work, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t strip = i % strips, part = i / strips % parts, o = i / strips / parts;
      const int64_t c0 = row * strip / strips, n = row * (strip + 1) / strips - c0;
      const int64_t first = layout.m * part / parts, last = layout.m * (part + 1) / parts;
      char* to = data<char>(w.out) + (o * layout.m * row + c0) * size;
      if (w.base) {
        const char* base = data<char>(w.base) + (o * layout.m * row + c0) * size;
        if (strips == 1) {
          copy_run(to + first * row * size, base + first * row * size, static_cast<size_t>((last - first) * row * size));
        }
        for (int64_t k = first; strips > 1 && k < last; ++k)
          copy_run(to + k * row * size, base + k * row * size, static_cast<size_t>(n * size));
      }
      const char* source = data<char>(w.source) + (o * w.count * row + c0) * size;
      if (!loops.slices(to, layout.m, row, w.index_data(), source, w.count, first, last, n)) {
        valid = false;
        return;
      }
    }
  });
  return valid;
}

}  // namespace

// scatter(out, source, index, dim, reduce, base=None): out is contiguous, source has index's shape or, to assign, is one
// number for all; reduce is one of ScatterReduce
PyObject* scatter(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("scatter", n, 5, 6)) return nullptr;
  const long reduction = PyLong_Check(args[4]) ? PyLong_AsLong(args[4]) : -1;
  ScatterArguments w;
  int dim;
  if (reduction < kAssign || reduction > kMin) {
    PyErr_Clear();
    return raise("RuntimeError", "scatter: unknown reduction: %ld", reduction);
  }
  const Prepared ready = prepare(args, n > 5 ? args[5] : Py_None, &w, &dim);
  if (ready == Prepared::Error) return nullptr;
  PyArrayObject* index = as_array(args[2]);
  if (ready == Prepared::NoKernel || !same_shape_except(w.out, index, dim) ||
      (!PyArray_SAMESHAPE(w.source.array(), index) && (reduction != kAssign || PyArray_NDIM(w.source.array())))) {
    Py_RETURN_FALSE;
  }
  if (!w.may_be_incomplete() && !all_in_range_parallel(w.index_data(), PyArray_SIZE(index), w.layout.m)) Py_RETURN_FALSE;
  const ScatterLoops* loops = loops_for(reduction_for(reduction, w.out), w.out);
  bool valid = true;
  if (loops) {
    Unlocked unlocked(PyArray_SIZE(index) > kUnlock);
    valid = scatter_elements(w, *loops);
  }
  return computed("scatter", loops, valid, !w.may_be_incomplete());
}

// index_add(out, source, index, dim, base=None, reduce=kAdd): out[.., index[j], ..] += source[.., j, ..], or combined by
// another reduction
PyObject* index_add(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("index_add", n, 4, 6)) return nullptr;
  ScatterArguments w;
  int dim;
  const long reduction = n > 5 ? PyLong_AsLong(args[5]) : static_cast<long>(kAdd);
  if (reduction < kAdd || reduction > kMin) {
    PyErr_Clear();
    return raise("RuntimeError", "index_add: unknown reduction: %ld", reduction);
  }
  const Prepared ready = prepare(args, n > 4 ? args[4] : Py_None, &w, &dim);
  if (ready == Prepared::Error) return nullptr;
  PyArrayObject* source = w.source.array();
  if (ready == Prepared::NoKernel || PyArray_NDIM(as_array(args[2])) != 1 || !same_shape_except(w.out, source, dim) ||
      PyArray_DIM(source, dim) != w.count) {
    Py_RETURN_FALSE;
  }
  const bool is_empty = PyArray_SIZE(w.out) == 0;
  if ((is_empty || !w.may_be_incomplete()) && !all_in_range_parallel(w.index_data(), w.count, w.layout.m)) Py_RETURN_FALSE;
  const ScatterLoops* loops = loops_for(reduction_for(reduction, w.out), w.out);
  bool valid = true;
  if (loops && !is_empty) {
    Unlocked unlocked(PyArray_SIZE(source) > kUnlock);
    valid = w.layout.inner == 1 ? add_elements(w, *loops) : add_slices(w, *loops);
  }
  return computed("index_add", loops, valid, !w.may_be_incomplete());
}

// add_at(out, indices, values): vectors; out[indices[i]] += values[i], one after the other
PyObject* add_at(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("add_at", n, 3)) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (!PyArray_CheckExact(args[i]) || PyArray_NDIM(as_array(args[i])) != 1) Py_RETURN_FALSE;
  }
  PyArrayObject *out = as_array(args[0]), *values = as_array(args[2]);
  const int type = PyArray_TYPE(out);
  const int64_t count = PyArray_SIZE(values), size = PyArray_SIZE(out);
  if (type != PyArray_TYPE(values) || !PyArray_ISCARRAY(out) || PyArray_SIZE(as_array(args[1])) != count) {
    Py_RETURN_FALSE;
  }
  Ref indices(int64_indices(args[1])), source(contiguous(values));
  if (!indices || !source) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  const auto* index_data = data<int64_t>(indices);
  if (!all_in_range_parallel(index_data, count, size)) Py_RETURN_FALSE;
  const ScatterLoops* loops = loops_for(reduction_for(kAdd, out), out);
  bool valid = true;
  if (loops) {
    Unlocked unlocked(count > kUnlock);
    valid = loops->run(data<char>(out), size, index_data, data<char>(source), count);
  }
  return computed("add_at", loops, valid, true);
}

}  // namespace shmtensor
