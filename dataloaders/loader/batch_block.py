"""One block of shared memory per batch: its arrays are aligned parts of it.

    | part 0 (dtype, shape) ..| pad | part 1 ........| pad | part 2 ..|
      ^ 64-byte aligned               ^ 64-byte aligned      ^

A batch then costs one allocation, one handle when it is sent, and one release when its last view
dies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from shmtensor import native
from shmtensor.memory.layout import aligned

Array = np.ndarray[Any, Any]
Parts = list[tuple[tuple[int, ...], np.dtype[Any]]]


class BlockAllocator:
    """Allocates the block of a batch inside this context.

    Attributes:
        array: uint8 in shared memory for the next block that fits and has at least half the size
            of the largest one so far (smaller ones are not the batch); None: blocks are allocated.
        most: bytes of the largest block so far.
        early: parts and arrays of the batch that were allocated before collation, or None.
        lent: the memory of another process that this batch may be written to, or None.
    """

    __slots__ = ("array", "early", "lent", "most", "outer")
    current: ClassVar[BlockAllocator | None] = None

    def __init__(self) -> None:
        self.array: Array | None = None
        self.lent: Array | None = None
        self.most = 0
        self.early: tuple[Parts, list[Array]] | None = None
        # The outer loader's, if the data set iterates over another loader.
        self.outer: BlockAllocator | None = None

    def __enter__(self) -> None:
        self.outer, BlockAllocator.current = BlockAllocator.current, self

    def __exit__(self, *error: object) -> None:
        BlockAllocator.current = self.outer
        self.outer = self.array = self.early = self.lent = None

    def lend(self, array: Array | None) -> None:
        """Takes memory of the loading process for the next batch."""
        self.array = self.lent = array

    def allocate(self, nbytes: int) -> Any:
        """Memory for a block of `nbytes`."""
        self.most = max(self.most, nbytes)
        array = self.array
        if array is not None and self.most <= 2 * nbytes <= 2 * array.nbytes:
            self.array = None
            return array
        return native.allocate(nbytes, False)

    @classmethod
    def early_arrays(cls) -> list[Array]:
        """The arrays of this batch that were allocated before collation."""
        early = None if cls.current is None else cls.current.early
        return [] if early is None else early[1]

    def take_early(self, parts: Parts) -> list[Array] | None:
        """The arrays that were allocated before collation, if they are these; only once."""
        early, self.early = self.early, None
        return early[1] if early is not None and early[0] == parts else None


def arrays_in_block(parts: Parts, allocate: Callable[[int], Any]) -> list[Array]:
    """Uninitialised arrays of these shapes and dtypes, in one block."""
    sizes = [aligned(math.prod(shape) * dtype.itemsize) for shape, dtype in parts]
    *starts, end = accumulate(sizes, initial=0)
    block = allocate(end or 1)
    return [np.ndarray(*part, block, offset) for part, offset in zip(parts, starts, strict=True)]


def allocate_parts(parts: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[Array]:
    """Uninitialised arrays of given shapes and dtypes, in one shared block.

    Parameters
    ----------
    parts : iterable of (tuple, dtype)
        Shape and dtype of each array.

    Returns
    -------
    list of ndarray

    See Also
    --------
    Rows

    Examples
    --------
    >>> from shmtensor.dataloaders import allocate_parts
    >>> [x.shape for x in allocate_parts([((2, 3), np.dtype("f4")), ((2,), np.dtype("i8"))])]
    [(2, 3), (2,)]
    """
    parts = list(parts)
    allocator = BlockAllocator.current
    if allocator is None:
        return arrays_in_block(parts, lambda nbytes: native.allocate(nbytes, False))
    early = allocator.take_early(parts)
    return arrays_in_block(parts, allocator.allocate) if early is None else early


def stack_into(out: Array, arrays: Sequence[Array]) -> None:
    """Writes arrays of one shape `(...)` into `out` `(N, ...)`. Copies: one (array to block), none
    of an array that is its row of `out` already."""
    try:
        native.stack_into(out, arrays)
    except (TypeError, ValueError):  # other dtypes than that of `out`, or subclasses of ndarray
        if not arrays[0].ndim:
            out[...] = arrays
            return
        # One call: concatenating along the first dimension writes the same bytes as stacking.
        n, rows, *sizes = out.shape
        np.concatenate(arrays, axis=0, out=out.reshape(n * rows, *sizes))


def checked_rows(
    where: str, indices: Sequence[int] | Array, n: int, what: str = "samples"
) -> Array:
    """Indices of `n` rows as numbers from 0 on; IndexError if one is out of range."""
    rows = np.asarray(indices, np.intp)
    if (wrong := (rows < -n) | (rows >= n)).any():
        raise IndexError(f"{where}: index is out of range: {rows[wrong][0]} of {n} {what}")
    return np.where(rows < 0, rows + n, rows)


def gather_rows(columns: Sequence[Array], indices: Sequence[int]) -> list[Array]:
    """Rows `indices` of each column, in one shared block.

    Raises:
        IndexError: an index is out of range.
        TypeError: the indices are not integers.

    Copies: one (column to block); two of columns that are not contiguous or of another byte
    order.
    """
    rows = np.asarray(indices)
    if rows.size and (rows.ndim != 1 or rows.dtype.kind not in "iu"):
        raise TypeError(f"dataset: indices are not integers: {rows.dtype} {rows.shape}")
    rows = rows.astype(np.intp, copy=False)
    n = len(columns[0])
    # Negative indices are large as unsigned numbers: one pass finds them and those out of range.
    if rows.size and np.maximum.reduce(rows.view(np.uintp)) >= n:
        rows = checked_rows("dataset", rows, n)
    out = allocate_parts(
        ((len(rows), *x.shape[1:]), x.dtype if x.dtype.isnative else x.dtype.newbyteorder("="))
        for x in columns
    )
    for column, part in zip(columns, out, strict=True):
        if column.flags.c_contiguous and column.flags.aligned and column.dtype.isnative:
            # "clip" lets NumPy write into `part` directly; the indices were checked above.
            column.take(rows, 0, part, "clip")
        else:  # `take` would copy the whole column first
            part[...] = column[rows]
    return out
