// Copies runs of bytes; slices depend on the shape alone.
#include <cstring>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "dispatch/views.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 16384;  // bytes
constexpr int64_t kSlice = 65536;   // bytes of a slice

// An ndarray (no subclass), aligned and in native byte order, whose elements can be copied as bytes; else nullptr.
PyArrayObject* movable_array(PyObject* p) {
  if (!PyArray_CheckExact(p)) return nullptr;
  const int type = PyArray_TYPE(as_array(p));
  return is_plain(as_array(p)) && (type < NPY_OBJECT || type == NPY_HALF) ? as_array(p) : nullptr;
}

bool parse_ssize(PyObject* p, Py_ssize_t* out) {
  if (!PyLong_CheckExact(p)) return false;
  *out = PyLong_AsSsize_t(p);
  if (*out != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

PyObject* flip(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (!takes("flip", n, 2)) return nullptr;
  Ref flipped(flip_view(self, args, n));
  if (!flipped || flipped.get() == Py_None) return flipped.release();
  PyObject* contiguous_args[1] = {flipped.get()};
  return contiguous(self, contiguous_args, 1);
}

PyObject* roll(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("roll", n, 3)) return nullptr;
  PyArrayObject* x = movable_array(args[0]);
  Py_ssize_t shift, dim = 0;
  if (!x || !PyArray_SIZE(x) || !parse_ssize(args[1], &shift)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x);
  const bool flat = args[2] == Py_None;
  if (!flat && (!parse_ssize(args[2], &dim) || dim < -nd || dim >= nd)) Py_RETURN_NONE;
  dim += dim < 0 ? nd : 0;
  Ref in = contiguous(x);
  Ref out(in ? new_array(nd, PyArray_DIMS(x), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  int64_t outer = 1, width = PyArray_ITEMSIZE(x);
  for (int i = 0; i < nd && !flat; ++i) (i < dim ? outer : width) *= i == dim ? 1 : PyArray_DIM(x, i);
  const int64_t m = flat ? PyArray_SIZE(x) : PyArray_DIM(x, static_cast<int>(dim));
  const int64_t shift_bytes = ((shift % m) + m) % m * width, wrap_offset = m * width - shift_bytes;
  const char* from = data<char>(in);
  char* to = data<char>(out);
  const int64_t row = m * width;
  Unlocked unlocked(outer * row > kUnlock);
  ranges(outer * row, kSlice, [&](int64_t at, int64_t stop) {
    while (at < stop) {
      const int64_t row_offset = at % row;
      const bool is_wrapped = row_offset < shift_bytes;  // wrapped around the end
      const int64_t remaining = (is_wrapped ? shift_bytes : row) - row_offset;
      const int64_t n = remaining < stop - at ? remaining : stop - at;
      copy_run(to + at, from + at + (is_wrapped ? wrap_offset : -shift_bytes), static_cast<size_t>(n));
      at += n;
    }
  });
  return out.release();
}

PyObject* tril_triu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("tril_triu", n, 3, 4)) return nullptr;
  PyArrayObject* x = movable_array(args[0]);
  Py_ssize_t diagonal;
  if (!x || PyArray_NDIM(x) < 2 || !PyArray_SIZE(x) || !parse_ssize(args[1], &diagonal)) Py_RETURN_NONE;
  const bool upper = args[2] == Py_True;
  const int nd = PyArray_NDIM(x);
  PyObject* out_argument = n > 3 && args[3] != Py_None ? args[3] : nullptr;
  if (out_argument) {  // x itself; only the other triangle is cleared
    if (out_argument != args[0] || !PyArray_ISCARRAY(x)) Py_RETURN_NONE;
    Py_INCREF(out_argument);
  }
  Ref in = contiguous(x);
  Ref out(!in || out_argument ? out_argument : new_array(nd, PyArray_DIMS(x), PyArray_TYPE(x)));
  if (!in || !out) return nullptr;
  const int64_t rows = PyArray_DIM(x, nd - 2), columns = PyArray_DIM(x, nd - 1);
  const int64_t size = PyArray_ITEMSIZE(x), rows_total = PyArray_SIZE(x) / columns;
  const int64_t min_diagonal = -rows, max_diagonal = columns;
  const int64_t d = diagonal < min_diagonal ? min_diagonal : diagonal > max_diagonal ? max_diagonal : diagonal;
  const char* from = data<char>(in);
  char* to = data<char>(out);
  const auto fill = memory_kernels().fill;
  const auto clear = [fill](char* p, size_t n) { fill(p, static_cast<int64_t>(n), 0); };
  Unlocked unlocked(rows_total * columns * size > kUnlock);
  ranges(rows_total, 1 + kSlice / (columns * size), [&](int64_t start, int64_t stop) {
    for (int64_t r = start; r < stop; ++r) {
      int64_t split = r % rows + d + (upper ? 0 : 1);  // columns of the lower part
      split = split < 0 ? 0 : split > columns ? columns : split;
      const int64_t at = r * columns * size;
      const size_t left_bytes = static_cast<size_t>(split * size);
      const size_t right_bytes = static_cast<size_t>((columns - split) * size);
      if (upper) {
        clear(to + at, left_bytes);
        if (!out_argument) copy_run(to + at + left_bytes, from + at + left_bytes, right_bytes);
      } else {
        if (!out_argument) copy_run(to + at, from + at, left_bytes);
        clear(to + at + left_bytes, right_bytes);
      }
    }
  });
  return out.release();
}

namespace {

// Rows of an array around a smaller one: their sizes without the last one, and where the inner array lies.
struct Frame {
  int nd = 0;
  int64_t size[NPY_MAXDIMS], start[NPY_MAXDIMS], inner[NPY_MAXDIMS];

  // Adds a dimension; one that the inner array fills becomes part of the dimension before it.
  void add(int64_t total, int64_t first, int64_t inner_size) {
    if (nd && first == 0 && inner_size == total) {
      size[nd - 1] *= total, start[nd - 1] *= total, inner[nd - 1] *= total;
    } else {
      size[nd] = total, start[nd] = first, inner[nd++] = inner_size;
    }
  }
  // f(row of the whole array, row of the inner one) for the rows from start to stop - 1 that hold elements of the inner one.
  template <class F>
  void each_row(int64_t start, int64_t stop, F f) const {
    const int64_t height = nd > 1 ? size[nd - 2] : 1, low = nd > 1 ? this->start[nd - 2] : 0;
    const int64_t rows = nd > 1 ? inner[nd - 2] : 1;
    for (int64_t row = start; row < stop;) {
      int64_t outer = row / height, plane = 0, step = 1;
      const int64_t first = outer * height, end = first + height < stop ? first + height : stop;
      for (int d = nd - 3; d >= 0; --d) {
        const int64_t i = outer % size[d] - this->start[d];
        plane = i < 0 || i >= inner[d] || plane < 0 ? -1 : plane + i * step;
        step *= inner[d], outer /= size[d];
      }
      if (plane >= 0) {
        const int64_t from = row > first + low ? row : first + low, to = end < first + low + rows ? end : first + low + rows;
        for (int64_t r = from; r < to; ++r) f(r, plane * rows + r - first - low);
      }
      row = end;
    }
  }
};

}  // namespace

// embed(x, shape, starts, value): x inside an array of one number; value is an array with one element of x's dtype.
PyObject* embed(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("embed", n, 4)) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[3])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *value = as_array(args[3]);
  const int nd = PyArray_NDIM(x), type = PyArray_TYPE(x);
  if (!is_bytes(type) || !is_plain(x) || !nd || PyArray_TYPE(value) != type || PyArray_SIZE(value) != 1 ||
      !is_plain(value) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) || PyTuple_GET_SIZE(args[1]) != nd ||
      PyTuple_GET_SIZE(args[2]) != nd)
    Py_RETURN_NONE;
  const DenseView view = dense_view(x);
  if (!view.array) return nullptr;
  npy_intp dims[NPY_MAXDIMS];
  Frame frame;
  for (int d = 0; d < nd; ++d) {
    Py_ssize_t total, first;
    const int from = view.axis(d);
    if (!parse_ssize(PyTuple_GET_ITEM(args[1], from), &total) || !parse_ssize(PyTuple_GET_ITEM(args[2], from), &first) ||
        first < 0 || first > total - PyArray_DIM(x, from))
      Py_RETURN_NONE;
    dims[d] = total;
    frame.add(total, first, PyArray_DIM(x, from));
  }
  Ref in = contiguous(view.array.array());
  Ref out(in ? new_array(nd, dims, type) : nullptr);
  if (!out) return nullptr;
  const int last = frame.nd - 1;
  const int64_t width = frame.size[last], before = frame.start[last], inner = frame.inner[last];
  const int64_t rows = width ? PyArray_SIZE(out.array()) / width : 0, nbytes = PyArray_ITEMSIZE(x);
  const bool known = with_size(nbytes, [&](auto zero) {
    using U = decltype(zero);
    U filler;
    memcpy(&filler, PyArray_DATA(value), sizeof filler);
    const U* from = data<U>(in);
    U* to = data<U>(out);
    Unlocked unlocked(rows * width * nbytes > kUnlock);
    ranges(rows, 1 + kSlice / (width * nbytes + 1), [=](int64_t start, int64_t stop) {
      U* const p = to;  // a local pointer: the elements may alias what the function holds
      const U v = filler;
      for (int64_t i = start * width, end = stop * width; i < end; ++i) p[i] = v;
      frame.each_row(start, stop, [=](int64_t row, int64_t source) {
        copy_row(p + row * width + before, from + source * inner, static_cast<size_t>(inner * nbytes));
      });
    });
  });
  if (!known) Py_RETURN_NONE;
  return view.restore(std::move(out)).release();
}

}  // namespace shmtensor
