#include "ufunc/iterate.h"

#include <cstring>

#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr npy_intp kFewest = 32;  // elements of a row that is worth a loop of its own

// Elements per slice: by size alone, so that every element is computed the same way on any number
// of threads.
npy_intp grain_for(npy_intp n, npy_intp threshold) {
  npy_intp grain = threshold / 2;
  while (grain < 65536 && n / grain > 64) grain *= 2;
  return grain;
}

// One row beside rows that follow each other in memory: copies of it in a tile make the calls of the
// loop longer, each of which costs up to 200 ns. False: it is something else.
bool run_tiled(const Loop& l, char* const* args, const Walk& w) {
  constexpr npy_intp kTile = 16384;  // bytes, to stay in the first cache
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
  for (npy_intp i = 0; i < copies; ++i)
    memcpy(tile + static_cast<size_t>(i) * width, args[row], width);
  auto rows = [&](int64_t start, int64_t stop) {
    for (; start < stop; start += copies) {
      char* at[kMaxOperands];
      for (int a = 0; a < l.nargs; ++a)
        at[a] = a == row ? tile : args[a] + start * w.strides[a][0];
      npy_intp count = inner * (stop - start < copies ? stop - start : copies);
      l.function(at, &count, steps, l.data);
    }
  };
  if (inner * w.dims[0] < l.threshold || l.whole) {
    rows(0, w.dims[0]);
  } else {
    const npy_intp grain = grain_for(inner * w.dims[0], l.threshold) / inner / copies;
    ranges(w.dims[0], (grain < 1 ? 1 : grain) * copies, rows);
  }
  return true;
}

// Rows of two operands of which one is stretched, many at a call. False: it is something else.
bool run_rows(const Loop& l, char* const* args, const Walk& w) {
  const int last = w.nd - 1, up = last - 1;
  const npy_intp inner = w.dims[last];
  if (!l.rows || inner < kFewest || w.strides[2][last] != l.itemsize[2]) return false;
  RowOperand in[2];
  for (int a = 0; a < 2; ++a) {
    in[a].row = w.strides[a][up];
    in[a].wide = w.strides[a][last] != 0;
    if (in[a].wide && w.strides[a][last] != l.itemsize[a]) return false;
  }
  npy_intp outer = 1;
  for (int i = 0; i < last; ++i) outer *= w.dims[i];
  auto rows = [&](int64_t start, int64_t stop) {
    while (start < stop) {
      char* at[3] = {args[0], args[1], args[2]};
      npy_intp rest = start, first = 0;
      for (int i = up; i >= 0; --i) {
        const npy_intp index = rest % w.dims[i];
        rest /= w.dims[i];
        if (i == up) first = index;
        for (int a = 0; a < 3; ++a) at[a] += index * w.strides[a][i];
      }
      const npy_intp left = w.dims[up] - first, n = left < stop - start ? left : stop - start;
      l.rows({at[0], in[0].row, in[0].wide}, {at[1], in[1].row, in[1].wide}, at[2],
             w.strides[2][up], n, inner);
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

// Many short rows, (n, 3) beside (n, 1): the loop runs down the columns, some rows at a time. False: it
// is something else. (Not for one operand: NumPy's isnan, isinf and isfinite are wrong where results
// are not side by side.)
bool run_columns(const Loop& l, char* const* args, const Walk& w) {
  constexpr npy_intp kSome = 4096;  // elements, to stay in the first cache
  const npy_intp inner = w.dims[1];
  if (w.nd != 2 || l.nin != 2 || inner >= kFewest || w.dims[0] < kFewest) return false;
  npy_intp steps[kMaxOperands];
  for (int a = 0; a < l.nargs; ++a) steps[a] = w.strides[a][0];
  auto rows = [&](int64_t start, int64_t stop) {
    npy_intp count = stop - start;
    for (npy_intp c = 0; c < inner; ++c) {
      char* at[kMaxOperands];
      for (int a = 0; a < l.nargs; ++a) at[a] = args[a] + start * steps[a] + c * w.strides[a][1];
      l.function(at, &count, steps, l.data);
    }
  };
  if (inner * w.dims[0] < l.threshold || l.whole) {
    rows(0, w.dims[0]);
  } else {
    ranges(w.dims[0], kSome / inner, rows);
  }
  return true;
}

}  // namespace

bool splits(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps) {
  for (int o = loop.nin; o < loop.nargs; ++o) {
    if (steps[o] == 0) return false;
    const char* o0 = args[o] + (steps[o] < 0 ? (n - 1) * steps[o] : 0);
    const char* o1 = args[o] + (steps[o] > 0 ? (n - 1) * steps[o] : 0) + loop.itemsize[o];
    for (int i = 0; i < loop.nargs; ++i) {
      if (i == o ||
          (args[i] == args[o] && steps[i] == steps[o] && loop.itemsize[i] == loop.itemsize[o]))
        continue;
      const char* i0 = args[i] + (steps[i] < 0 ? (n - 1) * steps[i] : 0);
      const char* i1 = args[i] + (steps[i] > 0 ? (n - 1) * steps[i] : 0) + loop.itemsize[i];
      if (o0 < i1 && i0 < o1) return false;
    }
  }
  return true;
}

void run_flat(const Loop& loop, char* const* args, npy_intp n, const npy_intp* steps) {
  if (n < loop.threshold || loop.whole) {
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

void coalesce(Walk* w, int nargs) {
  int to = -1;
  for (int i = 0; i < w->nd; ++i) {
    if (w->dims[i] == 1) continue;
    bool merges = to >= 0;
    for (int a = 0; a < nargs && merges; ++a)
      merges = w->strides[a][to] == w->strides[a][i] * w->dims[i];
    if (merges) {
      w->dims[to] *= w->dims[i];
    } else {
      w->dims[++to] = w->dims[i];
    }
    for (int a = 0; a < nargs; ++a) w->strides[a][to] = w->strides[a][i];
  }
  w->nd = to + 1;
}

void run_walk(const Loop& l, char* const* args, const Walk& w) {
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
    npy_intp rest = start;
    for (int a = 0; a < l.nargs; ++a) row[a] = args[a];
    for (int i = last - 1; i >= 0; --i) {
      index[i] = rest % w.dims[i];
      rest /= w.dims[i];
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
  if (inner * outer < l.threshold || l.whole) return rows(0, outer);
  const npy_intp grain = grain_for(inner * outer, l.threshold) / inner;
  ranges(outer, grain < 1 ? 1 : grain, rows);
}

}  // namespace shmtensor
