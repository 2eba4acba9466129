"""Collectives between two ranks on one machine, and memcpy of the same bytes as a bound."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from .harness.case import Case, compare
from .harness.ranks import N_RANKS, rounds

__all__ = ["CASES", "MEMCPY", "all_reduce", "barrier", "broadcast", "copies", "wait_cpu_time"]

MEMCPY = "shmtensor, memcpy"  # a party: the same bytes, copied by C's memcpy alone


def all_reduce(st: Any, distributed: Any, n: int) -> Any:
    """In a rank: the sum of n float32 numbers."""
    x = st.zeros(n)
    return lambda: distributed.all_reduce(x)


def broadcast(st: Any, distributed: Any, n: int) -> Any:
    """In a rank: n float32 numbers from rank 0."""
    x = st.zeros(n)
    return lambda: distributed.broadcast(x, 0)


def barrier(st: Any, distributed: Any) -> Any:
    """In a rank: a barrier."""
    return distributed.barrier


def wait_cpu_time(st: Any, distributed: Any, seconds: float) -> Any:
    """In a rank: the CPU time of waiting for rank 0, which sleeps."""

    def run() -> float:
        began = time.process_time()
        if distributed.get_rank() == 0:
            time.sleep(seconds)
        distributed.barrier()
        return time.process_time() - began

    return run


def copies(st: Any, distributed: Any, n: int, times: int) -> Any:
    """In a rank: copies of its share of n float32 numbers, between two tensors as large as the
    memory of the collective. `times`: how often all ranks together read and write every number.
    """
    x, y = st.zeros(n // N_RANKS), st.zeros(n // N_RANKS)
    turns = [(x, y), (y, x)] * (times // 2) + [(x, y)] * (times % 2)

    def run() -> None:
        for out, source in turns:
            ctypes.memmove(out.data_ptr(), source.data_ptr(), source.nbytes)

    return run


def on_two_ranks(st: Any, what: str, *arguments: Any) -> Any:
    return rounds(st, f"benchmarks.collectives:{what}", *arguments)


def on_four_ranks(st: Any, what: str, *arguments: Any) -> Any:
    """More ranks than CPUs, on a machine with two."""
    return rounds(st, f"benchmarks.collectives:{what}", *arguments, ranks=4)


def with_memcpy(what: str, n: int, times: int) -> dict[str, Any]:
    """Both libraries, and memcpy: see `copies`."""

    def memcpy(st: Any) -> Any:
        return on_two_ranks(st, "copies", n, times)

    return {**compare(on_two_ranks, what, n), MEMCPY: memcpy}


CASES = [
    Case("all_reduce/64 B, 2 ranks", compare(on_two_ranks, "all_reduce", 16), 0.1),
    Case("all_reduce/1 MB, 2 ranks", compare(on_two_ranks, "all_reduce", 1 << 18), 0.2),
    Case("all_reduce/25 MB, 2 ranks", with_memcpy("all_reduce", 25 << 18, 2), 0.2, slow=True),
    Case("all_reduce/100 MB, 2 ranks", with_memcpy("all_reduce", 100 << 18, 2), 0.2, slow=True),
    Case("all_reduce/64 B, 4 ranks", compare(on_four_ranks, "all_reduce", 16)),
    Case("all_reduce/1 MB, 4 ranks", compare(on_four_ranks, "all_reduce", 1 << 18)),
    Case(
        "collective/CPU time of a wait of 0.1 s, 4 ranks",
        compare(on_four_ranks, "wait_cpu_time", 0.1),
    ),
    Case("collective/barrier, 2 ranks", compare(on_two_ranks, "barrier"), 0.1),
    Case("collective/broadcast 64 B, 2 ranks", compare(on_two_ranks, "broadcast", 16), 0.2),
    Case(
        "collective/broadcast 25 MB, 2 ranks", with_memcpy("broadcast", 25 << 18, 1), 0.2, slow=True
    ),
]
