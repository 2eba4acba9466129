"""Sizes of results, checked before anything is allocated for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import errors, native

SMALL = 1 << 20  # elements in a dimension; functions of fewer need not call `check_size`
SMALL_NBYTES = 1 << 26  # less than this is not compared with the available memory


def check_size(name: str, shape: Sequence[int], itemsize: int = 8) -> None:
    """Checks that a result, or an intermediate array, can exist. For functions that compute with
    private arrays: an array in shared memory is refused when it is allocated.

    Args:
        itemsize: bytes of an element.
    """
    nbytes = math.prod(shape) * itemsize
    if nbytes < SMALL_NBYTES:
        return
    if nbytes >= 2**63:
        raise RuntimeError(
            f"{name}: Storage size calculation overflowed with sizes={list(shape)}: {itemsize} "
            "bytes each"
        )
    available, _, limit = native.headroom()
    if nbytes > available:
        raise errors.OutOfSharedMemory(
            f"{name}: {nbytes} bytes are needed for shape {tuple(shape)}: {available} are "
            f"available, limited by {limit}"
        )
