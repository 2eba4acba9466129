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

__all__ = ["MOST", "fill_rows", "gather"]

MOST = 64  # arrays that one launch gathers, as in copies.cu
BLOCK_BYTES = 256 * 4 * 16  # that a block of threads copies
UNITS = {2: "fill_rows_2", 4: "fill_rows_4", 8: "fill_rows_8", 16: "fill_rows_16"}

# struct Parts of copies.cu. CuPy passes a NumPy array of one element by value.
PARTS = np.dtype(
    {
        "names": ["address", "start", "size", "first_block", "n"],
        "formats": [
            (np.uint64, (MOST,)),
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


def gather(out: Any, arrays: Sequence[Any], starts: Sequence[int]) -> None:
    """Copies contiguous arrays into one block of memory of the same device.

    Args:
        starts: where each begins in `out`, in bytes.
    """
    for first in range(0, len(arrays), MOST):
        part = arrays[first : first + MOST]
        n = len(part)
        parts = np.zeros(1, PARTS)
        sizes = [x.nbytes for x in part]
        blocks = [0]
        for size in sizes:
            blocks.append(blocks[-1] - -size // BLOCK_BYTES)
        parts["address"][0, :n] = [x.data.ptr for x in part]
        parts["start"][0, :n] = starts[first : first + n]
        parts["size"][0, :n] = sizes
        parts["first_block"][0, : n + 1] = blocks
        parts["n"] = n
        if blocks[-1]:
            kernel("gather")((blocks[-1], 1, 1), (256, 1, 1), (out, parts.view(PARTS_BYTES)))
