"""Collectives between two ranks on one machine, and what memory allows for the bytes they move."""

from __future__ import annotations

from typing import Any

from .case import Case, beside
from .ranks import rounds

__all__ = ["CASES", "all_reduce", "barrier", "broadcast"]


def all_reduce(st: Any, distributed: Any, n: int) -> Any:
    """In a rank: the sum of n float32 numbers."""
    x = st.zeros(n)
    return lambda: distributed.all_reduce(x)


def broadcast(st: Any, distributed: Any, n: int) -> Any:
    """In a rank: n float32 numbers from rank 0."""
    x = st.zeros(n)
    return lambda: distributed.broadcast(x, 0)


def barrier(st: Any, distributed: Any) -> Any:
    """In a rank: all have come."""
    return distributed.barrier


def called(st: Any, what: str, *arguments: Any) -> Any:
    return rounds(st, f"benchmarks.collective:{what}", *arguments)


CASES = [
    Case("all_reduce/64 B, 2 ranks", beside(called, "all_reduce", 16), 0.1),
    Case("all_reduce/1 MB, 2 ranks", beside(called, "all_reduce", 1 << 18), 0.2),
    Case("all_reduce/25 MB, 2 ranks", beside(called, "all_reduce", 25 << 18), 0.2, slow=True),
    Case("all_reduce/100 MB, 2 ranks", beside(called, "all_reduce", 100 << 18), 0.2, slow=True),
    Case("collective/barrier, 2 ranks", beside(called, "barrier"), 0.1),
    Case("collective/broadcast 64 B, 2 ranks", beside(called, "broadcast", 16), 0.2),
    Case(
        "collective/broadcast 25 MB, 2 ranks", beside(called, "broadcast", 25 << 18), 0.2, slow=True
    ),
]
