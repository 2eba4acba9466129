// How a ufunc's loop goes through its operands: along them all at once, or row by row, in slices for
// the pool.
#pragma once

#include "python.h"
#include "ufunc/broadcast_loops.h"

namespace shmtensor {

constexpr int kMaxOperands = 4;
constexpr int kMaxDims = 16;
constexpr npy_intp kUnlock = 8192;  // elements above which the GIL is released on the straight way

// One inner loop of NumPy. A ufunc's `data` slots point here.
struct Loop {
  PyUFuncGenericFunction function;
  void* data;
  npy_intp threshold;  // elements above which threads pay
  int nin, nargs;
  bool whole;        // must run on the calling thread (it may set a Python error)
  bool long_double;  // its status flags are also in the x87 unit
  npy_intp itemsize[kMaxOperands];
  RowKernel rows;  // nullptr: the loop goes through each row by itself
};

// Operands with broadcast strides, dimensions that continue each other merged, innermost last.
struct Walk {
  int nd = 0;
  npy_intp dims[kMaxDims];
  npy_intp strides[kMaxOperands][kMaxDims];
};

// Is the order of elements free? Not in reductions (output in place) and when outputs run into
// inputs.
bool splits(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps);

// Runs the loop on n elements of each operand, `steps` bytes apart.
void run_flat(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps);

// Merges dimensions that continue each other, and drops those of size 1.
void coalesce(Walk* w, int nargs);

// Runs the loop over rows; several rows per slice, or several slices per row.
void run_walk(const Loop& l, char* const* args, const Walk& w);

}  // namespace shmtensor
