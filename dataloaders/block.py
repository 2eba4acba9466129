"""One block of shared memory per batch: all its arrays lie in it as aligned parts.

    | part 0 (dtype, shape) ..| pad | part 1 ........| pad | part 2 ..|
      ^ 64-byte aligned               ^ 64-byte aligned      ^

A batch then costs one allocation, one handle when it travels, and one release when its last view
dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shmtensor import native

__all__ = ["allocate_parts", "gather_rows", "stack_into"]

Array = np.ndarray[Any, Any]
ALIGNMENT = 64


def allocate_parts(parts: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[Array]:
    """Uninitialised arrays of the given shapes and dtypes, all in one shared block."""
    places: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
    end = 0
    for shape, dtype in parts:
        nbytes = dtype.itemsize
        for size in shape:
            nbytes *= size
        places.append((shape, dtype, end))
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    block = native.allocate(max(end, 1), False)
    return [np.ndarray(shape, dtype, block, offset) for shape, dtype, offset in places]


def stack_into(out: Array, arrays: Sequence[Array]) -> None:
    """Writes arrays of one shape `(...)` into `out` `(N, ...)`. Copies: one (array to block)."""
    try:
        native.stack_into(out, arrays)
    except (TypeError, ValueError):  # other dtypes than that of `out`, or subclasses of ndarray
        if not arrays[0].ndim:
            out[...] = arrays
            return
        # Joined along their first dimension they are what is stacked along a new one, in one call.
        n, rows, *rest = out.shape
        np.concatenate(arrays, axis=0, out=out.reshape(n * rows, *rest))


def gather_rows(columns: Sequence[Array], indices: Sequence[int]) -> list[Array]:
    """Rows `indices` of each column, in one shared block.

    Raises:
        IndexError: an index is out of range.

    Copies: one (column to block).
    """
    rows = np.array(indices, dtype=np.intp)
    n = len(columns[0])
    # As unsigned numbers negative indices are large: one pass finds both kinds of unusual ones.
    if rows.size and np.maximum.reduce(rows.view(np.uintp)) >= n:
        rows[rows < 0] += n
        if (wrong := (rows < 0) | (rows >= n)).any():
            shown = np.asarray(indices)[wrong][0]
            raise IndexError(f"TensorDataset: index is out of range: {shown} of {n} samples")
    out = allocate_parts(((len(rows), *column.shape[1:]), column.dtype) for column in columns)
    for column, part in zip(columns, out, strict=True):
        # "clip" lets NumPy write into `part` directly; the indices are known to be good here.
        column.take(rows, 0, part, "clip")
    return out
