"""Adding at indices that may coincide, on the flat memory: NumPy's `add.at` is ten times faster
with one vector of indices than with several index arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native

Shape = tuple[int, ...]


def add_at_flat_indices(xp: Any, out: Any, indices: Any, values: Any, ufunc: str = "add") -> None:
    """out.flat[indices] += values, where an index may occur several times; out is contiguous."""
    values = xp.broadcast_to(values, indices.shape)
    indices, values = indices.reshape(-1), values.reshape(-1)
    if ufunc == "add" and native.add_at(out.reshape(-1), indices, values):
        return
    getattr(xp, ufunc).at(out.reshape(-1), native.private_index(indices), values)


def add_rows(out: Any, index: Any, values: Any) -> bool:
    """out[index] += values for index arrays of the first dimensions; False: another case."""
    rows = native.take_rows(out, index) if out.flags.c_contiguous else None
    if rows is None:
        return False
    n = len(index) if isinstance(index, tuple) else 1
    row_shape = out.shape[n:]
    width = math.prod(row_shape)
    shape = (*rows.shape, *row_shape)
    if values.shape != shape:
        values = np.broadcast_to(values, shape)
    if not row_shape and rows.ndim == 1:
        return native.index_add(out.reshape(-1), values, rows, 0)
    values = values.reshape(rows.size, width)
    table = out.reshape(math.prod(out.shape[:n]), width)
    return native.index_add(table, values, rows.reshape(-1), 0)


def flat_slice_indices(xp: Any, shape: Shape, dim: int, index: Any) -> Any:
    """The flat indices of the slices at `index` along dim: (before, index, after)."""
    before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    starts = xp.arange(before).reshape(-1, 1, 1) * (shape[dim] * after)
    return starts + index.reshape(-1, 1) * after + xp.arange(after)


def flat_indices_along(xp: Any, shape: Shape, dim: int, index: Any) -> Any:
    """The flat indices of gather and scatter: `index` along dim, its own positions elsewhere."""
    step, indices = 1, 0
    for d in range(len(shape) - 1, -1, -1):
        if d == dim:
            indices = indices + index * step
        else:
            indices = (
                indices + xp.arange(index.shape[d]).reshape(-1, *(1,) * (index.ndim - 1 - d)) * step
            )
        step *= shape[d]
    return indices


def flat_indices(xp: Any, shape: Shape, index: Any) -> Any:
    """The flat indices of x[index] for an x of that shape."""
    index = native.private_index(index)
    only = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if getattr(only, "dtype", None) is not None and only.dtype.kind in "iu" and shape:
        indices = flat_slice_indices(xp, shape, 0, xp.arange(shape[0])[only])
        return indices.reshape(*only.shape, *shape[1:])
    return xp.arange(math.prod(shape)).reshape(shape)[index]
