"""Reductions and cumulative ops for CUDA, where CuPy's ufuncs have no `reduce` or `accumulate`.

A cumulative op of n elements is log2(n) passes (Hillis and Steele 1986): in the pass of `shift`
each element is combined with the one `shift` places before it, which covers as many elements.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ..pointwise.exp_log_erf import complex_logaddexp
from ..reduce.quantile_bincount_cov import histc_range
from ..reduce.sum_mean_var import nonempty_axes
from ..table.check_dtypes import check_floating
from ..table.dims import axes, axes_of_all_any, axis, check_ordered
from ..table.op_definition import ROWS

__all__ = ["cumulative_max"]


@ROWS["all"].on("cuda")
def all_on_cuda(xp: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return truth(xp.all, x, dim, keepdim)


@ROWS["any"].on("cuda")
def any_on_cuda(xp: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return truth(xp.any, x, dim, keepdim)


def truth(kernel: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """`all` or `any`: bool, or uint8 for uint8; dim=(): of each element alone."""
    over = axes_of_all_any(x, dim)
    out = x != 0 if over == () else kernel(x, over, keepdims=keepdim)
    return out.astype(x.dtype) if x.dtype == "uint8" else out


xor = cupy.ReductionKernel("uint64 x", "uint64 out", "x", "a ^ b", "out = a", "0", "hash_tensor")


@ROWS["hash_tensor"].on("cuda")
def hash_tensor(xp: Any, x: Any, dim: Any = None, keepdim: bool = False, *, mode: int = 0) -> Any:
    check_ordered("hash_tensor", x)
    if mode != 0:
        raise RuntimeError(f"hash_tensor: no such mode: {mode}, 0 is needed")
    if dim is None and not x.size:
        raise RuntimeError(f"hash_tensor: a dim is needed for an empty tensor: shape {x.shape}")
    wide = x.astype(xp.int64 if x.dtype.kind in "iub" else xp.float64)
    return xor(wide.view(xp.uint64), axis=axes(x, dim), keepdims=keepdim)


# ---- counts

count_in_bins = cupy.ElementwiseKernel(
    "S x, raw T edges, int64 n",
    "raw U counts",
    """
    if (x >= edges[0] && x <= edges[n]) {  // not a NaN
      long long low = 0, high = n;
      while (high - low > 1) {
        const long long middle = (low + high) / 2;
        if (edges[middle] <= x) low = middle;
        else high = middle;
      }
      atomicAdd(&counts[low], U(1));
    }
    """,
    "histc",
)


@ROWS["_histc"].on("cuda")
def histc(xp: Any, x: Any, n: int, low: float, high: float) -> Any:
    """By the CPU's edges. `xp.histogram` is CUB's on a GPU, which takes an upper edge that does not
    belong to the bin: CuPy adds 1 to the last edge of whole numbers, so that 1 is in [0, 0.5], and
    takes the next float after it, which it finds on the way to edge + 1: from 2**24 on (float32)
    there is none, and the elements at the edge are not counted.
    """
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    edges = np.linspace(*histc_range(x, n, low, high), n + 1).astype(dtype)
    counts = xp.zeros(n, np.int64)
    count_in_bins(x, xp.asarray(edges), n, counts)
    return counts.astype(x.dtype)


# ---- cumulative ops


def extreme_pass(name: str, comparison: str) -> Any:
    """A pass of `cummax` or `cummin`: of equal elements the last counts, and a NaN always."""
    return cupy.ElementwiseKernel(
        "raw T values, raw int64 indices, int64 n, int64 inner, int64 shift",
        "T value, int64 index",
        f"""
        value = values[i];
        index = indices[i];
        if (i / inner % n >= shift) {{
          T before = values[i - shift * inner];
          if (!(value {comparison} before || value != value)) {{
            value = before;
            index = indices[i - shift * inner];
          }}
        }}
        """,
        name,
    )


max_pass, min_pass = extreme_pass("cummax_pass", ">="), extreme_pass("cummin_pass", "<=")


def scan(x: Any, dim: int, results: tuple[Any, ...], kernel: Any) -> tuple[Any, ...]:
    """The passes of a kernel `(results..., n, inner, shift, new results...)` over arrays in C
    order.
    """
    n, inner, shift = x.shape[dim], math.prod(x.shape[dim + 1 :]), 1
    spare = tuple(cupy.empty_like(r) for r in results)
    while shift < n:
        kernel(*results, n, inner, shift, *spare)
        results, spare = spare, results
        shift *= 2
    return results


def cumulative_extreme(xp: Any, x: Any, dim: int, kernel: Any) -> Any:
    """The extreme so far along dim and its index."""
    dim = axis(x, dim)
    if not x.ndim:
        return x.copy(), xp.zeros((), xp.int64)
    places = xp.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - 1 - dim))
    indices = xp.array(xp.broadcast_to(places, x.shape), order="C")
    return scan(x, dim, (xp.array(x, order="C"), indices), kernel)


def cumulative_max(xp: Any, x: Any, dim: int) -> Any:
    """`numpy.maximum.accumulate`."""
    return cumulative_extreme(xp, x, dim, max_pass)[0]


@ROWS["cummax"].on("cuda")
def cummax(xp: Any, x: Any, dim: int) -> Any:
    return cumulative_extreme(xp, check_ordered("cummax", x), dim, max_pass)


@ROWS["cummin"].on("cuda")
def cummin(xp: Any, x: Any, dim: int) -> Any:
    return cumulative_extreme(xp, check_ordered("cummin", x), dim, min_pass)


logsumexp_pass = cupy.ElementwiseKernel(
    "raw T values, int64 n, int64 inner, int64 shift",
    "T value",
    """
    T here = values[i];
    value = here;
    if (i / inner % n >= shift) {
      T before = values[i - shift * inner];
      if (before != before) {
        value = before;
      } else if (here == here) {
        T low = min(before, here);
        value = max(before, here);
        if (low - low == 0) value += log1p(exp(low - value));
      }
    }
    """,
    "logcumsumexp_pass",
)


@ROWS["logcumsumexp"].on("cuda")
def logcumsumexp(xp: Any, x: Any, dim: int) -> Any:
    dim = axis(x, dim)
    check_floating("logcumsumexp", x)
    if not x.ndim or not x.size:
        return x.copy()
    if x.dtype.kind == "c":
        return complex_logcumsumexp(xp, x, dim)
    wide = xp.array(x, "float32" if x.dtype.itemsize == 2 else None, order="C")
    return scan(x, dim, (wide,), logsumexp_pass)[0].astype(x.dtype, copy=False)


def complex_logcumsumexp(xp: Any, x: Any, dim: int) -> Any:
    """The same passes by array functions."""
    rows, shift = xp.moveaxis(x, dim, 0), 1
    while shift < len(rows):
        sums = complex_logaddexp(xp, rows[:-shift], rows[shift:])
        rows = xp.concatenate([rows[:shift], sums])
        shift *= 2
    return xp.moveaxis(rows, 0, dim).copy()


# ---- the indices of extremes: of several NaN, CuPy's argmax returns any


def first_index(xp: Any, x: Any, extreme: Any, dim: Any, keepdim: bool) -> Any:
    """The index of the first element that equals the extreme of its row, or is NaN as it is."""
    mask = x == extreme
    if x.dtype.kind == "f":
        mask |= (x != x) & (extreme != extreme)
    return xp.argmax(mask, dim, keepdims=keepdim)


def argument_of_extreme(name: str) -> Any:
    """The forward of argmax or argmin."""
    largest = name == "argmax"

    def forward(xp: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        nonempty_axes(name, x, dim)
        if not x.ndim:
            axes(x, dim)
            return xp.zeros((), xp.int64)
        extreme = x.max(dim, keepdims=True) if largest else x.min(dim, keepdims=True)
        return first_index(xp, x, extreme, dim, keepdim)

    return forward


def extreme_along(name: str) -> Any:
    """The forward of max or min along a dimension: (values, indices)."""

    def forward(xp: Any, x: Any, dim: int, keepdim: bool = False) -> Any:
        check_ordered(name, x)
        if not x.ndim:
            axis(x, dim)
            return x.copy(), xp.zeros((), xp.int64)
        dim = axis(x, dim)
        if not x.shape[dim]:
            raise IndexError(f"{name}: no elements to reduce: shape {x.shape}, dim={dim}")
        extreme = x.max(dim, keepdims=True) if name == "max" else x.min(dim, keepdims=True)
        indices = first_index(xp, x, extreme, dim, keepdim)
        return extreme if keepdim else extreme.squeeze(dim), indices

    return forward


for _name in ("argmax", "argmin"):
    ROWS[_name].on("cuda")(argument_of_extreme(_name))
for _name in ("max", "min"):
    ROWS[f"_{_name}"].on("cuda")(extreme_along(_name))
