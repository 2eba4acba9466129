#include "numpy_loops/iterate.h"

#include <cstring>

#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

// Elements of a row that is worth a separate call of NumPy's loop; an iteration of ours; one in which an operand is a scalar.
constexpr npy_intp kMinRow = 32, kMinRowOfKernel = 16, kMinRowByScalar = 8;

// Elements per slice: depends on n alone, so results do not depend on the number of threads.
npy_intp grain_for(npy_intp n, npy_intp threshold) {
  npy_intp grain = threshold / 2;
  while (grain < 65536 && n / grain > 64) grain *= 2;
  return grain;
}

// One row with contiguous rows of the other operand: a tile of copies of the row makes the calls of the loop, which
// cost up to 200 ns each, longer. False for other operands.
bool run_tiled(const Loop& l, char* const* args, const StridedLoop& w) {
  constexpr npy_intp kTile = 16384;  // bytes, which fit in the first-level cache
  if (w.nd != 2 || w.dims[0] < 8 || w.dims[0] * w.dims[1] < kUnlock) return false;
  const npy_intp inner = w.dims[1];
  int row = -1;
  npy_intp steps[kMaxOperands];
  for (int a = 0; a < l.nargs; ++a) {
    steps[a] = w.strides[a][1];
    if (w.strides[a][0] == steps[a] * inner) continue;
    if (w.strides[a][0] != 0 || steps[a] != l.itemsize[a] || row >= 0 || a >= l.nin) return false;
    row = a;
  }
  if (row < 0 || inner * l.itemsize[row] * 4 > kTile) return false;
  const npy_intp copies = kTile / (inner * l.itemsize[row]);
  alignas(64) char tile[kTile];
  const size_t width = static_cast<size_t>(inner * l.itemsize[row]);
  for (npy_intp i = 0; i < copies; ++i) memcpy(tile + static_cast<size_t>(i) * width, args[row], width);
  auto rows = [&](int64_t start, int64_t stop) {
    for (; start < stop; start += copies) {
      char* pointers[kMaxOperands];
      for (int a = 0; a < l.nargs; ++a) pointers[a] = a == row ? tile : args[a] + start * w.strides[a][0];
      npy_intp count = inner * (stop - start < copies ? stop - start : copies);
      l.function(pointers, &count, steps, l.data);
    }
  };
  if (inner * w.dims[0] < l.threshold || l.runs_on_caller) {
    rows(0, w.dims[0]);
  } else {
    const npy_intp grain = grain_for(inner * w.dims[0], l.threshold) / inner / copies;
    ranges(w.dims[0], (grain < 1 ? 1 : grain) * copies, rows);
  }
  return true;
}

// Rows of two operands, one of which is broadcast, many rows per call. False for other operands.
bool run_rows(const Loop& l, char* const* args, const StridedLoop& w) {
  const int last = w.nd - 1, outer_dim = last - 1;
  const npy_intp inner = w.dims[last];
  if (!l.rows || inner < kMinRowByScalar || w.strides[2][last] != l.itemsize[2]) return false;
  RowOperand in[2];
  for (int a = 0; a < 2; ++a) {
    in[a].row = w.strides[a][outer_dim];
    in[a].is_vector = w.strides[a][last] != 0;
    if (in[a].is_vector && w.strides[a][last] != l.itemsize[a]) return false;
  }
  if (inner < kMinRowOfKernel && in[0].is_vector && in[1].is_vector) return false;
  npy_intp outer = 1;
  for (int i = 0; i < last; ++i) outer *= w.dims[i];
  auto rows = [&](int64_t start, int64_t stop) {
    while (start < stop) {
      char* pointers[3] = {args[0], args[1], args[2]};
      npy_intp outer_index = start, first_row = 0;
      for (int i = outer_dim; i >= 0; --i) {
        const npy_intp index = outer_index % w.dims[i];
        outer_index /= w.dims[i];
        if (i == outer_dim) first_row = index;
        for (int a = 0; a < 3; ++a) pointers[a] += index * w.strides[a][i];
      }
      const npy_intp remaining = w.dims[outer_dim] - first_row, n = remaining < stop - start ? remaining : stop - start;
      l.rows({pointers[0], in[0].row, in[0].is_vector}, {pointers[1], in[1].row, in[1].is_vector}, pointers[2],
             w.strides[2][outer_dim], n, inner);
      start += n;
    }
  };
  if (inner * outer < l.threshold) {
    rows(0, outer);
    return true;
  }
  const npy_intp grain = grain_for(inner * outer, l.threshold) / inner;
  ranges(outer, grain < 1 ? 1 : grain, rows);
  return true;
}

// Many short rows, such as (n, 3) with (n, 1): the loop runs down the columns, some rows at a time. False for other
// operands. (Not for one operand: NumPy's isnan, isinf and isfinite are wrong for strided results.)
bool run_columns(const Loop& l, char* const* args, const StridedLoop& w) {
  constexpr npy_intp kColumnBlock = 4096;  // elements, which fit in the first-level cache
  const npy_intp inner = w.dims[1];
  if (w.nd != 2 || l.nin != 2 || inner >= kMinRow || w.dims[0] < kMinRow) return false;
  npy_intp steps[kMaxOperands];
  for (int a = 0; a < l.nargs; ++a) steps[a] = w.strides[a][0];
  auto rows = [&](int64_t start, int64_t stop) {
    npy_intp count = stop - start;
    for (npy_intp c = 0; c < inner; ++c) {
      char* pointers[kMaxOperands];
      for (int a = 0; a < l.nargs; ++a) pointers[a] = args[a] + start * steps[a] + c * w.strides[a][1];
      l.function(pointers, &count, steps, l.data);
    }
  };
  if (inner * w.dims[0] < l.threshold || l.runs_on_caller) {
    rows(0, w.dims[0]);
  } else {
    ranges(w.dims[0], kColumnBlock / inner, rows);
  }
  return true;
}

}  // namespace

bool is_splittable(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps) {
  for (int o = loop.nin; o < loop.nargs; ++o) {
    if (steps[o] == 0) return false;
    const char* o0 = args[o] + (steps[o] < 0 ? (n - 1) * steps[o] : 0);
    const char* o1 = args[o] + (steps[o] > 0 ? (n - 1) * steps[o] : 0) + loop.itemsize[o];
    for (int i = 0; i < loop.nargs; ++i) {
      if (i == o || (args[i] == args[o] && steps[i] == steps[o] && loop.itemsize[i] == loop.itemsize[o])) continue;
      const char* i0 = args[i] + (steps[i] < 0 ? (n - 1) * steps[i] : 0);
      const char* i1 = args[i] + (steps[i] > 0 ? (n - 1) * steps[i] : 0) + loop.itemsize[i];
      if (o0 < i1 && i0 < o1) return false;
    }
  }
  return true;
}

void run_flat(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps) {
  if (n < loop.threshold || loop.runs_on_caller) {
    char* a[kMaxOperands];
    memcpy(a, args, sizeof(char*) * static_cast<size_t>(loop.nargs));
    npy_intp count = n;
    loop.function(a, &count, steps, loop.data);
    return;
  }
  ranges(n, grain_for(n, loop.threshold), [&](int64_t start, int64_t stop) {
    char* a[kMaxOperands];
    for (int i = 0; i < loop.nargs; ++i) a[i] = args[i] + start * steps[i];
    npy_intp count = stop - start;
    loop.function(a, &count, steps, loop.data);
  });
}

void coalesce(StridedLoop* w, int nargs) {
  int to = -1;
  for (int i = 0; i < w->nd; ++i) {
    if (w->dims[i] == 1) continue;
    bool is_mergeable = to >= 0;
    for (int a = 0; a < nargs && is_mergeable; ++a) is_mergeable = w->strides[a][to] == w->strides[a][i] * w->dims[i];
    if (is_mergeable) {
      w->dims[to] *= w->dims[i];
    } else {
      w->dims[++to] = w->dims[i];
    }
    for (int a = 0; a < nargs; ++a) w->strides[a][to] = w->strides[a][i];
  }
  w->nd = to + 1;
}

void run_strided(const Loop& l, char* const* args, const StridedLoop& w) {
  if (w.nd <= 1) {
    npy_intp steps[kMaxOperands];
    for (int a = 0; a < l.nargs; ++a) steps[a] = w.nd ? w.strides[a][0] : 0;
    return run_flat(l, args, w.nd ? w.dims[0] : 1, steps);
  }
  if (run_rows(l, args, w) || run_tiled(l, args, w) || run_columns(l, args, w)) return;
  const int last = w.nd - 1;
  const npy_intp inner = w.dims[last];
  npy_intp outer = 1, steps[kMaxOperands];
  for (int i = 0; i < last; ++i) outer *= w.dims[i];
  for (int a = 0; a < l.nargs; ++a) steps[a] = w.strides[a][last];
  auto rows = [&](int64_t start, int64_t stop) {
    npy_intp index[kMaxDims];
    char* row[kMaxOperands];
    npy_intp remaining = start;
    for (int a = 0; a < l.nargs; ++a) row[a] = args[a];
    for (int i = last - 1; i >= 0; --i) {
      index[i] = remaining % w.dims[i];
      remaining /= w.dims[i];
      for (int a = 0; a < l.nargs; ++a) row[a] += index[i] * w.strides[a][i];
    }
    for (int64_t r = start; r < stop; ++r) {
      char* a[kMaxOperands];
      memcpy(a, row, sizeof a);
      npy_intp count = inner;
      l.function(a, &count, steps, l.data);
      for (int i = last - 1; i >= 0; --i) {
        for (int k = 0; k < l.nargs; ++k) row[k] += w.strides[k][i];
        if (++index[i] < w.dims[i]) break;
        index[i] = 0;
        for (int k = 0; k < l.nargs; ++k) row[k] -= w.dims[i] * w.strides[k][i];
      }
    }
  };
  if (inner * outer < l.threshold || l.runs_on_caller) return rows(0, outer);
  const npy_intp grain = grain_for(inner * outer, l.threshold) / inner;
  ranges(outer, grain < 1 ? 1 : grain, rows);
}

}  // namespace shmtensor
