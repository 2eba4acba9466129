"""Collectives between two ranks on one machine, and what memory allows for the bytes they move."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from .harness.case import Case, beside
from .harness.ranks import N_RANKS, rounds

__all__ = ["CASES", "MEMCPY", "all_reduce", "awaited", "barrier", "broadcast", "copies"]

MEMCPY = "shmtensor, memcpy"  # a party: the same bytes, read and written by C's memcpy alone


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


def awaited(st: Any, distributed: Any, seconds: float) -> Any:
    """In a rank: the CPU time that it takes to wait so long for rank 0."""

    def run() -> float:
        began = time.process_time()
        if distributed.get_rank() == 0:
            time.sleep(seconds)
        distributed.barrier()
        return time.process_time() - began

    return run


def copies(st: Any, distributed: Any, n: int, times: int) -> Any:
    """In a rank: what it has to read and write of n float32 numbers, between two tensors that are
    together as large as what the collective touches. `times`: how often every number is read, and
    written, by all ranks together.
    """
    x, y = st.zeros(n // N_RANKS), st.zeros(n // N_RANKS)
    turns = [(x, y), (y, x)] * (times // 2) + [(x, y)] * (times % 2)

    def run() -> None:
        for out, source in turns:
            ctypes.memmove(out.data_ptr(), source.data_ptr(), source.nbytes)

    return run


def called(st: Any, what: str, *arguments: Any) -> Any:
    return rounds(st, f"benchmarks.collectives:{what}", *arguments)


def by_four(st: Any, what: str, *arguments: Any) -> Any:
    """More ranks than CPUs, here."""
    return rounds(st, f"benchmarks.collectives:{what}", *arguments, ranks=4)


def bounded(what: str, n: int, times: int) -> dict[str, Any]:
    """Both libraries, and memcpy: see `copies`."""

    def memcpy(st: Any) -> Any:
        return called(st, "copies", n, times)

    return {**beside(called, what, n), MEMCPY: memcpy}


CASES = [
    Case("all_reduce/64 B, 2 ranks", beside(called, "all_reduce", 16), 0.1),
    Case("all_reduce/1 MB, 2 ranks", beside(called, "all_reduce", 1 << 18), 0.2),
    Case("all_reduce/25 MB, 2 ranks", bounded("all_reduce", 25 << 18, 2), 0.2, slow=True),
    Case("all_reduce/100 MB, 2 ranks", bounded("all_reduce", 100 << 18, 2), 0.2, slow=True),
    Case("all_reduce/64 B, 4 ranks", beside(by_four, "all_reduce", 16)),
    Case("all_reduce/1 MB, 4 ranks", beside(by_four, "all_reduce", 1 << 18)),
    Case("collective/CPU time of a wait of 0.1 s, 4 ranks", beside(by_four, "awaited", 0.1)),
    Case("collective/barrier, 2 ranks", beside(called, "barrier"), 0.1),
    Case("collective/broadcast 64 B, 2 ranks", beside(called, "broadcast", 16), 0.2),
    Case("collective/broadcast 25 MB, 2 ranks", bounded("broadcast", 25 << 18, 1), 0.2, slow=True),
]
