"""Marks and ranges for NVIDIA's profilers. Without a GPU they do nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import cupy_runtime

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def nvtx() -> Any:
    """CuPy's module, or None without a GPU."""
    return cupy_runtime.initialize().cuda.nvtx if cupy_runtime.is_available() else None


class Depth(threading.local):
    """How many ranges are open in a thread."""

    value = 0


depth = Depth()


def range_push(msg: str) -> int:
    """Opens a range within the one that is open; returns how many are open around it."""
    if module := nvtx():
        module.RangePush(msg)
    depth.value += 1
    return depth.value - 1


def range_pop() -> int:
    """Closes the innermost range; returns how many are open around it."""
    if module := nvtx():
        module.RangePop()
    depth.value -= 1
    return depth.value


def range_start(msg: str) -> int:
    """Opens a range that any thread may close; returns its number for `range_end`."""
    module = nvtx()
    return int(module.RangeStart(msg, 0)) if module else 0


def range_end(range_id: int) -> None:
    """Closes a range of `range_start`."""
    if module := nvtx():
        module.RangeEnd(range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    if module := nvtx():
        module.Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; the message is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
