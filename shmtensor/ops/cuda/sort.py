"""Sorting and searching for CUDA: the runs of sorted rows, and a binary search for each element."""

from __future__ import annotations

from functools import partial
from typing import Any

import cupy

from ..sort.sort_topk_median import most_frequent
from ..sort.unique import check_real
from ..table.dims import axis, check_ordered
from ..table.op_table import ROWS
from .reduce import cumulative_max


def mode(xp: Any, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    return most_frequent(xp, x, dim, keepdim, partial(cumulative_max, xp))


def unique2(xp: Any, x: Any, dim: int | None = None) -> tuple[Any, Any, Any]:
    """Along a dimension by one sort of the rows; CuPy compares them one after another."""
    if dim is None or not x.size:
        values, inverse, counts = ROWS["_unique2"].forward(xp, x, dim)
        return values, inverse, counts
    check_real(x)
    dim = axis(x, dim)
    slices = xp.moveaxis(x, dim, 0)
    rows = slices.reshape(x.shape[dim], -1)
    order = xp.lexsort((rows.astype(xp.uint8) if x.dtype == bool else rows).T[::-1])
    ordered = rows[order]
    is_first = xp.ones(len(rows), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(1)
    starts = xp.flatnonzero(is_first)
    inverse = xp.empty(len(rows), xp.int64)
    inverse[order] = xp.cumsum(is_first) - 1
    values = xp.moveaxis(slices[order[starts]], 0, dim)
    return values, inverse, xp.diff(xp.append(starts, len(rows)))


# NaN counts as the largest, as in NumPy's order.
search = cupy.ElementwiseKernel(
    "raw T row, T x, int64 n, int64 columns, bool right",
    "int64 index",
    """
    T key = x;
    long long start = columns ? i / columns * n : 0, low = 0, high = n;
    while (low < high) {
      long long middle = (low + high) / 2;
      T value = row[start + middle];
      bool is_before = right
          ? !(key < value || (value != value && key == key))
          : value < key || (key != key && value == value);
      if (is_before) low = middle + 1;
      else high = middle;
    }
    index = low;
    """,
    "searchsorted",
)


@ROWS["_searchsorted"].on("cuda")
def searchsorted(
    xp: Any, sorted_sequence: Any, x: Any, sorter: Any = None, side: str = "left"
) -> Any:
    check_ordered("searchsorted", sorted_sequence)
    check_ordered("searchsorted", x)
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, sorter, -1)
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: leading sizes differ: {sorted_sequence.shape}, {x.shape}"
        )
    columns = x.shape[-1] if sorted_sequence.ndim > 1 else 0
    dtype = xp.result_type(sorted_sequence.dtype, x.dtype)
    dtype = xp.dtype("float32") if dtype == "float16" else dtype
    rows = xp.array(sorted_sequence, dtype, copy=None, order="C")
    keys, out = x.astype(dtype, copy=False), xp.empty(x.shape, xp.int64)
    return search(rows, keys, rows.shape[-1], columns, side == "right", out)
