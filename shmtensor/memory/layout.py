"""Arrays side by side in one block of shared memory, each at a multiple of 64 bytes.

| array 0 ......| gap | array 1 ..| gap | array 2 ........|
0                     starts[1]         starts[2]         end
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import native

Array = np.ndarray[Any, Any]
ALIGNMENT = 64  # bytes: a cache line, which no two arrays share


def aligned(size: int, itemsize: int = 1) -> int:
    """The size of an array with the gap after it, in items."""
    step = ALIGNMENT // itemsize or 1
    return -(-size // step) * step


def offsets(sizes: Iterable[int], itemsize: int = 1) -> tuple[list[int], int]:
    """Where arrays of these sizes begin, and where the last one ends; all in items."""
    starts, end = [], 0
    for size in sizes:
        starts.append(aligned(end, itemsize))
        end = starts[-1] + size
    return starts, end


def array_at(flat: Array, start: int, shape: tuple[int, ...]) -> Array:
    """The array of this shape that begins at item `start` of a 1-D array. Copies: none."""
    view: Array = flat[start : start + math.prod(shape)].reshape(shape)
    return view


def empty_shared(shape: tuple[int, ...], dtype: np.dtype[Any], zero: bool = False) -> Array:
    """An array in its own block: zeros, or uninitialised."""
    block: Any = native.allocate(max(1, math.prod(shape) * dtype.itemsize), zero)
    return np.ndarray(shape, dtype, block)


def zeros_shared(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros in their own block."""
    return empty_shared(shape, dtype, zero=True)
