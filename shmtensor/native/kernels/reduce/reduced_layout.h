// What a reduction leaves of a shape, for any reduction and any layout: the input's memory in order,
// its dimensions as (outer, m, inner).
//
// Note [Axes by memory]
// Axes are put in the order of their strides first, largest outermost: what was transposed is then
// contiguous again and read as it lies, and only arrays with gaps are copied. The result is made in
// that order of its axes and turned back at the end, which is a copy of what is left, if at all.
//
// Note [Short rows]
// A row of ten elements does not fill a vector, and what it takes to join the lanes is more than the
// work. Many such rows are turned first, a copy at the speed of memory, and are columns then, as are
// they where reduced dimensions are no neighbours: those go last, by a copy.
//
// Note [Rows apart]
// A part of a matrix (x[:, :700], every second row) is rows of contiguous elements that lie evenly apart.
// A reduction that goes along them or across them reads them as they lie.
//
// Note [Stretched axes]
// An axis of stride 0 holds one element many times. Where it stays, that one is reduced and the result
// is stretched, by a copy of what is left. Where it goes and the reduction knows what to do with `times`
// (a sum is so many times the sum, an extreme is the same), it is taken once as well.
#pragma once

#include <type_traits>

#include "kernels/arguments.h"

namespace shmtensor {

// The dimensions of a result, its axes by memory, and the way back to their own order.
struct Left {
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS];
  int back[NPY_MAXDIMS];
  bool moved = false;
  npy_intp wide[NPY_MAXDIMS];  // dims with stretched axes as they are
  bool stretched = false;
  int64_t times = 1;  // how often an element counts of stretched axes that went

  // n results, each of its elements so often.
  template <class T>
  void multiply(T* out, int64_t n) const {
    for (int64_t i = 0; i < n && times > 1; ++i) {
      if constexpr (std::is_integral_v<T>) {
        out[i] = static_cast<T>(static_cast<uint64_t>(out[i]) * static_cast<uint64_t>(times));
      } else {
        out[i] = static_cast<T>(static_cast<double>(out[i]) * static_cast<double>(times));
      }
    }
  }

  // The result in the order that the caller expects. Takes the reference; nullptr passes.
  PyObject* put_back(Ref out) const;
};

// Contiguous rows that lie evenly apart, if `length` is not 0: Note [Rows apart]. In elements.
struct Apart {
  int64_t length = 0, pitch = 0;

  // Does a reduction of m, beside each other or each of `inner` side by side, go along or across the rows?
  bool suits(int64_t m, int64_t inner) const { return length && length == (inner == 1 ? m : inner); }
};

// One reduced group of neighbouring dimensions: x[o, k, c] with k going.
struct Reduced : Left {
  Ref x;  // C-contiguous, or rows apart
  int64_t outer = 1, m = 1, inner = 1;
  int64_t pitch = 1;  // from x[o, :] (inner 1) or x[o, k, :] to the next
};

// Which dimensions go: None or () all, a number, or a sequence of numbers. False with an exception.
bool reduced_dims(const char* where, PyObject* dim, int nd, bool* goes);

// What becomes of stretched axes that go: each element as often as it is there, or once.
enum class Stretched { Walked, Once };

// x in C order, its axes by memory if `free`; `goes` is put in the same order. With `apart` it may be
// rows apart.
Ref by_memory(PyArrayObject* x, bool* goes, bool keep, bool free, Left* left, Stretched stretched,
              Apart* apart = nullptr);

// False with an exception: wrong dim. `places`: the result says where something is, so that several
// reduced dimensions must stay in their order. `apart`: rows may lie apart, by out->pitch.
bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keep, Reduced* out,
                      Stretched stretched, bool places = false, bool apart = false);

}  // namespace shmtensor
