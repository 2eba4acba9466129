"""One block of shared memory per batch: all its arrays lie in it as aligned parts.

    | part 0 (dtype, shape) ..| pad | part 1 ........| pad | part 2 ..|
      ^ 64-byte aligned               ^ 64-byte aligned      ^

A batch then costs one allocation, one handle when it travels, and one release when its last view
dies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from shmtensor import native
from shmtensor.memory.layout import aligned, offsets

__all__ = ["Place", "allocate_parts", "gather_rows", "stack_into"]

Array = np.ndarray[Any, Any]


class Place:
    """Where the block of a batch is made while this is entered.

    Attributes:
        array: uint8 in shared memory, which the next block takes if it fits and is no smaller than
            half the largest one so far (others are not the batch); None: blocks are allocated.
        most: bytes of the largest block so far.
    """

    __slots__ = ("array", "most", "outer")
    current: ClassVar[Place | None] = None

    def __init__(self) -> None:
        self.array: Array | None = None
        self.most = 0
        self.outer: Place | None = None  # of a loader whose data set uses this one's

    def __enter__(self) -> None:
        self.outer, Place.current = Place.current, self

    def __exit__(self, *error: object) -> None:
        Place.current = self.outer
        self.outer = self.array = None

    def take(self, nbytes: int) -> Any:
        """Memory for a block of so many bytes."""
        self.most = max(self.most, nbytes)
        array = self.array
        if array is not None and self.most <= 2 * nbytes <= 2 * array.nbytes:
            self.array = None
            return array
        return native.allocate(nbytes, False)


def allocate_parts(parts: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[Array]:
    """Uninitialised arrays of the given shapes and dtypes, all in one shared block."""
    parts = list(parts)
    starts, end = offsets([math.prod(shape) * dtype.itemsize for shape, dtype in parts])
    nbytes = aligned(end) or 1
    place = Place.current
    block = native.allocate(nbytes, False) if place is None else place.take(nbytes)
    return [np.ndarray(*part, block, at) for part, at in zip(parts, starts, strict=True)]


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
            raise IndexError(f"dataset: index is out of range: {shown} of {n} samples")
    out = allocate_parts(((len(rows), *column.shape[1:]), column.dtype) for column in columns)
    for column, part in zip(columns, out, strict=True):
        # "clip" lets NumPy write into `part` directly; the indices are known to be good here.
        column.take(rows, 0, part, "clip")
    return out
