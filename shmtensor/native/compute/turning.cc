// Runs of bytes copied or cleared, row by row.
#include "turning.h"

#include <cstring>

#include "array.h"
#include "bytes.h"
#include "packing.h"
#include "pool.h"
#include "types.h"

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

PyObject* triangle(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("triangle", n, 3, 4) < 0) return nullptr;
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
