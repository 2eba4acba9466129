"""Copies of bytes by one launch: a row that is repeated, and many arrays into one block of memory.

The kernels are the same for all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .kernel_source import kernel_source
from .launch import OPTIONS, blocks_for

MOST = 64  # arrays that one launch gathers, as in copies.cu
BLOCK_BYTES = 256 * 4 * 16  # that a block of threads copies
UNITS = {2: "fill_rows_2", 4: "fill_rows_4", 8: "fill_rows_8", 16: "fill_rows_16"}

# struct Parts of copies.cu. CuPy passes a NumPy array of one element by value.
PARTS = np.dtype(
    {
        "names": ["address", "start", "size", "room", "first_block", "n"],
        "formats": [
            (np.uint64, (MOST,)),
            (np.int64, (MOST,)),
            (np.int64, (MOST,)),
            (np.int64, (MOST,)),
            (np.int32, (MOST + 1,)),
            np.int32,
        ],
    },
    align=True,
)
PARTS_BYTES = np.dtype((np.void, PARTS.itemsize))


@functools.cache
def kernel(function: str) -> Any:
    """A kernel of copies.cu; compiled at the first launch on each device."""
    module = cupy.RawModule(code=kernel_source("copies", "float32"), options=OPTIONS)
    return module.get_function(function)


def fill_rows(out: Any, row: Any) -> None:
    """Writes `row` (m,) to each row of a contiguous `out` (..., m) of the same dtype; neither is
    empty. Copies: the row, if it has gaps.
    """
    if not row.flags.c_contiguous:
        row = cupy.ascontiguousarray(row)
    row_nbytes, nbytes = row.nbytes, out.nbytes
    unit = 16
    if row_nbytes % 16 or row.data.ptr % 16 or out.data.ptr % 16:
        unit = out.itemsize
    n = nbytes // unit
    kernel(UNITS[unit])((blocks_for(n), 1, 1), (256, 1, 1), (out, row, row_nbytes // unit, n))


class Gather:
    """Copies arrays to their places in one block of memory, by a launch for each MOST of them.

    Args:
        starts, sizes, ends: of each array in bytes: where it begins in the block, its size, and
            where the zeros after it end.
    """

    def __init__(self, starts: Sequence[int], sizes: Sequence[int], ends: Sequence[int]) -> None:
        self.launches: list[tuple[Any, tuple[int, int, int], Any]] = []
        rooms = [end - start for start, end in zip(starts, ends, strict=True)]
        for first in range(0, len(sizes), MOST):
            chosen = slice(first, first + MOST)
            blocks = [0]
            for room in rooms[chosen]:
                blocks.append(blocks[-1] + -(-room // BLOCK_BYTES))
            n = len(blocks) - 1
            parts = np.zeros(1, PARTS)
            parts["start"][0, :n] = starts[chosen]
            parts["size"][0, :n] = sizes[chosen]
            parts["room"][0, :n] = rooms[chosen]
            parts["first_block"][0, : n + 1] = blocks
            parts["n"] = n
            if blocks[-1]:
                grid = (blocks[-1], 1, 1)
                self.launches.append((parts["address"][0, :n], grid, parts.view(PARTS_BYTES)))
            else:
                self.launches.append((parts["address"][0, :n], (0, 1, 1), None))

    def __call__(self, out: Any, addresses: list[int]) -> None:
        """Writes to `out`, on the current device.

        Args:
            addresses: of contiguous arrays of the right sizes, there; 0, also that of an empty
                array: it is left out, and its part of the block stays.
        """
        run = kernel("gather")
        first = 0
        for places, grid, parts in self.launches:
            if parts is not None:
                places[:] = addresses[first : first + MOST]
                run(grid, (256, 1, 1), (out, parts))
            first += MOST
