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

}  // namespace shmtensor
