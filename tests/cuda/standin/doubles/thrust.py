"""A double of cupy.cuda.thrust, in whose place it is imported: sorts by NumPy, as queued work."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tests.cuda.standin.doubles.library import array, current_stream, queue

available = True
DTYPES = "?bBhHiIlLqQefdFD"


def get_build_version() -> int:
    return 300200


def sort(dtype: Any, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Sorts the last axis of a contiguous array in place. Copies: one row at a time."""
    if np.dtype(dtype).char not in DTYPES:
        raise NotImplementedError(f"Sorting arrays with dtype '{dtype}' is not supported")
    data = array(data_start, dtype, prod(shape)).reshape(shape)
    if len(shape) > 1:
        array(keys_start, np.uintp, prod(shape))  # the room that thrust wants
    queue(current_stream(), lambda: data.sort(axis=-1, kind="stable"))


def argsort(
    dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]
) -> None:
    """Writes the stable order of the last axis to idx; sorts the data, too, as thrust does."""
    if np.dtype(dtype).char not in DTYPES:
        raise NotImplementedError(f"Sorting arrays with dtype '{dtype}' is not supported")
    data = array(data_start, dtype, prod(shape)).reshape(shape)
    indices = array(idx_start, np.uintp, prod(shape)).reshape(shape)
    if len(shape) > 1:
        array(keys_start, np.uintp, prod(shape))

    def work() -> None:
        order = data.argsort(axis=-1, kind="stable")
        indices[...] = order
        data[...] = np.take_along_axis(data, order, -1)

    queue(current_stream(), work)


def lexsort(dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
    """Writes the order of n columns of a (k, n) array, the last row being the first key."""
    if np.dtype(dtype).char not in DTYPES:
        raise TypeError(f"Sorting keys with dtype '{dtype}' is not supported")
    keys = array(keys_start, dtype, k * n).reshape(k, n)
    indices = array(idx_start, np.uintp, n)

    def work() -> None:
        indices[...] = np.lexsort(keys)

    queue(current_stream(), work)
