"""Weighted sums of neighbouring elements for grid_sample, and distances of points: one thread for
each element of the result.
"""

from __future__ import annotations

import cupy
import numpy as np

from .. import ROWS
from ..linalg.cdist import KERNEL_ORDERS
from ..nn.grid_sample import plain_ops, sampled
from .launch import cast, contiguous
from .sliding_window import kernel_of

__all__: list[str] = []

SIZES = "int64 channels, int64 elements, int64 width, int64 points"

GATHER = """
const long long p = i % points, image = i / points, n = image / channels;
T sum = T(0);
for (long long k = 0; k < width; ++k) {
  const long long at = places[(n * width + k) * points + p];
  if (at >= 0 && at < elements) sum += x[image * elements + at] * w[(n * width + k) * points + p];
}
out = sum;
"""

# Elements that share a place are added in any order.
SCATTER = """
const long long p = i % points, image = i / points, n = image / channels;
for (long long k = 0; k < width; ++k) {
  const long long at = places[(n * width + k) * points + p];
  if (at >= 0 && at < elements)
    atomicAdd(&out[image * elements + at], x[i] * w[(n * width + k) * points + p]);
}
"""

GATHER_BACKWARD = """
const long long p = i % points, n = i / points / width, at = places[i];
T sum = T(0);
if (at >= 0 && at < elements) {
  for (long long c = 0; c < channels; ++c)
    sum += y[(n * channels + c) * elements + at] * x[(n * channels + c) * points + p];
}
out = sum;
"""


@ROWS["_weighted_gather"].on("cuda")
def weighted_gather(xp, x, weights, places, /):
    """By one kernel."""
    (n, channels, elements), (_, width, points) = x.shape, places.shape
    out = cupy.empty((n, channels, points), x.dtype)
    if out.size:
        inputs = f"raw T x, raw T w, raw int64 places, {SIZES}"
        run = kernel_of("weighted_gather", inputs, "T out", GATHER)
        arrays = map(contiguous, (x, cast(weights, x.dtype), places))
        run(*arrays, channels, elements, width, points, out)
    return out


@ROWS["_weighted_scatter"].on("cuda")
def weighted_scatter(xp, x, weights, places, /, size):
    """By one kernel with atomic additions, of float32 and float64."""
    if x.dtype.char not in "fd":
        return ROWS["_weighted_scatter"].forward(xp, x, weights, places, size)
    (n, channels, points), width = x.shape, places.shape[1]
    out = cupy.zeros((n, channels, size), x.dtype)
    if x.size:
        inputs = f"raw T x, raw T w, raw int64 places, {SIZES}"
        run = kernel_of("weighted_scatter", inputs, "raw T out", SCATTER)
        arrays = map(contiguous, (x, cast(weights, x.dtype), places))
        run(*arrays, channels, size, width, points, out, size=x.size)
    return out


@ROWS["_weighted_gather_backward_weights"].on("cuda")
def weighted_gather_backward_weights(xp, x, y, places, /):
    """By one kernel."""
    (_, channels, elements), (n, width, points) = y.shape, places.shape
    out = cupy.empty((n, width, points), x.dtype)
    if out.size:
        inputs = f"raw T x, raw T y, raw int64 places, {SIZES}"
        run = kernel_of("weighted_gather_backward", inputs, "T out", GATHER_BACKWARD)
        arrays = map(contiguous, (x, cast(y, x.dtype), places))
        run(*arrays, channels, elements, width, points, out)
    return out


# The sizes of up to three dimensions come first to last; `frame` is a number of PADDING_MODES.
INDICES = """
const long long p = i % points, n = i / points / corners;
long long corner = i / points % corners, at = 0, step = 1;
bool inside = true;
for (long long d = dims - 1; d >= 0; --d) {
  const long long size = d == 0 ? n0 : d == 1 ? n1 : n2;
  T v = x[(n * dims + d) * points + p];
  v = v != v || v < T(-1e9) ? T(-1e9) : v > T(1e9) ? T(1e9) : v;
  long long index = (long long)floor(v) + corner % reach - (reach == 4 ? 1 : 0);
  corner /= reach;
  if (frame == 1 || (frame > 1 && size == 1)) {
    index = index < 0 ? 0 : index >= size ? size - 1 : index;
  } else if (frame > 1) {
    const long long span = frame == 2 ? size : size - 1;
    const long long position = index >= 0 ? index : -index - (frame == 2 ? 1 : 0);
    index = position / span % 2 == 0 ? position % span : size - 1 - position % span;
  }
  inside = inside && index >= 0 && index < size;
  at += index * step;
  step *= size;
}
out = inside ? at : -1;
"""


@ROWS["_sample_indices"].on("cuda")
def sample_indices(xp, x, /, sizes, reach, frame):
    """By one kernel."""
    n, dims, points = x.shape
    corners = reach ** len(sizes)
    out = cupy.empty((n, corners, points), np.int64)
    if out.size:
        inputs = (
            "raw T x, int64 n0, int64 n1, int64 n2, int64 dims, int64 points, int64 corners, "
            "int64 reach, int64 frame"
        )
        run = kernel_of("sample_indices", inputs, "int64 out", INDICES)
        sizes = (*sizes, 1, 1)[:3]
        run(cupy.ascontiguousarray(x), *sizes, dims, points, corners, reach, frame, out)
    return out


@ROWS["_grid_sample"].on("cuda")
def grid_sample(xp, x, grid, /, mode, padding_mode, align_corners):
    """By the kernels for the indices and the sums."""
    ops = plain_ops(
        cupy,
        _sample_indices=lambda *args: sample_indices(cupy, *args),
        _weighted_gather=lambda *args: weighted_gather(cupy, *args),
    )
    return sampled(ops, x, grid, (mode, padding_mode, align_corners))


# ---- distances

DISTANCE = """
const long long row = i / rows_y, a = row * width, b = (row / rows_x * rows_y + i % rows_y) * width;
T sum = T(0);
for (long long k = 0; k < width; ++k) {{
  const T d = x[a + k] - y[b + k], size = d < T(0) ? -d : d;
  {add}
}}
out = {result};
"""
ADDED = {
    0.0: "sum += T(size != T(0));",
    1.0: "sum += size;",
    2.0: "sum += d * d;",
    np.inf: "if (size > sum || size != size) sum = size;",
}


@ROWS["_cdist"].on("cuda")
def cdist(xp, x, y, /, p=2.0):
    """By one kernel, without the differences of all pairs in memory."""
    if p not in KERNEL_ORDERS or x.dtype.char not in "fd" or x.shape[:-2] != y.shape[:-2]:
        return ROWS["_cdist"].forward(xp, x, y, p)
    (*batch, rows_x, width), rows_y = x.shape, y.shape[-2]
    out = cupy.empty((*batch, rows_x, rows_y), x.dtype)
    if out.size:
        code = DISTANCE.format(add=ADDED[p], result="sqrt(sum)" if p == 2 else "sum")
        inputs = "raw T x, raw T y, int64 rows_x, int64 rows_y, int64 width"
        run = kernel_of("cdist", inputs, "T out", code)
        run(contiguous(x), contiguous(y), rows_x, rows_y, width, out)
    return out
