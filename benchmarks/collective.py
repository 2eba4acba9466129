"""all_reduce between two ranks on one machine."""

from __future__ import annotations

from typing import Any

from .case import Case, beside
from .ranks import rounds

__all__ = ["CASES", "all_reduce"]


def all_reduce(st: Any, distributed: Any, n: int) -> Any:
    """In a rank: the sum of n float32 numbers."""
    x = st.zeros(n)
    return lambda: distributed.all_reduce(x)


def reduced(st: Any, n: int) -> Any:
    return rounds(st, "benchmarks.collective:all_reduce", n)


CASES = [
    Case("all_reduce/64 B, 2 ranks", beside(reduced, 16), 0.1),
    Case("all_reduce/1 MB, 2 ranks", beside(reduced, 1 << 18), 0.2),
    Case("all_reduce/25 MB, 2 ranks", beside(reduced, 25 << 18), 0.2, slow=True),
]
