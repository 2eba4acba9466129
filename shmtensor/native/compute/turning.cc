// Runs of bytes moved; slices depend on the shape alone.
#include "turning.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "array.h"
#include "call/views.h"
#include "packing.h"
#include "pool.h"
#include "types.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 16384;  // bytes
constexpr int64_t kSlice = 65536;   // bytes of a slice
constexpr int64_t kPiece = 32768;   // elements
constexpr int64_t kMost = 4096;     // elements that are sorted here; NumPy's sort is wider

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
  Ref turned(flipped(self, args, n));
  if (!turned || turned.get() == Py_None) return turned.release();
  PyObject* given[1] = {turned.get()};
  return packed(self, given, 1);
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
  Unlocked unlocked(outer * m * width > kUnlock);
  ranges(outer, 1 + kSlice / (m * width), [&](int64_t start, int64_t stop) {
    for (int64_t o = start; o < stop; ++o) {
      memcpy(to + o * m * width + ahead, from + o * m * width, static_cast<size_t>(rest));
      memcpy(to + o * m * width, from + o * m * width + rest, static_cast<size_t>(ahead));
    }
  });
  return out.release();
}

PyObject* triangle(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("triangle", n, 3, 3) < 0) return nullptr;
  PyArrayObject* x = movable(args[0]);
  Py_ssize_t diagonal;
  if (!x || PyArray_NDIM(x) < 2 || !PyArray_SIZE(x) || !whole(args[1], &diagonal)) Py_RETURN_NONE;
  const bool upper = args[2] == Py_True;
  const int nd = PyArray_NDIM(x);
  Ref in = contiguous(x);
  Ref out(in ? fresh(nd, PyArray_DIMS(x), PyArray_TYPE(x)) : nullptr);
  if (!out) return nullptr;
  const int64_t rows = PyArray_DIM(x, nd - 2), columns = PyArray_DIM(x, nd - 1);
  const int64_t size = PyArray_ITEMSIZE(x), all = PyArray_SIZE(x) / columns;
  const int64_t least = -rows, most = columns;
  const int64_t d = diagonal < least ? least : diagonal > most ? most : diagonal;
  const char* from = data<char>(in);
  char* to = data<char>(out);
  Unlocked unlocked(all * columns * size > kUnlock);
  ranges(all, 1 + kSlice / (columns * size), [&](int64_t start, int64_t stop) {
    for (int64_t r = start; r < stop; ++r) {
      int64_t cut = r % rows + d + (upper ? 0 : 1);  // columns of the lower part
      cut = cut < 0 ? 0 : cut > columns ? columns : cut;
      const int64_t at = r * columns * size;
      const size_t low = static_cast<size_t>(cut * size);
      const size_t high = static_cast<size_t>((columns - cut) * size);
      if (upper) {
        memset(to + at, 0, low);
        memcpy(to + at + low, from + at + low, high);
      } else {
        memcpy(to + at, from + at, low);
        memset(to + at + low, 0, high);
      }
    }
  });
  return out.release();
}

PyObject* nonzero(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("nonzero", n, 1, 1) < 0) return nullptr;
  PyArrayObject* x = movable(args[0]);
  const int nd = x ? PyArray_NDIM(x) : 0;
  if (nd == 0) Py_RETURN_NONE;
  Ref in = contiguous(x);
  if (!in) return nullptr;
  const int64_t size = PyArray_SIZE(x), pieces = (size + kPiece - 1) / kPiece;
  Ref out;
  const bool known = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data<T>(in);
    int64_t few[8];  // where each piece's rows begin
    std::unique_ptr<int64_t[]> many(pieces > 8 ? new int64_t[static_cast<size_t>(pieces)] : nullptr);
    int64_t* starts = many ? many.get() : few;
    {
      Unlocked unlocked(size > kUnlock);
      slices(pieces, [&](int64_t p) {
        const int64_t stop = std::min(size, (p + 1) * kPiece);
        int64_t found = 0;
        for (int64_t i = p * kPiece; i < stop; ++i) found += from[i] != T(0);
        starts[p] = found;
      });
    }
    int64_t total = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t here = starts[p];
      starts[p] = total;
      total += here;
    }
    const npy_intp dims[2] = {total, nd};
    out = Ref(fresh(2, dims, NPY_INT64));
    if (!out) return;
    int64_t* rows = data<int64_t>(out);
    Unlocked unlocked(size > kUnlock);
    slices(pieces, [&](int64_t p) {
      const int64_t stop = std::min(size, (p + 1) * kPiece);
      int64_t* to = rows + starts[p] * nd;
      const npy_intp* sizes = PyArray_DIMS(x);
      for (int64_t i = p * kPiece; i < stop; ++i) {
        if (from[i] == T(0)) continue;
        int64_t rest = i;
        for (int k = nd - 1; k > 0; --k) {
          to[k] = rest % sizes[k];
          rest /= sizes[k];
        }
        to[0] = rest;
        to += nd;
      }
    });
  });
  if (!known) Py_RETURN_NONE;
  return out.release();
}

PyObject* distinct(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("unique", n, 1, 1) < 0) return nullptr;
  PyArrayObject* x = movable(args[0]);
  if (!x || PyArray_SIZE(x) > kMost) Py_RETURN_NONE;
  Ref in = contiguous(x);
  if (!in) return nullptr;
  Ref out;
  bool usual = true;
  const bool known = with_type(PyArray_TYPE(x), [&](auto zero) {
    using T = decltype(zero);
    const int64_t size = PyArray_SIZE(x);
    T sorted[kMost];
    for (int64_t i = 0; i < size; ++i) {
      sorted[i] = data<T>(in)[i];
      usual = usual && sorted[i] == sorted[i];  // of NaNs the plain form knows what to do
    }
    if (!usual) return;
    std::sort(sorted, sorted + size);
    npy_intp left = std::unique(sorted, sorted + size) - sorted;
    out = Ref(fresh(1, &left, PyArray_TYPE(x)));
    if (out) memcpy(data<T>(out), sorted, sizeof(T) * static_cast<size_t>(left));
  });
  if (!known || !usual) Py_RETURN_NONE;
  return out.release();
}

}  // namespace shmtensor
