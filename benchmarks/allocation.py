"""Allocation and release of arrays: the shared heap against NumPy's own allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .harness.case import OURS, Case

NUMPY = "numpy"
BATCH = 1000


def small(nbytes: int) -> dict[str, Any]:
    """Allocation and release."""

    def ours(st: Any) -> Callable[[], None]:
        def run() -> None:
            empty = np.empty
            with st.memory.shared_numpy():
                for _ in range(BATCH):
                    empty(nbytes, np.uint8)

        return run

    def theirs(numpy: Any) -> Callable[[], None]:
        def run() -> None:
            empty = numpy.empty
            for _ in range(BATCH):
                empty(nbytes, numpy.uint8)

        return run

    return {OURS: ours, NUMPY: theirs}


def large(nbytes: int) -> dict[str, Any]:
    """Allocation, a write to each page, release: with malloc the first write is a page fault."""

    def ours(st: Any) -> Callable[[], None]:
        def run() -> None:
            with st.memory.shared_numpy():
                np.empty(nbytes, np.uint8)[::4096] = 1

        return run

    def theirs(numpy: Any) -> Callable[[], None]:
        def run() -> None:
            numpy.empty(nbytes, numpy.uint8)[::4096] = 1

        return run

    return {OURS: ours, NUMPY: theirs}


CASES = [
    Case("allocation/64 B", small(64), 1.2, NUMPY, per=BATCH),
    Case("allocation/1 KB", small(1 << 10), 1.2, NUMPY, per=BATCH),
    Case("allocation/4 MB", large(4 << 20), against=NUMPY),  # malloc keeps such blocks, too
    # More than glibc caches at the top of its heap.
    Case("allocation/256 MB", large(256 << 20), 0.5, NUMPY, slow=True),
]
