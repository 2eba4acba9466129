// The layout of a reduction, for any op and any strides: the input in memory order, its dimensions as (outer, m,
// inner), and the shape of the result.
//
// Note [Axes by memory]
// Axes are first permuted by their strides, largest first: a transposed array becomes contiguous again and is read in
// place; only arrays with gaps are copied. The result is computed in that order of axes and permuted back at the end,
// which copies at most the result.
//
// Note [Short rows]
// A row of ten elements does not fill a vector, and combining the lanes costs more than the reduction. Many such rows
// are transposed first, by a copy at memory speed, and reduced as columns. If reduced dimensions are not adjacent, a
// copy puts them last.
//
// Note [Strided rows]
// A part of a matrix (x[:, :700], every second row) consists of contiguous rows at a constant distance. A reduction
// along or across the rows reads them in place.
//
// Note [Expanded dimensions]
// A dimension of stride 0 repeats one element. If it is kept, one element is reduced and the result is expanded, by a
// copy. If it is reduced and the op can use the number of repeats (a sum is multiplied by it, a maximum is unchanged),
// one element is read as well.
#pragma once

#include <type_traits>

#include "kernels/arguments.h"

namespace shmtensor {

// The shape of a result: its axes in memory order, and the permutation back to the original order.
struct ReducedShape {
  int nd = 0;
  npy_intp dims[NPY_MAXDIMS];
  int inverse[NPY_MAXDIMS];
  bool is_permuted = false;
  npy_intp full_dims[NPY_MAXDIMS];  // dims with the full sizes of expanded axes
  bool is_expanded = false;
  int64_t repeats = 1;  // the product of the sizes of reduced expanded axes

  // Multiplies n sums by the number of repeats.
  template <class T>
  void multiply(T* out, int64_t n) const {
    for (int64_t i = 0; i < n && repeats > 1; ++i) {
      if constexpr (std::is_integral_v<T>) {
        out[i] = static_cast<T>(static_cast<uint64_t>(out[i]) * static_cast<uint64_t>(repeats));
      } else {
        out[i] = static_cast<T>(static_cast<double>(out[i]) * static_cast<double>(repeats));
      }
    }
  }

  // The result with axes in the original order. Steals the reference; nullptr stays nullptr.
  PyObject* restore(Ref out) const;
};

// Contiguous rows at a constant distance, unless `length` is 0: Note [Strided rows]. Both are in elements.
struct StridedRows {
  int64_t length = 0, pitch = 0;

  // Does a reduction of (m, inner) run along or across the rows?
  bool matches(int64_t m, int64_t inner) const { return length && length == (inner == 1 ? m : inner); }
};

// One reduced group of adjacent dimensions: x[o, k, c] is reduced over k.
struct ReducedLayout : ReducedShape {
  Ref x;  // C-contiguous, or strided rows
  int64_t outer = 1, m = 1, inner = 1;
  int64_t pitch = 1;  // from x[o, :] (inner 1) or x[o, k, :] to the next
};

// Parses the reduced dimensions: None or () for all, an int, or a sequence of ints. False with an exception.
bool reduced_dims_argument(const char* where, PyObject* dim, int nd, bool* is_reduced);

// How reduced expanded axes are read: each element, or once.
enum class ExpandedDims { EachElement, Once };

// x in C order, with its axes permuted by their strides if may_permute; is_reduced is permuted likewise. With
// strided_rows, x may consist of strided rows.
Ref permute_by_strides(PyArrayObject* x, bool* is_reduced, bool keepdim, bool may_permute, ReducedShape* reduced_shape,
                       ExpandedDims expanded_dims, StridedRows* strided_rows = nullptr);

// False with an exception: wrong dim. wants_indices: the op returns indices, so several reduced dimensions must keep
// their order. may_be_strided: x may consist of rows out->pitch apart.
bool reduced_argument(const char* where, PyArrayObject* x, PyObject* dim, bool keepdim, ReducedLayout* out,
                      ExpandedDims expanded_dims, bool wants_indices = false, bool may_be_strided = false);

}  // namespace shmtensor
