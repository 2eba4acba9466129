// Runs of bytes moved; slices depend on the shape alone.
#include "kernels/shape/flip_roll_tril.h"

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

// An exact array in memory order whose elements are plain bytes.
PyArrayObject* movable(PyObject* p) {
  if (!PyArray_CheckExact(p)) return nullptr;
  const int type = PyArray_TYPE(as_array(p));
  return is_plain(as_array(p)) && (type < NPY_OBJECT || type == NPY_HALF) ? as_array(p) : nullptr;
}

bool whole(PyObject* p, Py_ssize_t* out) {
  if (!PyLong_CheckExact(p)) return false;
  *out = PyLong_AsSsize_t(p);
  if (*out != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

PyObject* flip(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("flip", n, 2, 2) < 0) return nullptr;
  Ref turned(flip_view(self, args, n));
  if (!turned || turned.get() == Py_None) return turned.release();
  PyObject* given[1] = {turned.get()};
  return contiguous(self, given, 1);
}

PyObject* roll(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("roll", n, 3, 3) < 0) return nullptr;
  PyArrayObject* x = movable(args[0]);
  Py_ssize_t shift, dim = 0;
  if (!x || !PyArray_SIZE(x) || !whole(args[1], &shift)) Py_RETURN_NONE;
  const int nd = PyArray_NDIM(x);
  const bool flat = args[2] == Py_None;
  if (!flat && (!whole(args[2], &dim) || dim < -nd || dim >= nd)) Py_RETURN_NONE;
  dim += dim < 0 ? nd : 0;
  Ref in = contiguous(x);
  Ref out(in ? fresh(nd, PyArray_DIMS(x), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  int64_t outer = 1, width = PyArray_ITEMSIZE(x);
  for (int i = 0; i < nd && !flat; ++i) (i < dim ? outer : width) *= i == dim ? 1 : PyArray_DIM(x, i);
  const int64_t m = flat ? PyArray_SIZE(x) : PyArray_DIM(x, static_cast<int>(dim));
  const int64_t ahead = ((shift % m) + m) % m * width, rest = m * width - ahead;
  const char* from = data<char>(in);
  char* to = data<char>(out);
  const int64_t row = m * width;
  Unlocked unlocked(outer * row > kUnlock);
  ranges(outer * row, kSlice, [&](int64_t at, int64_t stop) {
    while (at < stop) {
      const int64_t inside = at % row;
      const bool over = inside < ahead;  // what came round the end
      const int64_t left = (over ? ahead : row) - inside, n = left < stop - at ? left : stop - at;
      copy_run(to + at, from + at + (over ? rest : -ahead), static_cast<size_t>(n));
      at += n;
    }
  });
  return out.release();
}

PyObject* tril_triu(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("tril_triu", n, 3, 4) < 0) return nullptr;
  PyArrayObject* x = movable(args[0]);
  Py_ssize_t diagonal;
  if (!x || PyArray_NDIM(x) < 2 || !PyArray_SIZE(x) || !whole(args[1], &diagonal)) Py_RETURN_NONE;
  const bool upper = args[2] == Py_True;
  const int nd = PyArray_NDIM(x);
  PyObject* target = n > 3 && args[3] != Py_None ? args[3] : nullptr;
  if (target) {  // x itself, of which one part is cleared
    if (target != args[0] || !PyArray_ISCARRAY(x)) Py_RETURN_NONE;
    Py_INCREF(target);
  }
  Ref in = contiguous(x);
  Ref out(!in || target ? target : fresh(nd, PyArray_DIMS(x), PyArray_TYPE(x)));
  if (!in || !out) return nullptr;
  const int64_t rows = PyArray_DIM(x, nd - 2), columns = PyArray_DIM(x, nd - 1);
  const int64_t size = PyArray_ITEMSIZE(x), all = PyArray_SIZE(x) / columns;
  const int64_t least = -rows, most = columns;
  const int64_t d = diagonal < least ? least : diagonal > most ? most : diagonal;
  const char* from = data<char>(in);
  char* to = data<char>(out);
  const auto fill = moves().fill;
  const auto clear = [fill](char* p, size_t n) { fill(p, static_cast<int64_t>(n), 0); };
  Unlocked unlocked(all * columns * size > kUnlock);
  ranges(all, 1 + kSlice / (columns * size), [&](int64_t start, int64_t stop) {
    for (int64_t r = start; r < stop; ++r) {
      int64_t cut = r % rows + d + (upper ? 0 : 1);  // columns of the lower part
      cut = cut < 0 ? 0 : cut > columns ? columns : cut;
      const int64_t at = r * columns * size;
      const size_t low = static_cast<size_t>(cut * size);
      const size_t high = static_cast<size_t>((columns - cut) * size);
      if (upper) {
        clear(to + at, low);
        if (!target) copy_run(to + at + low, from + at + low, high);
      } else {
        if (!target) copy_run(to + at, from + at, low);
        clear(to + at + low, high);
      }
    }
  });
  return out.release();
}

}  // namespace shmtensor
