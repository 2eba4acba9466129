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
#pragma once

#include "array.h"

namespace shmtensor {

// The dimensions of a result, its axes by memory, and the way back to their own order.
struct Left {
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS];
  int back[NPY_MAXDIMS];
  bool moved = false;

  // The result in the order that the caller expects. Takes the reference; nullptr passes.
  PyObject* put_back(Ref out) const;
};

// One reduced group of neighbouring dimensions: x[o, k, c] with k going.
struct Reduced : Left {
  Ref x;  // C-contiguous
  int64_t outer = 1, m = 1, inner = 1;
};

// Which dimensions go: None or () all, a number, or a sequence of numbers. False with an exception.
bool reduced_dims(const char* where, PyObject* dim, int nd, bool* goes);

// x in C order, its axes by memory if `free`; `goes` is put in the same order.
Ref by_memory(PyArrayObject* x, bool* goes, bool keep, bool free, Left* left);

// False with an exception: wrong dim. `places`: the result says where something is, so that several
// reduced dimensions must stay in their order.
bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keep, Reduced* out,
                      bool places = false);

}  // namespace shmtensor
