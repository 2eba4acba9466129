// Runs a ufunc's inner loop over its operands, flat or row by row, in slices on the thread pool.
#pragma once

#include "python.h"
#include "numpy_loops/broadcast_loops.h"

namespace shmtensor {

constexpr int kMaxOperands = 4;
constexpr int kMaxDims = 16;
constexpr npy_intp kUnlock = 8192;  // elements above which a direct call releases the GIL

// One inner loop of NumPy. The `data` slots of our ufuncs point to these.
struct Loop {
  PyUFuncGenericFunction function;
  void* data;
  npy_intp threshold;  // elements above which threads pay
  int nin, nargs;
  bool runs_on_caller;        // must run on the calling thread (it may set a Python error)
  bool long_double;  // also sets status flags of the x87 unit
  npy_intp itemsize[kMaxOperands];
  RowKernel rows;  // computes many rows per call; nullptr: none
};

// Operands with broadcast strides; adjacent dimensions are merged where possible; the innermost dimension is last.
struct StridedLoop {
  int nd = 0;
  npy_intp dims[kMaxDims];
  npy_intp strides[kMaxOperands][kMaxDims];
};

// May the elements be computed in any order? Not in reductions (the output has stride 0), and not if an output overlaps
// an input.
bool is_splittable(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps);

// Runs the loop on n elements of each operand, `steps` bytes apart.
void run_flat(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps);

// Merges adjacent dimensions where their strides allow it, and drops those of size 1.
void coalesce(StridedLoop* w, int nargs);

// Runs the loop over rows; several rows per slice, or several slices per row.
void run_strided(const Loop& l, char* const* args, const StridedLoop& w);

}  // namespace shmtensor
