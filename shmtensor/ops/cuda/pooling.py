"""Pooling and weighted sums of neighbours: one thread for each element of the result.

Floating-point numbers are pooled by kernels of pooling.cu, other dtypes by CuPy's elementwise ones.
cuDNN's pooling is not used: its Python frontend has none.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from .. import ROWS
from ..nn.pooling import lowest
from ..nn.sliding_window import Shape, output_sizes
from .launch import ACC, PLANS, THREADS, blocks_for, contiguous, prepare
from .sliding_window import kernel_of, place, three, window_arguments

__all__: list[str] = []

INT64 = np.dtype(np.int64)
SMALL = 2**31 - 2**21  # positions and steps below it are computed in 32 bits
Launch = Callable[..., None]


def prepare_windows(
    function: str,
    dtype: Any,
    lead: int,
    size: Shape,
    fit: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    more: tuple[Any, ...] = (),
) -> Launch:
    """The launch of a kernel of pooling.cu for `lead` images; the sizes are those of
    sliding_window.py, `more` the numbers after them.
    """
    numbers = window_arguments(size, fit, kernel, stride, padding, dilation)
    images, windows = lead * math.prod(size), lead * math.prod(fit)
    total = images if function.endswith("backward") else windows
    is_small = max(images, windows) < SMALL and max(numbers) < 2**29
    name = f"{function}_{32 if is_small else 64}"
    return prepare("pooling", name, dtype, blocks_for(total), THREADS, (total, *numbers, *more))


@functools.lru_cache(PLANS)
def prepare_pool(
    function: str,
    dtype: Any,
    shape: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil: bool,
) -> tuple[Shape, Launch | None]:
    """The shape of the result, and the launch of `max_pool`, (x, values, indices), or `sum_pool`,
    (x, sums); None if there is nothing to compute.
    """
    n = len(kernel)
    lead, size = shape[: len(shape) - n], shape[len(shape) - n :]
    fit = output_sizes(size, kernel, stride, padding, dilation, ceil)
    out = (*lead, *fit)
    if not math.prod(out):
        return out, None
    if dtype in ACC:
        sizes = size, fit, kernel, stride, padding, dilation
        return out, prepare_windows(function, dtype, math.prod(lead), *sizes)
    arguments = window_arguments(size, fit, kernel, stride, padding, dilation)
    if function == "sum_pool":
        run = kernel_of("sum_pool", "raw T x, windows", "T out", SUM)
        return out, lambda x, sums: run(x, *arguments, sums)
    low = lowest(dtype)
    run = kernel_of("max_pool", "raw T x, T low, windows", "T best, int64 place", MAX)
    return out, lambda x, best, indices: run(x, low, *arguments, best, indices)


@functools.lru_cache(PLANS)
def prepare_backward(
    function: str,
    dtype: Any,
    shape: Shape,
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> tuple[Shape, Launch | None]:
    """The shape of images of a size, and the launch of `max_pool_backward`, (g, indices, out), or
    `sum_pool_backward`, (g, out), for gradients g of a shape; None: the kernels do not take them.
    """
    n = len(kernel)
    lead, fit = shape[: len(shape) - n], shape[len(shape) - n :]
    out = (*lead, *size)
    if dtype not in ACC or not math.prod(shape) or not math.prod(out):
        return out, None
    sizes = size, fit, kernel, stride, padding, dilation
    return out, prepare_windows(function, dtype, math.prod(lead), *sizes)


# Takes a larger element, or NaN, and the first one in any case.
TAKE = """
const long long at = ({a0} * n1 + {a1}) * n2 + {a2};
const T v = x[rest * n0 * n1 * n2 + at];
if (place < 0 || v > best || v != v) {{ best = v; place = at; }}
"""

MAX = f"""
long long rest = i;
{place("rest", "f", "b")}
best = low;
place = -1;
for (long long o0 = 0; o0 < k0; ++o0) {{
  const long long a0 = b0 * s0 + o0 * d0 - p0;
  if (a0 < 0 || a0 >= n0) continue;
  for (long long o1 = 0; o1 < k1; ++o1) {{
    const long long a1 = b1 * s1 + o1 * d1 - p1;
    if (a1 < 0 || a1 >= n1) continue;
    for (long long o2 = 0; o2 < k2; ++o2) {{
      const long long a2 = b2 * s2 + o2 * d2 - p2;
      if (a2 < 0 || a2 >= n2) continue;
      {TAKE.format(a0="a0", a1="a1", a2="a2")}
    }}
  }}
}}
"""


@ROWS["_max_pool"].on("cuda")
def max_pool(xp, x, /, kernel, stride, padding, dilation, ceil):
    """By one kernel, in which the padding is no element of any window."""
    dtype = x.dtype
    arguments = kernel, stride, padding, dilation, ceil
    shape, run = prepare_pool("max_pool", dtype, x.shape, *arguments)
    best, indices = cupy.ndarray(shape, dtype), cupy.ndarray(shape, INT64)
    if run is not None:
        run(contiguous(x), best, indices)
    return best, indices


@ROWS["_max_pool_backward"].on("cuda")
def max_pool_backward(xp, x, indices, /, size, kernel, stride, padding, dilation):
    """By one kernel, in which each element reads the windows that may have chosen it."""
    arguments = size, kernel, stride, padding, dilation
    shape, run = prepare_backward("max_pool_backward", x.dtype, x.shape, *arguments)
    if run is None:
        return ROWS["_max_pool_backward"].forward(xp, x, indices, *arguments)
    out = cupy.ndarray(shape, x.dtype)
    run(contiguous(x), contiguous(indices), out)
    return out


ADAPTIVE_MAX = f"""
long long rest = i;
{place("rest", "f", "b")}
best = low;
place = -1;
for (long long a0 = b0 * n0 / f0; a0 < ((b0 + 1) * n0 + f0 - 1) / f0; ++a0)
  for (long long a1 = b1 * n1 / f1; a1 < ((b1 + 1) * n1 + f1 - 1) / f1; ++a1)
    for (long long a2 = b2 * n2 / f2; a2 < ((b2 + 1) * n2 + f2 - 1) / f2; ++a2) {{
      {TAKE.format(a0="a0", a1="a1", a2="a2")}
    }}
"""


@ROWS["_adaptive_max_pool"].on("cuda")
def adaptive_max_pool(xp, x, /, size):
    """By one kernel."""
    n = len(size)
    lead, inner = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    best, indices = cupy.empty((*lead, *size), x.dtype), cupy.empty((*lead, *size), np.int64)
    if best.size:
        run = kernel_of(
            "adaptive_max_pool", "raw T x, T low, sizes", "T best, int64 place", ADAPTIVE_MAX
        )
        arguments = (*three(inner, 1), *three(size, 1))
        run(cupy.ascontiguousarray(x), lowest(x.dtype), *arguments, best, indices)
    return best, indices


SUM = f"""
long long rest = i;
{place("rest", "f", "b")}
T sum = T(0);
for (long long o0 = 0; o0 < k0; ++o0) {{
  const long long a0 = b0 * s0 + o0 - p0;
  if (a0 < 0 || a0 >= n0) continue;
  for (long long o1 = 0; o1 < k1; ++o1) {{
    const long long a1 = b1 * s1 + o1 - p1;
    if (a1 < 0 || a1 >= n1) continue;
    for (long long o2 = 0; o2 < k2; ++o2) {{
      const long long a2 = b2 * s2 + o2 - p2;
      if (a2 < 0 || a2 >= n2) continue;
      sum += T(x[((rest * n0 + a0) * n1 + a1) * n2 + a2]);
    }}
  }}
}}
out = sum;
"""


@ROWS["_sum_pool"].on("cuda")
def sum_pool(xp, x, /, kernel, stride, padding, ceil):
    """By one kernel."""
    arguments = kernel, stride, padding, (1,) * len(kernel), ceil
    shape, run = prepare_pool("sum_pool", x.dtype, x.shape, *arguments)
    out = cupy.ndarray(shape, x.dtype)
    if run is not None:
        run(contiguous(x), out)
    return out


# The windows of an element begin at most its distance from the image's start ahead of it.
SUM_BACKWARD = f"""
long long rest = i;
{place("rest", "n", "a")}
T sum = T(0);
const long long e0 = min(f0 - 1, (a0 + p0) / s0), e1 = min(f1 - 1, (a1 + p1) / s1),
                e2 = min(f2 - 1, (a2 + p2) / s2);
for (long long b0 = a0 + p0 < k0 ? 0 : (a0 + p0 - k0) / s0 + 1; b0 <= e0; ++b0)
  for (long long b1 = a1 + p1 < k1 ? 0 : (a1 + p1 - k1) / s1 + 1; b1 <= e1; ++b1)
    for (long long b2 = a2 + p2 < k2 ? 0 : (a2 + p2 - k2) / s2 + 1; b2 <= e2; ++b2)
      sum += T(x[((rest * f0 + b0) * f1 + b1) * f2 + b2]);
out = sum;
"""


@functools.lru_cache(PLANS, typed=True)
def prepare_mean(
    dtype: Any, shape: Shape, kernel: Shape, stride: Shape, padding: Shape, ceil: bool,
    include_pad: bool, divisor: int, size: Shape | None = None,
) -> tuple[Shape, Launch | None]:  # fmt: skip
    """The shape of the result, and the launch of `avg_pool`, (x, out), or, with the size of the
    images, of `avg_pool_backward`, (g, out); None: the kernels do not take the arrays.
    """
    n, ones = len(kernel), (1,) * len(kernel)
    lead, inner = shape[: len(shape) - n], shape[len(shape) - n :]
    fit = output_sizes(inner, kernel, stride, padding, ones, ceil) if size is None else inner
    out = (*lead, *(fit if size is None else size))
    if dtype not in ACC or not math.prod(shape) or not math.prod(out):
        return out, None
    sizes = (inner if size is None else size), fit, kernel, stride, padding, ones
    name = "avg_pool" if size is None else "avg_pool_backward"
    more = divisor, np.int32(include_pad)
    return out, prepare_windows(name, dtype, math.prod(lead), *sizes, more)


@ROWS["_avg_pool"].on("cuda")
def avg_pool(xp, x, /, kernel, stride, padding, ceil, include_pad, divisor):
    """By one kernel."""
    arguments = kernel, stride, padding, ceil, include_pad, divisor
    shape, run = prepare_mean(x.dtype, x.shape, *arguments)
    if run is None:
        return ROWS["_avg_pool"].forward(xp, x, *arguments)
    out = cupy.ndarray(shape, x.dtype)
    run(contiguous(x), out)
    return out


@ROWS["_avg_pool_backward"].on("cuda")
def avg_pool_backward(xp, x, /, size, kernel, stride, padding, ceil, include_pad, divisor):
    """By one kernel, which reads the windows of each element."""
    arguments = kernel, stride, padding, ceil, include_pad, divisor
    shape, run = prepare_mean(x.dtype, x.shape, *arguments, size)
    if run is None:
        return ROWS["_avg_pool_backward"].forward(xp, x, size, *arguments)
    out = cupy.ndarray(shape, x.dtype)
    run(contiguous(x), out)
    return out


@ROWS["_sum_pool_backward"].on("cuda")
def sum_pool_backward(xp, x, /, size, kernel, stride, padding, ceil):
    """By one kernel, which reads the windows of each element."""
    n, ones = len(kernel), (1,) * len(kernel)
    arguments = size, kernel, stride, padding, ones
    shape, launch = prepare_backward("sum_pool_backward", x.dtype, x.shape, *arguments)
    if launch is not None:
        out = cupy.ndarray(shape, x.dtype)
        launch(contiguous(x), out)
        return out
    lead, fit = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    if not x.size:
        return cupy.zeros((*lead, *size), x.dtype)
    out = cupy.empty((*lead, *size), x.dtype)
    if out.size:
        run = kernel_of("sum_pool_backward", "raw T x, windows", "T out", SUM_BACKWARD)
        numbers = window_arguments(size, fit, kernel, stride, padding, ones)
        run(contiguous(x), *numbers, out)
    return out


RESAMPLE = """
const long long after = i % inner, result = i / inner % results, before = i / inner / results;
T sum = T(0);
for (long long k = 0; k < counts[result]; ++k) {
  const long long element = result * width + k;
  sum += T(x[(before * n + elements[element]) * inner + after]) * T(weights[element]);
}
out = sum;
"""


@ROWS["_resample"].on("cuda")
def resample(xp, x, /, taps):
    """By a kernel for each dimension; the taps are in NumPy's memory and copied to the device."""
    if x.dtype.kind not in "fc" or not x.size:
        return ROWS["_resample"].forward(xp, x, taps)
    for dim, t in enumerate(taps, x.ndim - len(taps)):
        if t is None:
            continue
        results, width = t.elements.shape
        out = cupy.empty((*x.shape[:dim], results, *x.shape[dim + 1 :]), x.dtype)
        if out.size:
            run = kernel_of(
                "resample",
                "raw T x, raw int64 elements, raw T weights, raw int64 counts, int64 n, "
                "int64 inner, int64 results, int64 width",
                "T out",
                RESAMPLE,
            )
            inner = math.prod(x.shape[dim + 1 :])
            weights = np.ones(t.elements.shape) if t.weights is None else t.weights
            counts = np.full(results, width) if t.counts is None else t.counts
            arrays = cupy.asarray(t.elements), cupy.asarray(weights, x.dtype), cupy.asarray(counts)
            run(cupy.ascontiguousarray(x), *arrays, x.shape[dim], inner, results, width, out)
        x = out
    return x
